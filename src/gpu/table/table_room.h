// TableRoom: what the host reckons a table has room for before a part of a call is queued.
//
// Parts under way have not reported, so all their rows are taken as new entries. Each may need an
// overflow line, at worst one in `inserts_per_line`; what chains need on average is known from how
// full the segments are, and is what a table that grows ahead takes.
//
// Threads. One at a time, as the table's.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/table/device_segments.h"
#include "gpu/table/table_reports.h"

namespace isotherm {

template <class Device>
class TableRoom {
 public:
  // One in so many inserts needs an overflow line, at the loads that growth keeps; seldom more.
  static constexpr uint64_t inserts_per_line = 6;
  // By express an insert takes an overflow line at most, and leaves another unused where two wanted
  // to extend a chain.
  static constexpr uint64_t express_lines_per_insert = 2;

  TableRoom(const DeviceSegments<Device>& segments, const TableReports<Device>& reports)
      : segments_(segments), reports_(reports) {}

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
    const uint64_t wanted = (reports_.rows_under_way() + rows) / inserts_per_line + 1;
    return wanted - std::min(wanted, reports_.known().free_lines);
  }
  // Of a part that finds none missing, and leaves as many, so that the next need not wait for it.
  uint64_t rows_with_lines() const {
    const uint64_t lines = reports_.known().free_lines;
    const uint64_t rows = (lines - std::min<uint64_t>(lines, 1)) * inserts_per_line;
    return (rows - std::min(rows, reports_.rows_under_way())) / 2;
  }

  // Twice the overflow lines that so many new entries may need, and some to spare.
  static uint64_t plenty_of_lines(uint64_t rows) { return rows / inserts_per_line * 2 + 64; }
  // Whether there is room for the entries and so many lines, whatever is under way does.
  bool has(uint64_t rows, uint64_t lines) const {
    return fits(rows) && missing_lines(lines * inserts_per_line) == 0;
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
    const uint64_t wanted = segments_.overflow_lines(entries) + rows / inserts_per_line;
    return wanted - std::min(wanted, reports_.known().linked_lines + reports_.known().free_lines);
  }

 private:
  static constexpr uint64_t bytes_per_entry = 28;  // about

  const DeviceSegments<Device>& segments_;
  const TableReports<Device>& reports_;
};

}  // namespace isotherm
