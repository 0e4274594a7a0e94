// TreeIterator: over what a moment of a tree (tree/tree_moment.h) shows, in the order of keys, in
// both directions.
//
//   pieces of the runs (tree/run_order.h), newest run first ─┐ a heap by the next key, of which
//   a cursor over the files ─────────────────────────────────┴▶ the newest source is shown, and all
//                                                               others go past it
// Keys are compared by their heads (tree/key_head.h) first. A piece is searched for the first key
// only, and the other end of the range is met on the way.
//
// What it shows points into runs and files, and stays until it moves. Whoever has it holds the
// moment, too. Threads. One at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tree/key_head.h"
#include "tree/run_order.h"
#include "tree/tree_files.h"

namespace isotherm {

class TreeIterator {
 public:
  // Of keys in [first, end). `sources`: what has the runs and the files, held as long as this is
  // there. Null: no files.
  TreeIterator(std::shared_ptr<const void> sources,
               std::vector<std::shared_ptr<const RunOrder>> runs, uint64_t moment,
               std::unique_ptr<TreeCursor> files, std::string first, std::string end,
               bool shows_erased = false);

  void seek(std::string_view key);         // the first that is not before
  void seek_before(std::string_view key);  // the last that is before
  void seek_to_last() { seek_before(end_); }
  void next();
  void prev();
  bool valid() const { return !heap_.empty(); }
  std::string_view key() const { return front().key; }
  std::string_view value() const { return front().value; }  // empty: erased
  const KeyHead& key_head() const { return front().head; }
  // Of a source that could not be read; it is not valid then.
  const std::string& error() const { return error_; }

 private:
  struct Source {
    const RunPiece* piece = nullptr;  // null: the files
    RunPiece::Block block{};          // of a search
    const RunPlace* at = nullptr;
    KeyHead head;
    std::string_view key;
    std::string_view value;
  };

  const Source& front() const { return sources_[heap_.front()]; }
  bool goes_first(uint32_t source, uint32_t other) const;
  bool step(Source& source) const;
  void fetch(const Source& source, ptrdiff_t away) const;
  bool show(Source& source) const;
  bool show_files(Source& source);
  bool find(Source& source, const KeyHead& head, std::string_view key);
  bool move(Source& source);
  void start(std::string_view key, bool forward);
  void sift_down(size_t place);
  void settle();
  void pass();
  void move_front();

  std::shared_ptr<const void> held_;
  std::vector<std::shared_ptr<const RunOrder>> runs_;  // whose pieces are sources
  const uint64_t moment_;
  std::unique_ptr<TreeCursor> files_;
  std::string first_;
  std::string end_;
  const KeyHead first_head_;
  const KeyHead end_head_;
  const bool shows_erased_;
  std::vector<Source> sources_;  // newest first
  std::vector<uint32_t> heap_;   // those that have something, that of the next key first
  bool forward_ = true;
  std::string error_;
};

}  // namespace isotherm
