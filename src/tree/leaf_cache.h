// LeafCache: pairs of sorted files as ranges have read them, side by side in memory, so that ranges
// that come again do not ask the files, whose iterators take ten times as long.
//
//   seek ─▶ a leaf has the key ─▶ its pairs, one after another ─▶ the leaf behind it, …
//         └▶ none has it ─▶ the files; what they show, up to the next leaf, becomes a leaf
// A leaf has all pairs of its keys, [from, upto), as the files have them; leaves do not overlap.
//
// Changes. Each change of the files has two numbers: an odd one while it is made, and an even one
// from then on. Leaves with a key that was changed go. Those that stay are as right for views that
// come later as for those they were read by; so a leaf is for views from its number on. While a
// change is made it is not known which side of it a view is on, and such a view has no leaves.
//
// Memory. At most `most_bytes`: a leaf that was not read since the hand came by last goes first.
// Threads. Any; changes one at a time; a cursor: one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tree/tree_files.h"

namespace isotherm {

class LeafCache {
 public:
  explicit LeafCache(uint64_t most_bytes) : most_bytes_(most_bytes) {}

  // A view of the files with their leaves; `make` makes that.
  std::unique_ptr<TreeView> view(const std::function<std::unique_ptr<TreeView>()>& make);
  // While the files change; one at a time. What changes: these keys, or those in [first, end).
  class Change {
   public:
    Change(LeafCache& cache, std::span<const TreeEntry> entries) : Change(cache, entries, {}, {}) {}
    Change(LeafCache& cache, std::string_view first, std::string_view end)
        : Change(cache, {}, first, end) {}
    ~Change();
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

   private:
    Change(LeafCache& cache, std::span<const TreeEntry> entries, std::string_view first,
           std::string_view end);

    LeafCache& cache_;
    const std::span<const TreeEntry> entries_;
    const std::string_view first_;
    const std::string_view end_;
  };

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  class Leaf;
  class Sheet;
  class Cursor;
  class View;
  using Leaves = std::map<std::string_view, std::shared_ptr<const Leaf>>;
  // Null: none. `behind`: the first that has later keys.
  struct Found {
    std::shared_ptr<const Leaf> leaf;
    std::shared_ptr<const Leaf> behind;
  };

  Found find(uint64_t number, std::string_view key) const;
  void put(uint64_t number, const std::shared_ptr<const Leaf>& leaf);
  Leaves::iterator drop(Leaves::iterator at);
  void drop_all(std::span<const TreeEntry> entries);
  void drop_all(std::string_view first, std::string_view end);
  void make_room();
  void note_gone(bool was_read);
  bool wants_leaf();

  const uint64_t most_bytes_;
  std::atomic<uint64_t> number_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint32_t> each_{1};  // of so many misses one makes a leaf

  mutable std::shared_mutex mutex_;  // of what follows
  Leaves leaves_;                    // by their first keys
  std::string hand_;
  uint32_t gone_ = 0;  // of late, and were read
  uint32_t gone_read_ = 0;
};

}  // namespace isotherm
