// RoundOverlay: the roots that one thread's share of a round has changed
// (executor/device/rounds.h).
//
// A round looks its keys up on the device once. What its requests change is kept here until the end
// of the round, so a later request of the round on the same key finds the root that the one before
// left. Keys are 64-bit hashes; a thread has all requests of the keys in its share.
//
// Layout. Open addressing with linear probing over a power of two of entries, at most half full; an
// entry is in use where its round is the current one, so beginning a round clears nothing.
//
// Versions. The overlay numbers the writes of its share. Numbers begin behind those of all earlier
// rounds, and each thread of a round takes every `stride`th number, so a key's versions grow.
//
// Threads. One.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/database.h"
#include "index/probe.h"
#include "items/location.h"

namespace isotherm {

class RoundOverlay {
 public:
  RoundOverlay() : entries_(least) {}

  void begin(uint64_t first_version, uint64_t stride) {
    ++round_;
    changed_.clear();
    version_ = first_version;
    stride_ = stride;
    constexpr uint64_t most_kept = uint64_t{1} << 16;
    if (entries_.size() > most_kept) std::vector<Entry>(least).swap(entries_);
  }

  // The key's root now, if `found` is the one that the device had.
  Location root(uint64_t key, Location found) const {
    if (changed_.empty()) return found;
    const Entry& entry = entries_[place(key)];
    return entry.round == round_ ? entry.root : found;
  }

  void set(uint64_t key, Location found, Location root) {
    if (changed_.size() * 2 >= entries_.size()) grow();
    const uint64_t at = place(key);
    Entry& entry = entries_[at];
    if (entry.round != round_) {
      entry = {key, root, found, round_};
      changed_.push_back(at);
    }
    entry.root = root;
  }

  // Calls visit(key, root) for every key whose root is not the one that the device has.
  template <class Visit>
  void each_change(Visit&& visit) const {
    for (const uint64_t at : changed_) {
      const Entry& entry = entries_[at];
      if (entry.root != entry.found) visit(entry.key, entry.root);
    }
  }
  uint64_t next_version() { return version_ += stride_; }
  uint64_t last_version() const { return version_; }

 private:
  static constexpr uint64_t least = 64;

  struct Entry {
    uint64_t key = 0;
    Location root = location::none;
    Location found = location::none;
    uint64_t round = 0;
  };

  // Where the key is, or would be.
  uint64_t place(uint64_t key) const {
    const uint64_t mask = entries_.size() - 1;
    uint64_t at = (key * 0x9e3779b97f4a7c15ULL >> 20) & mask;
    while (entries_[at].round == round_ && entries_[at].key != key) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    std::vector<Entry> entries(entries_.size() * 2);
    entries.swap(entries_);
    for (uint64_t& at : changed_) {
      const Entry& entry = entries[at];
      at = place(entry.key);
      entries_[at] = entry;
    }
  }

  std::vector<Entry> entries_;
  std::vector<uint64_t> changed_;  // where entries in use are
  uint64_t round_ = 0;
  uint64_t version_ = 0;
  uint64_t stride_ = 1;
};

// The index as one request of a round sees it: the one key it is about. Offers what swap_root
// (index/item_table.h) asks of an index.
class RoundIndex {
 public:
  // Without an overlay it is only read.
  RoundIndex(RoundOverlay* overlay, Database& database, uint64_t key, Location found)
      : overlay_(overlay), database_(database), key_(key), found_(found) {}

  template <class Tile>
  Found find(uint64_t /*hash*/) const {
    const Location root = overlay_ != nullptr ? overlay_->root(key_, found_) : found_;
    return {root != location::none, root};
  }

  template <class Tile, class Decide, class Publish = NoPublish>
  Updated update(uint64_t hash, Decide&& decide, Publish&& publish = {}) {
    const Found before = find<Tile>(hash);
    const Decision decision = decide(before.found, before.word, *overlay_);
    Updated updated;
    updated.previous = before;
    if (decision.action == Action::keep) return updated;
    const Location root = decision.action == Action::store ? decision.word : location::none;
    publish();
    overlay_->set(key_, found_, root);
    const int delta = (root != location::none) - (before.found ? 1 : 0);
    if (delta != 0) database_.entries_on_device.fetch_add(delta, std::memory_order_relaxed);
    updated.change = delta > 0 ? Change::inserted : delta < 0 ? Change::erased : Change::replaced;
    return updated;
  }

 private:
  RoundOverlay* overlay_;
  Database& database_;
  uint64_t key_;
  Location found_;
};

}  // namespace isotherm
