// What tables of u64 keys are asked and answer: operations and columns, alike for those in host
// memory (isotherm/fixed_table.h, row_table.h) and on GPUs (isotherm/gpu/).
//
// A reply found[i] is 1 where the key was present before the request, 0 where it was absent, and
// reply_retry where memory was full.
#pragma once

#include <cstdint>

namespace isotherm {

// Items (isotherm/gpu/item_table.h) take the first four and the last three.
enum class TableOp : uint8_t {
  get,
  put,
  erase,
  put_if_absent,
  compare_and_swap,
  add,
  put_if_present,
  put_if_version,
  erase_if_version,
};

inline constexpr uint8_t reply_retry = 255;

// What a table finds its entries by. The line index grows; the others are for caches, of a fixed
// size, and evict (isotherm/fixed_table.h, isotherm/gpu/cache.h).
enum class FixedIndexKind : uint8_t { line, cuckoo, set };

// Requests as columns of `rows` rows each, in the memory that the call is for.
struct TableRequests {
  uint64_t rows = 0;
  const TableOp* ops = nullptr;  // null: all are `op`
  TableOp op = TableOp::get;
  const uint64_t* keys = nullptr;
  // Of put, put_if_absent, compare_and_swap and add, and of compare_and_swap; null: all 0.
  const uint64_t* values = nullptr;
  const uint64_t* expected = nullptr;
  // Replies; both null where none are wanted (then no request may be a get).
  uint64_t* values_out = nullptr;
  uint8_t* found = nullptr;
  // A promise that no key comes twice in the call, which makes writes faster. If it is broken, the
  // replies for that key and its state have no meaning.
  bool distinct_keys = false;
};

}  // namespace isotherm
