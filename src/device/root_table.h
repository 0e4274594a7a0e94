// RootTable: the index of a store in device memory, as the host uses it: 64-bit keys to roots
// (index/item_table.h).
//
// A round (device/rounds.h) writes the keys it looks up into the columns, which lie in pinned
// memory, calls `find`, then `wait`, and reads the roots there; what it changed goes into the
// columns of changes and on to the device by `change`, which returns when that is queued. Whatever
// is called later sees it.
//
// Errors. All functions throw DeviceError when the device fails, or where its memory is full so
// that a change found no place; what the table holds is then of no use any more, and the host makes
// an index of its own from the live items.
// Threads. One at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

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
};

class RootTable {
 public:
  virtual ~RootTable() = default;

  // Columns with room for `rows` rows, in the same place as before where there was room; otherwise
  // what was in them is gone. Throws std::bad_alloc too.
  virtual const RootColumns& columns(uint64_t rows) = 0;
  // Looks up the first `rows` keys; the roots are there when `wait`, which is called next, returns.
  virtual void find(uint64_t rows) = 0;
  virtual void wait() = 0;
  // Applies the first `rows` changes.
  virtual void change(uint64_t rows) = 0;
  // Visits the entries of about `lines` lines at most from `bound` on, visit(key, root), until
  // there are `wanted`, and returns the bound to go on from; 0 at the end. Lines are visited whole
  // and in a fixed order, also while the table grows between calls.
  virtual uint64_t scan(uint64_t bound, uint64_t lines, uint64_t wanted,
                        const std::function<void(uint64_t key, Location root)>& visit) = 0;
  // Empties the table and gives its memory back.
  virtual void clear() = 0;
  // Of device memory that the table takes. Waits for all calls made so far.
  virtual uint64_t device_bytes() = 0;
};

// Makes the table of a store with this seed of hashes; DeviceError or std::bad_alloc without it.
using RootTableMaker = std::function<std::unique_ptr<RootTable>(uint64_t seed)>;

}  // namespace isotherm
