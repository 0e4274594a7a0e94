// BatchEngine: the memory that a part of a batch with writes is worked off in, and the sequence of
// kernels that does it, over an index of any kind (gpu/kernel/index_kind.h). Read
// gpu/batch/batch_view.h first.
//
// All launches go to one stream, without a wait on the host: counts stay on the device, and kernels
// whose work is counted there are launched for the most there can be. A part of few rows is one
// launch (gpu/platform/steps.h). The workspace is used by one part at a time; the caller orders
// parts.
//
// Layout. Arrays for parts of up to `rows` rows. What a part needs clear (the part's counters, the
// writer table's entries, marks and homes, the sort's counts) lies together, and is cleared before
// each part as far as the part needs it. What only parts of some kinds use lies in the same
// columns.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "gpu/batch/part_steps.h"
#include "gpu/platform/device_memory.h"
#include "gpu/platform/steps.h"

namespace isotherm {

template <class Device, class Kind>
class BatchEngine {
 public:
  using Stream = typename Device::Stream;
  using View = typename Kind::View;
  using Totals = typename Kind::Totals;

  // Empty where there was no room.
  BatchEngine(DeviceMemory<Device>& memory, uint32_t rows) : device_(memory.device()) {
    const uint64_t slots = slots_for(rows);
    cleared_ = {memory, cleared_bytes(slots, SortCounts::blocks)};
    of_slot_ = {memory, slots * 2};
    of_row_ = {memory, uint64_t{rows} * columns};
    values_ = {memory, rows};
    found_ = {memory, rows};
    blocks_done_ = {memory, 2};
    if (blocks_done_.empty() || cleared_.empty() || of_slot_.empty() || of_row_.empty() ||
        values_.empty() || found_.empty()) {
      return;
    }
    rows_ = rows;
  }

  uint32_t rows() const { return rows_; }
  // Of a part in which no key comes twice, which needs one column only: all columns are one then.
  uint64_t distinct_rows() const { return of_row_.size(); }
  uint64_t bytes() const {
    return cleared_.bytes() + of_slot_.bytes() + of_row_.bytes() + values_.bytes() +
           found_.bytes() + blocks_done_.bytes();
  }

  // Answers a part of at most rows() rows; its columns are set in `batch`, `has_gets` and
  // `has_dependent` say whether it may have gets, and operations other than get, put and erase.
  // `totals` is summed up at the end.
  void run(const View& table, BatchView batch, bool has_gets, bool has_dependent,
           const Totals& totals, Stream stream) {
    if (batch.rows <= fused_rows) batch.most_listed = RankKernel::most_listed(batch.rows);
    PartOfSteps<Kind> part = part_of(table, batch, totals);
    part.has_gets = has_gets;
    part.has_dependent = has_dependent;
    if (!fuse(PartSteps<Kind>{part}, batch.rows, stream)) {
      launch(PartSteps<Kind>{part}, batch.rows, stream);
    }
  }

  // The same for a part of puts, most of them of keys that are expected to be new.
  void run_tries(const View& table, BatchView batch, const Totals& totals, Stream stream) {
    batch.tried = true;
    launch(TrySteps<Kind>{part_of(table, batch, totals)}, batch.rows, stream);
  }

  // The same for a part in which no key comes twice, of at most distinct_rows() rows.
  void run_distinct(const View& table, BatchView batch, const Totals& totals, Stream stream) {
    lay_out(batch);
    batch.failed_rows = column(0);
    batch.distinct_keys = true;
    if (batch.rows <= few_rows) return run_few(table, batch, totals, stream);
    const DistinctSteps<Kind> sequence{table, batch, totals};
    if (!fuse(sequence, batch.rows, stream)) launch(sequence, batch.rows, stream);
  }

 private:
  static constexpr uint32_t columns = 10;  // of a row

  static constexpr uint32_t few_rows = 1 << 12;  // of FewKernel, each with a warp
  // Steps of so many are one launch, where the device can: launches would take longer.
  static constexpr uint32_t fused_rows = SortCounts::blocks * fused_threads;

  void run_few(const View& table, const BatchView& batch, const Totals& totals, Stream stream) {
    using Few = FewKernel<Kind>;
    if (!blocks_done_is_clear_) {
      require_device(device_.clear(stream, blocks_done_.data(), blocks_done_.bytes()),
                     "clear a counter");
      blocks_done_is_clear_ = true;
    }
    const uint32_t blocks = grid_for(device_, batch.rows, Few::rows_per_block);
    require_device(device_.launch(stream, blocks, Few::threads,
                                  Few{table, batch, totals, blocks_done_.data()}),
                   "launch the kernel of a part");
  }

  // Of a part with so many slots, whose sort has so many blocks.
  static uint64_t cleared_bytes(uint64_t slots, uint32_t blocks) {
    return sort_begin(slots) + SortCounts::bytes_for(blocks);
  }
  static uint64_t sort_begin(uint64_t slots) {
    constexpr uint64_t aligned = alignof(SortCounts);
    const uint64_t bytes =
        sizeof(PartCounters) + slots * (sizeof(uint64_t) + sizeof(uint8_t)) + slots / 8;
    return (bytes + aligned - 1) / aligned * aligned;
  }
  static uint32_t slots_for(uint32_t rows) { return std::bit_ceil(std::max(rows, 64u) * 2); }

  // For replies that nobody asked for, but that others of the part follow from.
  void keep_replies(BatchView& batch) const {
    if (batch.found != nullptr) return;
    batch.values_out = values_.data();
    batch.found = found_.data();
  }

  // The workspace's own columns, and what is cleared at the size that this part of the batch needs.
  // Returns where the sort's counts lie.
  SortCounts* lay_out(BatchView& batch) const {
    const uint32_t slots = slots_for(batch.rows);
    char* cleared = cleared_.data();
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
    batch.streak_starts = column(4);
    batch.failed_rows = column(5);
    return reinterpret_cast<SortCounts*>(cleared + sort_begin(slots));
  }
  uint32_t* column(uint32_t i) const { return of_row_.data() + uint64_t{i} * rows_; }

  PartOfSteps<Kind> part_of(const View& table, BatchView& batch, const Totals& totals) const {
    SortColumns sort;
    sort.counts = lay_out(batch);
    keep_replies(batch);
    const auto slot_bits = static_cast<uint32_t>(std::bit_width(batch.writers.slots - 1));
    sort.passes = (slot_bits + SortCounts::max_bits - 1) / SortCounts::max_bits;
    sort.bits = (slot_bits + sort.passes - 1) / sort.passes;
    for (uint32_t i = 0; i < 2; ++i) {
      sort.slots[i] = column(6 + 2 * i);
      sort.rows[i] = column(7 + 2 * i);
    }
    batch.sorted_slots = sort.slots[sort.last()];
    batch.sorted_rows = sort.rows[sort.last()];
    // The list is gone where the sort needs its columns.
    batch.listed = reinterpret_cast<uint64_t*>(sort.slots[1 - sort.last()]);
    const uint64_t bytes = cleared_bytes(batch.writers.slots, sort_blocks(batch.rows));
    return {table, batch, totals, cleared_.data(), bytes, sort};
  }

  static uint32_t sort_blocks(uint32_t rows) {
    constexpr uint32_t rows_per_block = fused_threads;
    return std::min((rows + rows_per_block - 1) / rows_per_block, SortCounts::blocks);
  }

  // In one launch, where the device can and rows are few.
  template <class Sequence>
  bool fuse(const Sequence& sequence, uint32_t rows, Stream stream) {
    if constexpr (requires { device_.launch_fused(stream, 1, sequence); }) {
      if (rows > fused_rows) return false;
      require_device(device_.launch_fused(stream, sort_blocks(rows), sequence),
                     "launch the kernels of a part");
      return true;
    } else {
      return false;
    }
  }
  template <class Sequence>
  void launch(const Sequence& sequence, uint32_t rows, Stream stream) {
    const LaunchedSteps<Device> steps(device_, stream, rows, sort_blocks(rows));
    sequence(steps);
  }

  Device& device_;
  uint32_t rows_ = 0;
  DeviceArray<Device, char> cleared_;      // counters, and the writer table's entries and marks
  DeviceArray<Device, uint32_t> of_slot_;  // start, end
  DeviceArray<Device, uint32_t> of_row_;   // `columns` of them
  DeviceArray<Device, uint64_t> values_;   // replies nobody asked for
  DeviceArray<Device, uint8_t> found_;
  DeviceArray<Device, uint32_t> blocks_done_;  // of FewKernel
  bool blocks_done_is_clear_ = false;
};

}  // namespace isotherm
