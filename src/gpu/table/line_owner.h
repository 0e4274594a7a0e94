// LineOwner: the owner of a line index on a device, and of when it grows: segments, stock, head.
//
// Before a part of a call the host makes sure that the index has room for as many new entries as
// the part has rows, and the stock lines enough. Where memory ends, lines that chains can do
// without are gathered for the stock (gpu/table/unlink_kernel.h).
//
// `leave` is called before memory is allocated or freed, or segments change: a kernel that is
// resident ends. Threads. One at a time, as the table's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>

#include "gpu/kernel/settle_kernels.h"
#include "gpu/platform/device_context.h"
#include "gpu/table/device_segments.h"
#include "gpu/table/device_stock.h"
#include "gpu/table/table_options.h"
#include "gpu/table/table_reports.h"
#include "gpu/table/table_room.h"
#include "gpu/table/unlink_rounds.h"

namespace isotherm {

template <class Device>
class LineOwner {
 public:
  using Stream = typename Device::Stream;

  // Throws std::bad_alloc.
  LineOwner(DeviceContext<Device>& context, TableReports<Device>& reports,
            const FixedDeviceOptions& options)
      : context_(context),
        device_(context.device()),
        seed_(options.seed),
        reports_(reports),
        segments_(context.memory(), options.line_bits, options.lowest_load, context.stream()),
        stock_(context.memory(), context.stream()),
        fixed_(context.memory(), 1),
        room_(segments_, reports, device_.full_grid()) {
    if (fixed_.empty()) throw std::bad_alloc();
    require_device(device_.clear(context.stream(), fixed_.data(), fixed_.bytes()) &&
                       device_.synchronize(context.stream()),
                   "make the table");
  }

  TableView view() const {
    return {segments_.view(), &fixed_.data()->head, seed_, stock_.view(), fixed_.data()->counts};
  }
  // For the next part, which reports.
  Totals totals(bool shelved = false) { return {view(), stock_.lines(), shelved, reports_.next()}; }
  uint64_t segments() const { return segments_.count(); }

  // Rows of parts to come, for putting `entries` entries.
  static uint64_t likely_rows(uint64_t entries, uint64_t bytes) {
    return TableRoom<Device>::likely_rows(entries, bytes);
  }
  bool fits(uint64_t rows) const { return room_.fits(rows); }
  // So many new entries that need not wait for memory.
  uint64_t rows_at_once() const { return room_.rows_with_lines(); }
  bool has_plenty(uint64_t rows) const { return room_.has_plenty(rows); }

  // Grows for `entries` entries, `rows` of which come at once.
  void reserve(uint64_t entries, uint64_t rows, Stream stream) {
    context_.order().begin_write(stream);
    shelve({}, stream);  // counts the chains
    reports_.take_all();
    const bool empty = room_.is_empty();
    empty ? segments_.rebuild(entries, stream) : segments_.grow(entries, view(), stream);
    const uint64_t lines = segments_.fits(entries) ? room_.missing_lines_of(entries, rows) : 0;
    shelve(stock_.add(lines, stream), stream);
    context_.order().end_write(stream);
    reports_.take_all();
  }

  // For `rows` new entries, and if the index must grow for as many of `soon` as do no harm where
  // they are not new after all. Whether all of them have room now.
  template <class Leave>
  bool make_room(uint64_t rows, uint64_t soon, Stream stream, Leave&& leave) {
    while (!room_.fits(rows) && reports_.any_under_way()) reports_.take_one();
    if (!room_.fits(rows)) {
      leave();
      const uint64_t more = std::max(rows, room_.harmless_rows(soon, context_.memory().left()));
      segments_.grow(room_.entries_with(more), view(), stream);
      shelve({}, stream);
    }
    const auto has_lines = [&] { return room_.missing_lines(rows) == 0; };
    if (!stock_lines(rows, stream, leave)) gather_lines(rows, has_lines, stream);
    return room_.fits(rows) && has_lines();
  }

  // Whether there are lines for them; chains may be longer than growth would have them. `emptied`:
  // entries have left since the last call.
  template <class Leave>
  bool make_lines(uint64_t rows, bool emptied, Stream stream, Leave&& leave) {
    if (room_.has_likely_lines(rows)) return true;
    if (emptied) unlinks_.wake();
    make_room(rows, rows, stream, leave);
    return room_.has_likely_lines(rows);
  }

  // Whether `rows` new entries find room, for which the index grows if it must.
  template <class Leave>
  bool has_room(uint64_t rows, Leave&& leave) {
    const uint64_t lines = TableRoom<Device>::plenty_of_lines(rows);
    reports_.take_done();
    return room_.has(rows, lines) || make_room_now(rows, lines, lines, leave);
  }
  // The same of entries that come by express.
  template <class Leave>
  bool has_express_room(uint64_t rows, Leave&& leave) {
    return make_room_now(rows, rows * express_lines_per_insert, express_stock, leave);
  }
  // What came by express; nothing is under way.
  void add_express(int64_t entries, uint64_t inserted) {
    reports_.add(entries, inserted * express_lines_per_insert);
  }

  // Bins of hashes; see FixedDeviceTable.
  int least_depth() const { return segments_.least_depth(); }
  template <class Leave>
  void drop(const HashBin& bin, Leave&& leave) {
    change_segments(leave, [&](Stream stream) {
      segments_.drop(bin, view(), stream);
      return Fresh{};
    });
  }
  template <class Leave>
  bool restore(const HashBin& bin, Leave&& leave) {
    bool restored = false;
    reports_.take_all();
    change_segments(leave, [&](Stream stream) {
      restored = segments_.restore(bin, reports_.known().entries, stream);
      return Fresh{};
    });
    return restored;
  }

 private:
  using Fresh = typename DeviceStock<Device>::Fresh;

  static constexpr uint64_t express_lines_per_insert = TableRoom<Device>::express_lines_per_insert;
  static constexpr uint64_t express_stock = 1 << 14;
  static constexpr int most_stretches = 4;  // that a part goes over for lines

  // What every table has once.
  struct Fixed {
    Bucket head;
    CountShard counts[CountShard::shards];
  };

  // Makes sure that `rows` entries and `lines` overflow lines fit, if need be by taking
  // `more_lines`; the host knows the counts then. False where memory ends.
  template <class Leave>
  bool make_room_now(uint64_t rows, uint64_t lines, uint64_t more_lines, Leave&& leave) {
    reports_.take_all();
    const uint64_t entries = reports_.known().entries + rows;
    const auto has_lines = [&] { return reports_.known().free_lines >= lines; };
    if (segments_.fits(entries) && has_lines()) return true;
    change_segments(leave, [&](Stream stream) {
      if (!segments_.fits(entries)) segments_.grow(entries, view(), stream);
      return Fresh{};
    });
    reports_.take_all();  // the count of lines was a guess on the safe side
    if (!has_lines()) {
      change_segments(leave, [&](Stream stream) { return stock_.add(more_lines, stream); });
      reports_.take_all();
    }
    if (segments_.fits(entries) && !has_lines()) {
      change_segments(leave, [&](Stream stream) { return gather_lines(rows, has_lines, stream); });
      reports_.take_all();
    }
    return segments_.fits(entries) && has_lines();
  }

  // Changes the segments, with the table to itself, and puts into the stock the lines that they
  // returned and those that `work` returns.
  template <class Leave, class Work>
  void change_segments(Leave&& leave, Work&& work) {
    leave();
    const Stream stream = context_.stream();
    context_.order().begin_write(stream);
    shelve(work(stream), stream);
    context_.order().end_write(stream);
  }

  // Whether there are overflow lines for a part. Where some are missing, those that kernels gave
  // back are shelved; if they are too few, twice what is missing is added, or what is missing.
  template <class Leave>
  bool stock_lines(uint64_t rows, Stream stream, Leave&& leave) {
    while (room_.missing_lines(rows) != 0 && reports_.any_under_way()) reports_.take_one();
    for (const uint64_t share : {uint64_t{2}, uint64_t{1}}) {
      const uint64_t lines = room_.missing_lines(rows);
      if (lines == 0) return true;
      const bool returned = room_.returned_lines(stock_.lines()) >= lines;
      leave();
      shelve(returned ? Fresh{} : stock_.add(lines * share, stream), stream);
      reports_.take_all();
    }
    return room_.missing_lines(rows) == 0;
  }

  // Where memory ends: takes lines that chains can do without until enough() says so, of a few
  // stretches. The host knows the counts before and after.
  template <class Enough>
  Fresh gather_lines(uint64_t rows, Enough&& enough, Stream stream) {
    for (int i = 0; i < most_stretches && !enough(); ++i) {
      const auto stretch =
          unlinks_.begin(segments_.count(), segments_.lines_each(), rows, reports_.known());
      if (stretch.count == 0) break;
      segments_.unlink(stretch.first, stretch.count, view(), stream);
      shelve({}, stream);
      reports_.take_all();
      unlinks_.end(reports_.known());
    }
    return {};
  }

  // Puts lines that were returned, and fresh ones, into the stock.
  void shelve(Fresh fresh, Stream stream) {
    constexpr uint32_t threads = 256;
    const uint32_t grid = std::max(device_.full_grid() / 4, 1u);
    const ShelveKernel kernel{view(), fresh.lines, fresh.count};
    const TotalsKernel<Totals> sums{totals(true)};
    require_device(device_.launch(stream, grid, threads, kernel), "launch the stock's kernel");
    require_device(device_.launch(stream, 1, TotalsKernel<Totals>::threads, sums),
                   "launch the totals");
    reports_.expect(0, false, stream);
  }

  DeviceContext<Device>& context_;
  Device& device_;
  const uint64_t seed_;
  TableReports<Device>& reports_;
  DeviceSegments<Device> segments_;
  DeviceStock<Device> stock_;
  UnlinkRounds unlinks_;
  DeviceArray<Device, Fixed> fixed_;
  const TableRoom<Device> room_;
};

}  // namespace isotherm
