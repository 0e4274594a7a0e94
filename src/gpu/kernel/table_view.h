// TableView: a fixed-width table in device memory, as kernels see it.
//
// Parts: the directory of the line index (index/view.h), the stock of overflow lines, and the
// head: a line of its own for the one key whose hash is 0, kept there as an entry of hash 1.
//
// Counts. Kernels add what they insert and erase to one of `count_shards` counters, each in a line
// of its own; the count of the table is their sum.
#pragma once

#include <cstdint>

#include "base/hash.h"
#include "gpu/kernel/line_stock.h"
#include "index/probe.h"
#include "index/view.h"

namespace isotherm {

struct alignas(128) CountShard {
  static constexpr uint32_t shards = 64;
  int64_t entries = 0;
};

// Where the entry of a key is looked for: in the chain of `line`, by `hash`.
struct Home {
  Bucket* line = nullptr;
  uint64_t hash = 0;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_given() const { return line != nullptr; }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void clear() { line = nullptr; }
};

struct TableView {
  IndexView index;
  Bucket* head = nullptr;
  uint64_t seed = 0;
  StockView stock;
  CountShard* counts = nullptr;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t hash(uint64_t key) const { return mix(key, seed); }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Home home(uint64_t hash) const {
    if (hash == 0) return {head, 1};
    return {index.home(hash), hash};
  }
};

}  // namespace isotherm
