// KeyRows: which rows of a write group (isotherm/write_group.h) change a key, the newest first.
//
// A table by the keys' hashes says which row is the newest, and each row which one was before it;
// keys themselves lie in the group. A key that was added last goes first, so that a place that
// becomes free is on nobody's way to another. Rows keep a part of their keys' hashes, so the table
// grows without a look at keys.
//
// Threads. One.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "db/write_plan.h"
#include "isotherm/write_group.h"
#include "tree/tree_run.h"

namespace isotherm {

class KeyRows {
 public:
  static constexpr uint32_t none = ~uint32_t{0};

  // `hash_seed`: of the tree whose runs will have the keys, so that parts of a transaction
  // (db/db_transaction.cc) go into shards of their own there.
  KeyRows(const WriteGroup& group, uint64_t hash_seed) : group_(group), hash_seed_(hash_seed) {}

  uint64_t hash_of(std::string_view key) const {
    return hash_in(keys_database, hash_bytes(key, hash_seed_));
  }

  uint32_t newest(std::string_view key) const { return newest(key, hash_of(key)); }
  uint32_t newest(std::string_view key, uint64_t hash) const {
    return slots_.empty() ? none : slots_[place_of(key, hash)].row;
  }
  uint32_t older(uint32_t row) const { return rows_[row].older; }
  // So that `add` of one more row does not fail. Throws std::bad_alloc.
  void make_room() {
    constexpr size_t least = 8;
    if (rows_.size() == rows_.capacity()) rows_.reserve(2 * rows_.size() + least);
    if (2 * rows_.size() >= slots_.size()) grow(std::max(2 * slots_.size(), 4 * least));
  }
  // The group's last row.
  void add() { add(hash_of(group_.row(rows_.size()).key)); }
  void add(uint64_t hash) {
    const auto row = static_cast<uint32_t>(rows_.size());
    Slot& slot = slots_[place_of(group_.row(row).key, hash)];
    rows_.push_back({std::exchange(slot.row, row), slot.tag = tag_of(hash)});
  }
  // Takes back what was added last, but for the first `size` rows, before the group does.
  void shorten(size_t size) {
    for (; rows_.size() > size; rows_.pop_back()) {
      slot_with(slots_, static_cast<uint32_t>(rows_.size() - 1), rows_.back().tag).row =
          rows_.back().older;
    }
  }

 private:
  struct Slot {
    uint32_t row = none;
    uint32_t tag = 0;  // of the key's hash
  };
  struct Row {
    uint32_t older;
    uint32_t tag;
  };
  using Slots = std::vector<Slot>;  // a power of two, or none

  // Hashes of a part agree in their low bits. The low bits of the rest say where the key is.
  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash / TreeRun::shards); }
  // Where the key is, or would be.
  size_t place_of(std::string_view key, uint64_t hash) const {
    const size_t mask = slots_.size() - 1;
    const uint32_t tag = tag_of(hash);
    size_t at = tag & mask;
    while (slots_[at].row != none &&
           (slots_[at].tag != tag || group_.row(slots_[at].row).key != key)) {
      at = (at + 1) & mask;
    }
    return at;
  }
  // That of a key whose newest row, if any, this is.
  static Slot& slot_with(Slots& slots, uint32_t row, uint32_t tag) {
    const size_t mask = slots.size() - 1;
    size_t at = tag & mask;
    while (slots[at].row != row) at = (at + 1) & mask;
    return slots[at];
  }
  void grow(size_t size) {
    Slots larger(size);
    for (uint32_t row = 0; row < rows_.size(); ++row) {
      slot_with(larger, rows_[row].older, rows_[row].tag) = {row, rows_[row].tag};
    }
    slots_ = std::move(larger);
  }

  const WriteGroup& group_;
  const uint64_t hash_seed_;
  Slots slots_;
  std::vector<Row> rows_;
};

}  // namespace isotherm
