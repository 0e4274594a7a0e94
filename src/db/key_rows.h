// KeyRows: which rows of a write group (isotherm/write_group.h) change a key, the newest first.
//
// A table by the keys' hashes says which row is the newest, and each row which one was before it;
// keys themselves lie in the group. A key that was added last goes first, so that a place that
// becomes free is on nobody's way to another.
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
    return slots_.empty() ? none : slots_[place_of(slots_, key, hash)].row;
  }
  uint32_t older(uint32_t row) const { return older_[row]; }
  // So that `add` of one more row does not fail. Throws std::bad_alloc.
  void make_room() {
    constexpr size_t least = 8;
    if (older_.size() == older_.capacity()) older_.reserve(2 * older_.size() + least);
    if (2 * older_.size() >= slots_.size()) grow(std::max(2 * slots_.size(), 4 * least));
  }
  // The group's last row.
  void add() { add(hash_of(group_.row(older_.size()).key)); }
  void add(uint64_t hash) {
    const auto row = static_cast<uint32_t>(older_.size());
    older_.push_back(put(slots_, row, hash));
  }
  // Takes back what was added last, but for the first `size` rows, before the group does.
  void shorten(size_t size) {
    for (; older_.size() > size; older_.pop_back()) {
      const std::string_view key = group_.row(older_.size() - 1).key;
      slots_[place_of(slots_, key, hash_of(key))].row = older_.back();
    }
  }
  void clear() {
    slots_.clear();
    older_.clear();
  }

 private:
  struct Slot {
    uint32_t row = none;
    uint32_t tag = 0;  // of the key's hash
  };
  using Slots = std::vector<Slot>;  // a power of two, or none

  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }
  // Where the key is, or would be.
  size_t place_of(const Slots& slots, std::string_view key, uint64_t hash) const {
    const size_t mask = slots.size() - 1;
    // Hashes of a part agree in their low bits.
    size_t at = hash / TreeRun::shards & mask;
    while (slots[at].row != none &&
           (slots[at].tag != tag_of(hash) || group_.row(slots[at].row).key != key)) {
      at = (at + 1) & mask;
    }
    return at;
  }
  // Returns the key's newest row until now.
  uint32_t put(Slots& slots, uint32_t row, uint64_t hash) {
    const std::string_view key = group_.row(row).key;
    return std::exchange(slots[place_of(slots, key, hash)], {row, tag_of(hash)}).row;
  }
  void grow(size_t size) {
    Slots larger(size);
    for (uint32_t row = 0; row < older_.size(); ++row) {
      put(larger, row, hash_of(group_.row(row).key));
    }
    slots_ = std::move(larger);
  }

  const WriteGroup& group_;
  const uint64_t hash_seed_;
  Slots slots_;
  std::vector<uint32_t> older_;
};

}  // namespace isotherm
