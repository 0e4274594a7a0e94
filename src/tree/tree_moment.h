// TreeMoment: what a database of a tree has at one moment: the runs there were, newest first, and a
// view of the files; iterators (tree/tree_iterator.h) go over both in the order of keys. Of files
// that do not last a moment has the runs alone (tree/tree_files.h, MomentWalk).
//
// A moment is a number: a run shows what was changed before it (tree/tree_run.h). A run that was
// sealed before the moment is let go when it was taken in: a view of the files shows then what it
// had. Of the run that was active at the moment, the files have more than the moment shows. So
// while what moments keep is little, they keep this run; where it is more than that
// (`Tree::most_kept_runs`), the run is taken in moment by moment, and each gets a view in between.
// An iterator goes on over what the moment had when it was made.
//
// Memory. While somebody holds a moment, what is changed the first time behind it is kept once
// more; and so is the run that was active then, as above. Both count for the tree's memory.
// Threads. Any. It may not outlive the tree, and iterators may not outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tree/tree_files.h"
#include "tree/tree_iterator.h"
#include "tree/tree_run.h"

namespace isotherm {

class Tree;

// Where a moment's pairs are. They stay there for as long as somebody holds this, and the moment.
class MomentSources : public std::enable_shared_from_this<MomentSources> {
 public:
  uint32_t database() const { return database_; }
  // Over keys of items in [first, end), as the tree has them (TreeRecord::put_key); `first` is not
  // behind `end`. `once`: what it reads of files is not to be kept for others. Throws
  // std::bad_alloc.
  TreeIterator iterator(std::string first, std::string end, bool once = false) const;
  // The same over what runs know; shows what was erased, too.
  TreeIterator changes(std::string first, std::string end) const;
  // What the files have, on a device; null: it is not there, or the moment does not show it.
  const SortedView* sorted() const;

 private:
  friend class Tree;
  friend class TreeMoment;
  MomentSources(Tree& tree, uint32_t database) : tree_(tree), database_(database) {}
  std::vector<std::shared_ptr<const RunOrder>> in_order() const;

  Tree& tree_;
  uint32_t database_;
  uint64_t number_ = 0;
  std::vector<std::shared_ptr<TreeRun>> runs_;  // newest first
  bool hidden_ = false;                         // the files, by a flush
  std::shared_ptr<TreeView> files_;             // null: of those that do not last
};

class TreeMoment {
 public:
  ~TreeMoment();
  TreeMoment(const TreeMoment&) = delete;
  TreeMoment& operator=(const TreeMoment&) = delete;

  // The record (tree/tree_record.h) that the item's key has.
  void read(std::string_view key, TreeRead& read) const;
  // Whether that is not what the files have. `read`: what it is then.
  bool hides(std::string_view key, TreeRead& read) const;
  // As of MomentSources.
  TreeIterator iterator(std::string first, std::string end, bool once = false) const;
  std::shared_ptr<const MomentSources> sources() const;
  uint32_t database() const { return database_; }
  bool is_of(const Tree& tree) const { return &tree_ == &tree; }

 private:
  friend class Tree;
  TreeMoment(Tree& tree, uint32_t database) : tree_(tree), database_(database) {}
  bool look(std::string_view key, TreeRead& read, std::shared_ptr<TreeView>& files) const;

  Tree& tree_;
  const uint32_t database_;
  uint64_t number_ = 0;
  // Read with the lock of a shard, changed with those of all.
  std::shared_ptr<const MomentSources> sources_;
};

}  // namespace isotherm
