// TableRoom: what the host reckons a table has room for before a part of a call is queued.
//
// Parts under way have not reported, so all their rows are taken as new entries. Each may need an
// overflow line, at worst one in `inserts_per_line`; what chains need on average is known from how
// full the segments are, and is what a table that grows ahead takes. Where several tiles want to
// extend one chain, all take a line, and those that lose keep theirs until they need it or the
// kernel ends (gpu/kernel/line_stock.h). So each tile of a part may have a line in hand beside
// those that chains get.
//
// Threads. One at a time, as the table's.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/tile_lanes.h"
#include "gpu/table/device_segments.h"
#include "gpu/table/table_reports.h"
#include "index/expected_overflow.h"

namespace isotherm {

template <class Device>
class TableRoom {
 public:
  // One in so many inserts needs an overflow line, at the loads that growth keeps; seldom more.
  static constexpr uint64_t inserts_per_line = 6;
  // By express an insert takes an overflow line at most, and leaves another unused where two wanted
  // to extend a chain.
  static constexpr uint64_t express_lines_per_insert = 2;

  // `blocks`: with which kernels are launched at most.
  TableRoom(const DeviceSegments<Device>& segments, const TableReports<Device>& reports,
            uint64_t blocks)
      : segments_(segments), reports_(reports), blocks_(blocks) {}

  // Nothing is under way, and there are neither entries nor chains.
  bool is_empty() const { return entries_with(0) == 0 && reports_.known().linked_lines == 0; }

  // Entries when what is under way has ended, and so many more came, if all are new.
  uint64_t entries_with(uint64_t rows) const {
    return reports_.known().entries + reports_.rows_under_way() + rows;
  }
  // Whether the segments have room for them.
  bool fits(uint64_t rows) const { return segments_.fits(entries_with(rows)); }

  // Overflow lines that a part of so many rows may find missing.
  uint64_t missing_lines(uint64_t rows) const {
    const uint64_t wanted = lines_for(reports_.rows_under_way() + rows);
    return wanted - std::min(wanted, reports_.known().free_lines);
  }
  // Of a part that finds none missing, and leaves as many, so that the next need not wait for it.
  uint64_t rows_with_lines() const {
    const uint64_t free = reports_.known().free_lines;
    const uint64_t lines = free - std::min(free, lines_in_hand(free * inserts_per_line) + 1);
    const uint64_t rows = lines * inserts_per_line;
    return (rows - std::min(rows, reports_.rows_under_way())) / 2;
  }

  // Whether there are as many as the part is going to need, by how full the chains are, or twice as
  // many.
  bool has_likely_lines(uint64_t rows) const {
    const uint64_t likely = static_cast<uint64_t>(2 * likely_lines(rows));
    return std::min(lines_for(rows), likely) <= reports_.known().free_lines;
  }
  // Lines that no chain has and that are not free, of a stock of so many, if nothing is under way.
  uint64_t returned_lines(uint64_t lines) const {
    return lines - reports_.known().free_lines - reports_.known().linked_lines;
  }

  // Twice the overflow lines that so many new entries may need, and some to spare; as many as tiles
  // may have in hand are among them.
  static uint64_t plenty_of_lines(uint64_t rows) { return rows / inserts_per_line * 2 + 64; }
  // Whether there is room for the entries and so many lines, whatever is under way does.
  bool has(uint64_t rows, uint64_t lines) const {
    return fits(rows) &&
           lines_for(reports_.rows_under_way()) + lines <= reports_.known().free_lines;
  }
  // The same by either path.
  bool has_plenty(uint64_t rows) const {
    return has(rows, plenty_of_lines(rows) + rows * express_lines_per_insert);
  }

  // Of `rows` entries that are expected, as many as a table may grow for ahead of need, since
  // growing seldom is faster: no more than there are, some for a small one, and those for which a
  // small share of the `bytes` that are left suffices.
  uint64_t harmless_rows(uint64_t rows, uint64_t bytes) const {
    constexpr uint64_t some = uint64_t{1} << 22;
    constexpr uint64_t share = 4;
    return std::min({rows, std::max(some, entries_with(0)), bytes / bytes_per_entry / share});
  }

  // Of parts that will put `entries` entries into a table that may take so many bytes: what they
  // work in is small beside it.
  static uint64_t likely_rows(uint64_t entries, uint64_t bytes) {
    constexpr uint64_t share = 32;
    return std::min(entries, bytes / bytes_per_entry) / share;
  }

  // Overflow lines that are missing for a table of `entries` entries, the last `rows` of which come
  // at once.
  uint64_t missing_lines_of(uint64_t entries, uint64_t rows) const {
    const uint64_t wanted = segments_.overflow_lines(entries) + lines_for(rows);
    return wanted - std::min(wanted, reports_.known().linked_lines + reports_.known().free_lines);
  }

 private:
  static constexpr uint64_t bytes_per_entry = 28;  // about
  static constexpr uint64_t rows_a_block = 256;    // of what is launched over rows
  static constexpr uint64_t tiles_a_block = rows_a_block / tile_lanes;

  // That tiles of a part of so many rows may have, though no chain gets them.
  uint64_t lines_in_hand(uint64_t rows) const {
    const uint64_t blocks = std::min((rows + rows_a_block - 1) / rows_a_block, blocks_);
    return std::min(rows, blocks * tiles_a_block);
  }
  uint64_t lines_for(uint64_t rows) const {
    return rows == 0 ? 0 : rows / inserts_per_line + 1 + lines_in_hand(rows);
  }

  // That so many new entries take, at the mean of all chains.
  double likely_lines(uint64_t rows) const {
    constexpr double crowded = 100;  // entries of a chain, from which on it does not matter
    const auto chains = static_cast<double>(segments_.count() * segments_.lines_each());
    const double before = static_cast<double>(entries_with(0)) / chains;
    const double after = static_cast<double>(entries_with(rows)) / chains;
    if (after > crowded) return static_cast<double>(lines_for(rows));
    return chains * (expected_overflow(after) - expected_overflow(before));
  }

  const DeviceSegments<Device>& segments_;
  const TableReports<Device>& reports_;
  const uint64_t blocks_;
};

}  // namespace isotherm
