// FixedTable: u64 keys to u64 values, in arrays: the index without items.
//
//   isotherm::FixedTable table;
//   isotherm::FixedHandle handle(table);              // one a thread
//   handle.put(keys, values);                          // std::span<const uint64_t>
//   handle.get(keys, values_out, found_out);           // misses leave values_out untouched
//
// Every key and every value may be stored, 0 and 2^64 - 1 included. The table grows by itself; it
// takes 27 to 29 bytes an entry at any count.
//
// A table that is a cache takes another index (`FixedOptions::index`): it has a fixed size, and a
// new key that finds no room takes that of an older one. `cuckoo` takes 24.1 bytes of memory an
// entry and evicts by CLOCK, `set` takes 22 and evicts the least recently used of 16. Evictions are
// counted; a key that was evicted is absent, and no answer is ever wrong otherwise.
//
// Threads. As Store: a handle a thread, at most 256. Each key is linearizable; the operations of
// one call take effect in the order of the arrays. Errors. Spans of different lengths throw
// std::invalid_argument, and so does an index of a fixed size that is told none. std::bad_alloc
// where `maxmemory` has no room for an empty table (half a MiB with the line index). Where memory
// ends, a call stops with out_of_memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "isotherm/status.h"
#include "isotherm/table_requests.h"

namespace isotherm {

struct FixedOptions {
  // The line index grows and refuses at its cap; the others have a fixed size and evict.
  FixedIndexKind index = FixedIndexKind::line;
  // Bytes that the table may take; 0: no cap. At the cap new keys are refused with out_of_memory.
  // An index of a fixed size takes as much as it can of it at once.
  uint64_t maxmemory = 0;
  // Entries to make room for at once; more are taken in by growth. The room of an index of a fixed
  // size that has no cap; it is told one of both.
  uint64_t expected_entries = 0;
  // Seed of the hash; empty: drawn at random.
  std::optional<uint64_t> hash_seed = {};
};

class FixedTable {
 public:
  explicit FixedTable(const FixedOptions& options = {});
  ~FixedTable();
  FixedTable(const FixedTable&) = delete;
  FixedTable& operator=(const FixedTable&) = delete;

  uint64_t size() const;
  uint64_t memory() const;     // bytes
  uint64_t evictions() const;  // entries that went for others; 0 with the line index

 private:
  friend class FixedHandle;
  struct State;
  std::unique_ptr<State> state_;
};

class FixedHandle {
 public:
  explicit FixedHandle(FixedTable& table);
  ~FixedHandle();
  FixedHandle(const FixedHandle&) = delete;
  FixedHandle& operator=(const FixedHandle&) = delete;

  // values[i] of keys[i], found[i] 1 or 0; returns how many were found. Shapes: all [n].
  uint64_t get(std::span<const uint64_t> keys, std::span<uint64_t> values,
               std::span<uint8_t> found);
  std::optional<uint64_t> get(uint64_t key);
  // Gets that compare no keys, of a table whose index is cuckoo or set: of each row the first entry
  // that has the key's signature (32 bits; of a set 8), and its key in `stored_keys`, which the
  // caller compares. Another key may be there in place of the one asked for, also where `get` finds
  // that one. Returns how many were found. Source: Mega-KV, section 6.3, getk.
  uint64_t get_stored(std::span<const uint64_t> keys, std::span<uint64_t> stored_keys,
                      std::span<uint64_t> values, std::span<uint8_t> found);

  // The state of each key before put and erase; give both spans or none.
  struct Previous {
    std::span<uint64_t> values;
    std::span<uint8_t> found;
  };
  // Stores all; `done` in the result is how many before memory ended.
  struct Result {
    Status status = Status::ok;
    uint64_t done = 0;
    uint64_t evicted = 0;  // entries that went for these
  };
  Result put(std::span<const uint64_t> keys, std::span<const uint64_t> values,
             Previous previous = {});
  // Stores the pairs whose key is absent; stored[i] 1 or 0.
  Result put_if_absent(std::span<const uint64_t> keys, std::span<const uint64_t> values,
                       std::span<uint8_t> stored);
  // Returns how many were present.
  uint64_t erase(std::span<const uint64_t> keys, Previous previous = {});

  // Stores `desired` where the value is `expected`: ok, condition_failed (current is what it is) or
  // not_found.
  Status compare_and_swap(uint64_t key, uint64_t expected, uint64_t desired,
                          uint64_t* current = nullptr);

  // Any mix of operations, with the meaning they have in a gpu::Table, on columns in host memory.
  // Where memory ends, requests that need a new line are answered reply_retry.
  void run(const TableRequests& requests);

  // Visits whole lines of entries from `cursor` on, at least `count` while there are any; returns
  // the cursor to go on from, 0 at the end.
  uint64_t scan(uint64_t cursor, uint64_t count,
                const std::function<void(uint64_t key, uint64_t value)>& visit);

  // A bounded step of growth; put calls it too. True while more waits.
  bool maintain();

 private:
  Status swap_in_cache(uint64_t key, uint64_t expected, uint64_t desired, uint64_t* current);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isotherm
