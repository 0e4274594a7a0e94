// RowScoring: what a table of rows does with scores: gives them, lets the rows of the lowest ones
// go, and finds those of an export. See isotherm/gpu/row_table.h and gpu/rows/score_kernels.h.
//
// Eviction takes the time of nine passes over the scores, so at least a 64th of the rows goes at
// once, and only as many that a 16th are free, or 64: of the requests that want a row some may be
// for the same key.
//
// Memory. For a table that evicts 17 bytes for each request of a part. Threads. One at a time, in
// the order of the stream.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>

#include "gpu/kernel/request_columns.h"
#include "gpu/platform/device_memory.h"
#include "gpu/platform/grid.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/rows/device_rows.h"
#include "gpu/rows/score_kernels.h"
#include "isotherm/gpu/row_table.h"

namespace isotherm {

template <class Device>
class RowScoring {
 public:
  using Stream = typename Device::Stream;

  // Parts have `part_rows` requests at most. Throws std::bad_alloc, and std::invalid_argument for
  // eviction without scores.
  RowScoring(DeviceMemory<Device>& memory, DeviceRows<Device>& rows, gpu::RowScores kind,
             bool evicts, uint64_t part_rows)
      : device_(memory.device()), rows_(rows), kind_(kind), evicts_(evicts), most_(part_rows) {
    if (evicts && !kept()) {
      throw std::invalid_argument("a table of rows evicts by their scores, and this one has none");
    }
    if (!kept()) return;
    lowest_ = DeviceArray<Device, LowestScores>(memory, 1);
    report_.emplace(device_, sizeof(LowestScores));
    if (evicts) {
      keys_ = DeviceArray<Device, uint64_t>(memory, most_);
      numbers_ = DeviceArray<Device, uint64_t>(memory, most_);
      found_ = DeviceArray<Device, uint8_t>(memory, most_);
    }
    if (lowest_.empty() || (evicts && (keys_.empty() || numbers_.empty() || found_.empty()))) {
      throw std::bad_alloc();
    }
  }

  bool kept() const { return kind_ != gpu::RowScores::none; }
  bool evicts() const { return evicts_; }
  uint64_t evictions() const { return evictions_; }
  // A part begins.
  void tick() { ++now_; }

  // `scores` are the caller's, or null.
  template <RowCopy which>
  void score(const RowWriters& writers, const uint64_t* keys, uint64_t* scores, Stream stream) {
    const bool by_use = kind_ == gpu::RowScores::use;
    if (!kept() || (which == RowCopy::out && !by_use && scores == nullptr)) return;
    launch(stream, writers.rows,
           ScoreRowsKernel<which>{rows_.view(), writers, keys, scores, by_use ? now_ : 0});
  }

  // Lets rows of the lowest scores go, if so many are free and so many wanted.
  template <class Index>
  void evict(Index& index, uint64_t wanted, uint64_t free, Stream stream) {
    const uint64_t rows = rows_.count();
    const uint64_t least = std::min(wanted, std::max<uint64_t>(rows / 16, 64));
    if (rows == 0 || free >= least) return;  // there are none where the first slab found no memory
    const uint64_t some = std::min(most_, std::max(rows / 64, least - free));
    const uint32_t lowest = find_lowest(some, stream);
    if (lowest == 0) return;
    TableRequests erases;
    erases.rows = lowest;
    erases.op = TableOp::erase;
    erases.keys = keys_.data();
    erases.values_out = numbers_.data();
    erases.found = found_.data();
    erases.distinct_keys = true;
    index.run(erases, stream);
    launch(stream, lowest, FreeRowsKernel{rows_.view(), numbers_.data(), found_.data(), lowest});
    evictions_ += lowest;
  }

  // Of `some` rows from `first` on those that an export wants, behind the `before` that it has;
  // how many it has then. Waits for the stream.
  uint32_t select(uint64_t first, uint64_t some, const gpu::RowExport& chunk, uint64_t* numbers,
                  uint8_t* found, uint32_t before, Stream stream) {
    if (before == 0) {
      require_device(device_.clear(stream, &lowest_.data()->taken, sizeof(uint32_t)),
                     "clear a count");
    }
    launch(stream, some,
           ExportKernel{rows_.view(), first, some, chunk.score_from, chunk.score_to, numbers, found,
                        chunk.keys, chunk.scores, &lowest_.data()->taken});
    return read_count(stream);
  }

 private:
  uint32_t find_lowest(uint64_t wanted, Stream stream) {
    LowestScores* const lowest = lowest_.data();
    auto* const begin = new (report_->data()) LowestScores;
    begin->left = wanted;
    require_device(device_.to_device(stream, lowest, begin, sizeof *begin), "begin an eviction");
    for (uint32_t shift = 64; shift != 0;) {
      shift -= 8;
      launch(stream, rows_.count(), CountScoresKernel{rows_.view(), lowest, rows_.count(), shift});
      launch(stream, 1, ChooseDigitKernel{lowest, shift});
    }
    // The counts are zeros again, and the first of them is used for the number of keys.
    launch(stream, rows_.count(),
           TakeLowestKernel{rows_.view(), lowest, rows_.count(), keys_.data(), &lowest->counts[0]});
    require_device(device_.copy(stream, &lowest->taken, &lowest->counts[0], sizeof(uint32_t)),
                   "copy a count");
    return read_count(stream);
  }
  uint32_t read_count(Stream stream) {
    require_device(
        device_.to_host(stream, report_->data(), &lowest_.data()->taken, sizeof(uint32_t)) &&
            device_.synchronize(stream),
        "count rows");
    uint32_t count = 0;
    std::memcpy(&count, report_->data(), sizeof count);
    return count;
  }

  template <class Kernel>
  void launch(Stream stream, uint64_t count, const Kernel& kernel) {
    constexpr uint32_t threads = CountScoresKernel::threads;
    require_device(device_.launch(stream, grid_for(device_, count, threads), threads, kernel),
                   "launch a kernel of scores");
  }

  Device& device_;
  DeviceRows<Device>& rows_;
  const gpu::RowScores kind_;
  const bool evicts_;
  const uint64_t most_;
  uint64_t now_ = 0;
  uint64_t evictions_ = 0;
  DeviceArray<Device, LowestScores> lowest_;
  std::optional<PinnedBlock<Device>> report_;  // of it, there and back
  DeviceArray<Device, uint64_t> keys_;         // of rows that go
  DeviceArray<Device, uint64_t> numbers_;
  DeviceArray<Device, uint8_t> found_;
};

}  // namespace isotherm
