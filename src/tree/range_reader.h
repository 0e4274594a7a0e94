// RangeReader: many ranges of a moment (tree/tree_moment.h) in one call.
//
//   a sorted copy on a device ─▶ all ranges, in place ─┬▶ runs know nothing of the range: as it is
//   (tree/sorted_files.h)                              └▶ they do: pairs are copied, up to each key
//                                                         that a run knows, and its value instead
//   no copy, or pairs that it does not show ─▶ runs and files, by an iterator
// What a range shows lies as the device writes it (gpu/sorted/direct_ranges.h): each pair with its
// PairHead, its key as tree/device_files.h has it, and its value.
//
// Threads. One. The tree must outlive it. Memory. Columns of the tree's (tree/range_pool.h), and
// its own for what does not lie there, until `clear`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/sorted/direct_ranges.h"
#include "tree/pair_text.h"
#include "tree/range_pool.h"
#include "tree/tree_moment.h"

namespace isotherm {

// Of items of one database.
struct RangeAsked {
  std::string_view first;
  std::string_view end;  // the key behind the last; empty: to the last there is
  uint32_t limit = 0;    // pairs
};
struct RangePairs {
  const char* at = nullptr;
  uint32_t count = 0;
};

class RangeReader {
 public:
  explicit RangeReader(RangePool& pool);
  ~RangeReader();
  RangeReader(const RangeReader&) = delete;
  RangeReader& operator=(const RangeReader&) = delete;

  // One of `found` for each range; they stay until `clear`. Empty: it worked. Throws
  // std::bad_alloc.
  std::string read(const TreeMoment& moment, std::span<const RangeAsked> asked,
                   std::span<RangePairs> found);
  void clear();

 private:
  // Ranges that a device answers together.
  struct Piece {
    std::unique_ptr<RangePool::Lent> lent;
    std::span<const uint32_t> rows;
  };
  struct Bounds;
  class ShownPairs;

  void forget_moment();
  void ask_device(const SortedView& view);
  bool ask_once(const SortedView& view, std::vector<uint32_t>& rows);
  size_t start(const SortedView& view, std::span<const uint32_t> rows, DirectRanges& ranges);
  void settle(const Piece& piece, bool copies, std::vector<uint32_t>& again);
  void settle_row(uint32_t row, const RangeHead& head, RangePairs shown, bool copies);
  bool merge(const Bounds& bounds, uint32_t most, ShownPairs& shown, uint32_t& count);
  void read_on(uint32_t row, const Bounds& bounds, std::string_view from);
  void add(std::string_view key, std::string_view value);

  RangePool& pool_;
  std::vector<std::unique_ptr<RangePool::Lent>> held_;
  PairText text_;

  // Of the call.
  std::shared_ptr<const MomentSources> moment_;
  std::span<const RangeAsked> asked_;
  std::span<RangePairs> found_;
  std::vector<bool> done_;
  std::optional<TreeIterator> changes_;  // when the first range asks for them
  std::optional<TreeIterator> all_;
  std::string device_key_;
  std::string problem_;
};

}  // namespace isotherm
