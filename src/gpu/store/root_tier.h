// RootTier: roots in the memory of one device, as the host uses them: 64-bit keys to roots
// (index/item_table.h). executor/device/root_table.h makes one index of several tiers.
//
// Whoever looks up writes the keys into the columns, which lie in pinned memory, calls `find`, then
// `wait`, and reads the roots there. Whoever must not wait calls `wait` when `ready` says so;
// changes go into the columns of changes and on to the device by `change`, which returns when that
// is queued. Whatever is called later sees it.
//
// A tier may have less than all hashes (gpu/split/bin_tier.h).
//
// Errors. All functions throw DeviceError when the device fails, or where its memory is full so
// that a change found no place; what the tier holds is then of no use any more.
// Threads. One at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gpu/split/bin_tier.h"
#include "gpu/store/value_tier.h"
#include "items/location.h"

namespace isotherm {

struct RootColumns {
  uint64_t rows = 0;  // room
  // Lookups: keys in; a root out where `found` is 1.
  uint64_t* keys = nullptr;
  Location* roots = nullptr;
  uint8_t* found = nullptr;
  // Changes: another root for a key, location::none erases it. No key twice.
  uint64_t* changed_keys = nullptr;
  Location* changed_roots = nullptr;

  // The same with lookups from row `first` on.
  RootColumns from(uint64_t first) const {
    return {rows, keys + first, roots + first, found + first, changed_keys, changed_roots};
  }
};

class RootTier : public BinTier {
 public:
  // The memory node of the host that is nearest to the device; -1: unknown.
  virtual int memory_node() const = 0;
  // Memory for values on the device, which the tier must outlive; std::bad_alloc without it.
  virtual std::unique_ptr<ValueTier> make_values(uint64_t bytes, uint64_t cap) = 0;
  // Columns with room for `rows` rows, in the same place as before where there was room; otherwise
  // what was in them is gone. Throws std::bad_alloc too.
  virtual const RootColumns& columns(uint64_t rows) = 0;
  // Looks up the first `rows` keys; the roots are there when `wait`, which is called next, returns.
  virtual void find(uint64_t rows) = 0;
  virtual void wait() = 0;
  // Whether what was called last, `find` or `change`, is so far that what is called next would not
  // wait for it, or would throw.
  virtual bool ready() = 0;
  // Applies the first `rows` changes.
  virtual void change(uint64_t rows) = 0;
  // Whether that would wait for nothing, with few rows, when nothing is under way.
  virtual bool changes_at_once(uint64_t rows) = 0;
  // Empties the tier, which has all hashes then, and gives its memory back.
  virtual void clear() = 0;
  // Of device memory that the tier takes. Waits for all calls made so far.
  virtual uint64_t device_bytes() = 0;
  // Of pinned memory of the host.
  virtual uint64_t pinned_bytes() const = 0;
};

// Of all tiers of a store and the host's (executor/device/root_table.h).
struct RootTableStats {
  uint64_t device_bytes = 0;
  uint64_t host_entries = 0;  // that the devices have no room for
  uint64_t host_lookups = 0;  // that were made among these
  uint64_t bins_to_host = 0;  // that have moved
  uint64_t bins_to_device = 0;
};

// Makes the tiers of a store, one for each device, with this seed of hashes; DeviceError or
// std::bad_alloc without them.
using RootTiersMaker = std::function<std::vector<std::unique_ptr<RootTier>>(uint64_t seed)>;

}  // namespace isotherm
