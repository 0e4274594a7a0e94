// BatchEngine: the memory that a part of a batch with writes is worked off in, and the sequence of
// kernels that does it, over an index of any kind (gpu/kernel/index_kind.h). Read
// gpu/batch/batch_view.h first.
//
// All launches go to one stream, without a wait on the host: counts stay on the device, and kernels
// whose work is counted there are launched for the most there can be. The workspace is used by one
// part at a time; the caller orders parts.
//
// Layout. Arrays for parts of up to `rows` rows. What a part needs clear (the sort's counts, the
// part's counters, the writer table's entries and marks) lies together, and is cleared before each
// part as far as the part needs it. What only parts of some kinds use lies in the same columns.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "gpu/batch/direct_kernels.h"
#include "gpu/batch/extend_kernel.h"
#include "gpu/batch/group_kernels.h"
#include "gpu/batch/sort_kernels.h"
#include "gpu/batch/try_kernels.h"
#include "gpu/batch/update_kernels.h"
#include "gpu/batch/walk_kernel.h"
#include "gpu/kernel/settle_kernels.h"
#include "gpu/platform/device_memory.h"
#include "gpu/platform/grid.h"

namespace isotherm {

template <class Device, class Kind>
class BatchEngine {
 public:
  using Stream = typename Device::Stream;
  using View = typename Kind::View;
  using Totals = typename Kind::Totals;
  static constexpr uint32_t threads = 256;

  // Empty where there was no room.
  BatchEngine(DeviceMemory<Device>& memory, uint32_t rows) : device_(memory.device()) {
    const uint64_t slots = slots_for(rows);
    cleared_ = {memory, cleared_bytes(slots) + homes_bytes(slots)};
    of_slot_ = {memory, slots * 2};
    of_row_ = {memory, uint64_t{rows} * columns};
    values_ = {memory, rows};
    found_ = {memory, rows};
    if (cleared_.empty() || of_slot_.empty() || of_row_.empty() || values_.empty() ||
        found_.empty()) {
      return;
    }
    rows_ = rows;
  }

  uint32_t rows() const { return rows_; }
  // Of a part in which no key comes twice, which needs one column only: all columns are one then.
  uint64_t distinct_rows() const { return of_row_.size(); }
  uint64_t bytes() const {
    return cleared_.bytes() + of_slot_.bytes() + of_row_.bytes() + values_.bytes() + found_.bytes();
  }

  // Answers a part of at most rows() rows; its columns are set in `batch`, `has_gets` and
  // `has_dependent` say whether it may have gets, and operations other than get, put and erase.
  // `totals` is summed up at the end.
  void run(const View& table, BatchView batch, bool has_gets, bool has_dependent,
           const Totals& totals, Stream stream) {
    lay_out(batch);
    keep_replies(batch);
    clear(cleared_bytes(batch.writers.slots), stream);
    launch(stream, batch.rows, MarkKernel<Kind>{table, batch});
    if (has_gets) {
      launch(stream, batch.rows, GetKernel<Kind>{table, batch});
      launch(stream, batch.rows, UpdateKernel<Kind, false>{table, batch});
    } else {
      launch(stream, batch.rows, UpdateKernel<Kind, true>{table, batch});
    }
    launch(stream, batch.rows, ExtendKernel<Kind>{table, batch});
    run_groups(table, batch, has_dependent, totals, stream);
  }

  // The same for a part of puts, most of them of keys that are expected to be new.
  void run_tries(const View& table, BatchView batch, const Totals& totals, Stream stream) {
    lay_out(batch);
    keep_replies(batch);
    batch.tried = true;
    const uint64_t slots = batch.writers.slots;
    clear(cleared_bytes(slots) + homes_bytes(slots), stream);
    launch(stream, batch.rows, TryKernel<Kind>{table, batch});
    launch(stream, batch.rows, MarkLeftKernel<Kind>{table, batch});
    launch(stream, batch.rows, JoinKernel<Kind>{table, batch});
    launch(stream, batch.rows, UpdateLeftKernel<Kind>{table, batch});
    launch(stream, batch.rows, ExtendKernel<Kind>{table, batch});
    run_groups(table, batch, false, totals, stream);
  }

  // The same for a part in which no key comes twice, of at most distinct_rows() rows.
  void run_distinct(const View& table, BatchView batch, const Totals& totals, Stream stream) {
    lay_out(batch);
    batch.failed_rows = column(0);
    batch.distinct_keys = true;
    require_device(device_.clear(stream, batch.counters, sizeof(PartCounters)), "clear counters");
    launch(stream, batch.rows, UpdateKernel<Kind, true>{table, batch});
    launch(stream, batch.rows, ExtendKernel<Kind>{table, batch});
    require_device(
        device_.launch(stream, 1, TotalsKernel<Totals>::threads, TotalsKernel<Totals>{totals}),
        "launch the totals");
  }

 private:
  static constexpr uint32_t columns = 10;  // of a row

  // Counts of the sort, counters, and the writer table's entries and marks, for so many slots.
  static uint64_t cleared_bytes(uint64_t slots) {
    return sizeof(SortCounts) + sizeof(PartCounters) + slots * (sizeof(uint64_t) + sizeof(uint8_t));
  }
  // Of parts that begin with TryKernel, behind the others.
  static uint64_t homes_bytes(uint64_t slots) { return slots / 8; }
  static uint32_t slots_for(uint32_t rows) { return std::bit_ceil(std::max(rows, 64u) * 2); }

  // For replies that nobody asked for, but that others of the part follow from.
  void keep_replies(BatchView& batch) const {
    if (batch.found != nullptr) return;
    batch.values_out = values_.data();
    batch.found = found_.data();
  }

  // The workspace's own columns.
  void lay_out(BatchView& batch) const {
    // At the front of the part that is cleared, at the size that this part of the batch needs.
    const uint32_t slots = slots_for(batch.rows);
    char* cleared = cleared_.data() + sizeof(SortCounts);
    batch.counters = reinterpret_cast<PartCounters*>(cleared);
    batch.writers.entry = reinterpret_cast<uint64_t*>(cleared + sizeof(PartCounters));
    batch.writers.many = reinterpret_cast<uint8_t*>(batch.writers.entry + slots);
    batch.writers.homes = reinterpret_cast<uint32_t*>(batch.writers.many + slots);
    batch.writers.start = of_slot_.data();
    batch.writers.end = of_slot_.data() + slots;
    batch.writers.slots = slots;
    batch.writers.keys = batch.keys;
    batch.slot_of_row = column(0);
    batch.grouped_bits = column(1);
    batch.late_rows = column(2);
    batch.late_slots = column(3);
    batch.left_rows = column(2);  // no part has gets and begins with TryKernel
    batch.done_bits = column(3);
    batch.walk_starts = column(4);
    batch.failed_rows = column(5);
  }
  uint32_t* column(uint32_t i) const { return of_row_.data() + uint64_t{i} * rows_; }

  void clear(uint64_t bytes, Stream stream) {
    require_device(device_.clear(stream, cleared_.data(), bytes), "clear the workspace");
  }

  // Writers of keys with several, and the end of the part.
  void run_groups(const View& table, BatchView batch, bool has_dependent, const Totals& totals,
                  Stream stream) {
    sort(batch, stream);
    launch(stream, batch.rows, GroupBeginKernel<Kind>{table, batch});
    if (has_dependent) launch(stream, batch.rows, WalkKernel{batch});
    launch(stream, batch.rows, GroupEndKernel<Kind>{table, batch});
    launch(stream, batch.rows, LateKernel<Totals>{batch, totals});
  }

  // Between two pairs of columns, to and fro.
  void sort(BatchView& batch, Stream stream) {
    const auto slot_bits = static_cast<uint32_t>(std::bit_width(batch.writers.slots - 1));
    const uint32_t passes = (slot_bits + SortCounts::max_bits - 1) / SortCounts::max_bits;
    uint32_t* slots[2] = {column(6), column(8)};
    uint32_t* rows[2] = {column(7), column(9)};
    constexpr uint32_t rows_per_block = 2048;  // or more
    const uint32_t blocks =
        std::min(grid_for(device_, batch.rows, rows_per_block), SortCounts::blocks);
    SortPass pass;
    pass.batch = batch;
    pass.counts = reinterpret_cast<SortCounts*>(cleared_.data());
    pass.bits = (slot_bits + passes - 1) / passes;
    require_device(device_.launch(stream, blocks, SortPass::threads, DigitsKernel{pass, passes}),
                   "count digits");
    for (; pass.number < passes; ++pass.number) {
      pass.slots_out = slots[pass.number % 2];
      pass.rows_out = rows[pass.number % 2];
      require_device(device_.launch(stream, blocks, SortPass::threads, SweepKernel{pass}), "sort");
      pass.slots_in = pass.slots_out;
      pass.rows_in = pass.rows_out;
    }
    batch.sorted_slots = pass.slots_in;
    batch.sorted_rows = pass.rows_in;
  }

  template <class Kernel>
  void launch(Stream stream, uint32_t rows, const Kernel& kernel) {
    require_device(device_.launch(stream, grid_for(device_, rows, threads), threads, kernel),
                   "launch a kernel");
  }

  Device& device_;
  uint32_t rows_ = 0;
  DeviceArray<Device, char> cleared_;      // counters, and the writer table's entries and marks
  DeviceArray<Device, uint32_t> of_slot_;  // start, end
  DeviceArray<Device, uint32_t> of_row_;   // `columns` of them
  DeviceArray<Device, uint64_t> values_;   // replies nobody asked for
  DeviceArray<Device, uint8_t> found_;
};

}  // namespace isotherm
