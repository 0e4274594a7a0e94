// TreeMoment: what a database of a tree has at one moment; and iterators over it, in the order of
// keys, in both directions.
//
//   the runs there were, newest first ─┐ shard by shard, a lock for some entries at once
//   a view of the files ───────────────┴▶ merged: of one key the newest, which hides the older ones
// Of files that do not last a moment has the runs alone (tree/tree_files.h, MomentWalk).
//
// A moment is a number: a run shows what was changed before it (tree/tree_run.h). Runs that are
// sealed or taken in later are held by it all the same, and the view of the files need not have
// them.
//
// What an iterator shows points into runs and files, and stays until it moves. Whoever has it holds
// the moment, too.
//
// Memory. While somebody holds a moment, what is changed the first time behind it is kept once
// more; and so are runs that were taken in. Both count for the tree's memory.
// Threads. A moment: any. An iterator: one at a time. Neither may outlive the tree.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tree/tree_files.h"
#include "tree/tree_run.h"

namespace isotherm {

class Tree;

class TreeIterator {
 public:
  // Over sources whose keys are in [first, end): of two that have a key the earlier counts.
  TreeIterator(std::vector<std::unique_ptr<TreeCursor>> sources, std::string first,
               std::string end);

  void seek(std::string_view key);         // the first that is not before
  void seek_before(std::string_view key);  // the last that is before
  void seek_to_last() { seek_before(end_); }
  void next();
  void prev();
  bool valid() const { return !heap_.empty(); }
  std::string_view key() const { return sources_[heap_.front()]->key(); }
  std::string_view value() const { return sources_[heap_.front()]->value(); }
  // Of a source that could not be read; it is not valid then.
  const std::string& error() const { return error_; }

 private:
  bool is_behind(uint32_t source, uint32_t other) const;
  void start(bool forward);
  void settle();
  void pass();
  void move_front();
  void note_end(const TreeCursor& source);

  const std::vector<std::unique_ptr<TreeCursor>> sources_;
  const std::string first_;
  const std::string end_;
  std::vector<uint32_t> heap_;  // sources that have something, that of the next key first
  bool forward_ = true;
  std::string passed_;
  std::string error_;
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
  // Over keys of items in [first, end), as the tree has them (TreeRecord::put_key); `first` is not
  // behind `end`.
  TreeIterator iterator(const std::string& first, const std::string& end) const {
    return iterator(first, end, files_cursor(first, end));
  }
  // With another source in the place of the files.
  TreeIterator iterator(std::string first, std::string end,
                        std::unique_ptr<TreeCursor> files) const;
  // Null: they have nothing that the moment shows.
  std::unique_ptr<TreeCursor> files_cursor(std::string_view first, std::string_view end) const;
  // What the files have, on a device; null: it is not there, or the moment does not show it.
  const SortedView* sorted() const;
  // Whether runs know anything, and whether of keys from `first` on that are before `end`.
  bool has_changes() const;
  bool is_changed(std::string_view first, std::string_view end) const;
  uint32_t database() const { return database_; }

 private:
  friend class Tree;
  TreeMoment(Tree& tree, uint32_t database) : tree_(tree), database_(database) {}

  Tree& tree_;
  const uint32_t database_;
  uint64_t number_ = 0;
  std::vector<std::shared_ptr<TreeRun>> runs_;  // newest first
  bool hidden_ = false;                         // the files, by a flush
  std::unique_ptr<TreeView> files_;             // null: of those that do not last
};

}  // namespace isotherm
