// TreeSnapshot: what a store with a tree has at one moment, for a file.
//
//   runs are taken in ─▶ no row runs: a moment of each database ─▶ key by key, in their order
//   of items on a GPU:  what the runs have, then a walk over the others, in no order
// A moment (tree/tree_moment.h) stays what it is whatever comes later, flushes included, so nobody
// waits for it, nothing is logged, and it never begins anew. What waits to be taken in is taken in
// before the moment, since the moment holds it in memory up to the end.
//
// Limits. Objects, which lie in memory alone, are left out; items that expire meanwhile may be.
// Memory. The runs of the moment, and what they keep for it, count for the tree's memory; besides
// there is one piece of text and what iterators hold.
// Threads. As a SnapshotSource.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/snapshot_source.h"
#include "tree/tree_moment.h"

namespace isotherm {

class TreeSnapshot final : public SnapshotSource {
 public:
  explicit TreeSnapshot(Engine& engine) : engine_(engine) {}

  const Moment* begin(Worker& worker, bool keeps_flushed) override;
  Step step(const Write& write) override;
  void end(Worker& worker) override;

 private:
  static constexpr size_t most_piece = 256 << 10;

  void take_moments();
  void begin_database();
  bool step_database(const Write& write);
  bool step_walk(const Write& write);
  bool add(std::string_view key, std::string_view record, const Write& write);

  Engine& engine_;
  Moment moment_;
  std::vector<std::shared_ptr<const TreeMoment>> moments_;  // by database; those that are needed
  size_t database_ = 0;
  std::unique_ptr<TreeIterator> at_;  // of that database
  std::unique_ptr<MomentWalk> walk_;  // null: files have an order
  uint64_t selected_ = 0;             // of the file, and one more; 0: none
  std::string text_;
};

}  // namespace isotherm
