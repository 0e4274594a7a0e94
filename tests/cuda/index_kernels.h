// Index kernels: find, upsert, erase and compare-and-swap on the GPU, from the headers that the CPU
// uses, for both tables: byte strings (the word is a location) and fixed width (the word is the
// value).
//
// A batch is columns in device memory. Each thread owns a request: it reads its row and writes its
// reply; in between the tile of 8 threads works its 8 requests off one after another.
//
// Limits. Writes of one batch are for different keys (conflicting ones are combined before an index
// is touched), except `add`, which is one compare-and-swap per request and loses none even if all
// are for one key that is present. Only one batch runs at a time, as between batches the owner of
// the tables recycles overflow lines.
#pragma once

#include <cstdint>

#include "cuda/overflow_lines.h"
#include "index/probe.h"
#include "index/view.h"

namespace isotherm {

enum class Operation : uint8_t { find, upsert, erase, compare_and_swap, add };

// Device pointers to `rows` elements each.
struct Columns {
  uint64_t rows = 0;
  const uint64_t* keys = nullptr;      // byte strings: the hash of the key, never 0
  const uint64_t* words = nullptr;     // to store or, for `add`, to add
  const uint64_t* expected = nullptr;  // compare_and_swap only
  Found* previous = nullptr;           // what was there before
  Change* change = nullptr;
};

// Byte strings. Compare-and-swap compares locations; location::none, 0, stands for an absent key on
// both sides, so it also inserts and erases.
struct ByteTable {
  IndexView index;
};

// u64 keys to u64 values. Compare-and-swap compares values, of present keys only. The one key whose
// hash is 0 lives in the first slot of the head: {1, value}, or zero.
struct FixedTable {
  IndexView index;
  Bucket* head = nullptr;
  uint64_t seed = 0;
};

// Runs one batch on the default stream.
void launch(Operation operation, const ByteTable& table, const OverflowLines& lines,
            const Columns& columns);
void launch(Operation operation, const FixedTable& table, const OverflowLines& lines,
            const Columns& columns);

}  // namespace isotherm
