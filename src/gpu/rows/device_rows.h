// DeviceRows: the owner of the rows of a row table; see gpu/rows/row_kernels.h.
//
// The host keeps a lower bound of the free rows: of new keys some may be the same. When the bound
// does not suffice it asks the device, waiting for what is under way, and if there are too few adds
// a slab (gpu/rows/row_slabs.h).
//
// Threads. One at a time, in the order of the stream.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "gpu/platform/device_memory.h"
#include "gpu/platform/grid.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/rows/row_kernels.h"
#include "gpu/rows/row_slabs.h"

namespace isotherm {

struct RowsShape {
  uint32_t row_bytes = 0;    // a multiple of 16
  uint64_t slab_rows = 0;    // a power of two
  uint64_t most_rows = 0;    // 0: as many as memory has room for
  bool scored = false;       // rows have keys and scores
  uint64_t host_memory = 0;  // bytes of the host that they may take; 0: none
};

template <class Device>
class DeviceRows {
 public:
  using Stream = typename Device::Stream;

  // Throws std::bad_alloc.
  DeviceRows(DeviceMemory<Device>& memory, const RowsShape& shape, Stream stream)
      : memory_(memory),
        device_(memory.device()),
        shape_(shape),
        most_rows_(shape.most_rows != 0 ? shape.most_rows
                                        : RowSlabs<Device>::most_slabs * shape.slab_rows),
        slabs_(memory, shape.host_memory),
        counts_(memory, 1),
        report_(device_, sizeof(FreeRowCounts)) {
    if (counts_.empty()) throw std::bad_alloc();
    require_device(
        device_.clear(stream, counts_.data(), counts_.bytes()) && device_.synchronize(stream),
        "make the rows");
  }

  RowsView view() const {
    RowsView view;
    view.slabs = slabs_.table();
    view.on_host = slabs_.on_host();
    view.slab_bits = static_cast<uint32_t>(std::bit_width(shape_.slab_rows - 1));
    view.row_bytes = shape_.row_bytes;
    view.last_writer = last_writer_.data();
    view.free = free_.data();
    view.free_size = free_.size();
    view.free_counts = counts_.data();
    view.keys = keys_.data();
    view.scores = scores_.data();
    return view;
  }
  // Whether there are as many as there may be.
  bool complete() const { return rows_ == most_rows_; }
  // All that there are, free or not.
  uint64_t count() const { return rows_; }
  uint64_t host_bytes() const { return slabs_.host_bytes(); }
  // Those on the host that have a key. Waits for the stream.
  uint64_t used_on_host(Stream stream) {
    if (host_bytes() == 0) return 0;
    require_device(
        device_.clear(stream, &counts_.data()->counted, sizeof(uint64_t)) &&
            device_.launch(stream, grid_for(device_, rows_, 256), 256, CountHostRowsKernel{view()}),
        "count rows");
    return host_bytes() / shape_.row_bytes - read_counts(stream).counted;
  }

  // Free rows, and those that memory has room for beside `beside` bytes for each: 0 where `rows`
  // are free, or memory has no room for a slab, so that `reserve` takes none.
  uint64_t possible(uint64_t rows, uint64_t beside, Stream stream) {
    if (known_free_ < rows) ask(stream);
    if (known_free_ >= rows) return 0;
    const uint64_t more = slabs_.possible(next_slab() * shape_.row_bytes, shape_.row_bytes,
                                          bytes_in_lists() + beside);
    return more == 0 ? 0 : known_free_ + std::min(most_rows_ - rows_, more);
  }
  // As many as are free, as far as is known, when a slab is added.
  uint64_t with_a_slab() const { return known_free_ + next_slab(); }
  // Where the host has room: makes some on the device for what finds rows; false where it has none.
  bool move_to_host(Stream stream) { return slabs_.move_to_host(stream); }
  bool host_has_room() const { return slabs_.host_has_room(); }
  // Room in the lists for another slab, and where there is memory for all of `rows` free rows.
  bool reserve_lists(uint64_t rows, Stream stream) {
    while (known_free_ < rows && !enlarge_lists(rows - known_free_, stream)) {
      if (!move_to_host(stream)) return false;
    }
    return true;
  }
  // Makes sure of `rows` free rows, or of as many as memory allows; how many of them there are.
  uint64_t reserve(uint64_t rows, Stream stream) {
    if (known_free_ < rows) ask(stream);
    while (known_free_ < rows && reserve_lists(rows, stream) && add_slab(stream)) {
    }
    return std::min(known_free_, rows);
  }
  // So many may be taken by what was queued.
  void taken(uint64_t rows) { known_free_ -= rows; }

  // The stamp of the first of so many requests, which the others' follow (gpu/rows/row_kernels.h).
  // Where stamps end all are forgotten, which is what a put that begins may do.
  uint32_t next_stamps(uint32_t requests, Stream stream) {
    if (requests > ~uint32_t{0} - next_stamp_) {
      require_device(device_.clear(stream, last_writer_.data(), last_writer_.bytes()),
                     "clear the stamps of rows");
      next_stamp_ = 1;
    }
    return std::exchange(next_stamp_, next_stamp_ + requests);
  }

 private:
  FreeRowCounts read_counts(Stream stream) {
    FreeRowCounts counts;
    require_device(device_.to_host(stream, report_.data(), counts_.data(), sizeof counts) &&
                       device_.synchronize(stream),
                   "count free rows");
    std::memcpy(&counts, report_.data(), sizeof counts);
    return counts;
  }
  void ask(Stream stream) { known_free_ = read_counts(stream).all(); }

  bool add_slab(Stream stream) {
    const uint64_t rows = next_slab();
    if (rows == 0 || !slabs_.add(rows * shape_.row_bytes, stream)) return false;
    require_device(device_.launch(stream, 1, 256, AddRowsKernel{view(), rows_, rows}) &&
                       device_.synchronize(stream),
                   "add rows");
    known_free_ += rows;
    rows_ += rows;
    return true;
  }

  bool enlarge_lists(uint64_t missing, Stream stream) {
    const uint64_t least = rows_ + next_slab();
    if (least <= free_.size()) return true;
    const uint64_t all = rows_ + missing + shape_.slab_rows;
    const uint64_t ample = std::max(least, std::min(std::max(all, rows_ * 5 / 4), most_rows_));
    return set_lists(ample, stream) || (ample != least && set_lists(least, stream));
  }
  bool set_lists(uint64_t wanted, Stream stream) {
    DeviceArray<Device, uint64_t> free(memory_, wanted), keys, scores;
    DeviceArray<Device, uint32_t> last_writer(memory_, wanted);
    if (shape_.scored) {
      keys = DeviceArray<Device, uint64_t>(memory_, wanted);
      scores = DeviceArray<Device, uint64_t>(memory_, wanted);
    }
    if (free.empty() || last_writer.empty() ||
        (shape_.scored && (keys.empty() || scores.empty()))) {
      return false;
    }
    const FreeRowCounts counts = read_counts(stream);
    const auto copy = [&](auto* to, const auto* from, uint64_t count) {
      return count == 0 || device_.copy(stream, to, from, count * sizeof *from);
    };
    const auto all = [&](const auto& to, const auto& from) {
      return from.empty() || copy(to.data(), from.data(), rows_);
    };
    require_device(copy(free.data(), free_.data(), counts.on_device) &&
                       copy(free.data() + free.size() - counts.on_host,
                            free_.data() + free_.size() - counts.on_host, counts.on_host) &&
                       all(last_writer, last_writer_) && all(keys, keys_) && all(scores, scores_) &&
                       device_.synchronize(stream),
                   "copy the lists of rows");
    free_ = std::move(free);
    last_writer_ = std::move(last_writer);
    keys_ = std::move(keys);
    scores_ = std::move(scores);
    return true;
  }
  uint64_t next_slab() const { return std::min(shape_.slab_rows, most_rows_ - rows_); }
  uint64_t bytes_in_lists() const {
    return sizeof(uint64_t) + sizeof(uint32_t) + (shape_.scored ? 2 * sizeof(uint64_t) : 0);
  }

  DeviceMemory<Device>& memory_;
  Device& device_;
  const RowsShape shape_;
  const uint64_t most_rows_;
  RowSlabs<Device> slabs_;
  uint64_t rows_ = 0;  // in slabs
  DeviceArray<Device, uint64_t> free_;
  DeviceArray<Device, uint32_t> last_writer_;
  DeviceArray<Device, uint64_t> keys_;
  DeviceArray<Device, uint64_t> scores_;
  DeviceArray<Device, FreeRowCounts> counts_;
  const PinnedBlock<Device> report_;  // of them
  uint64_t known_free_ = 0;
  uint32_t next_stamp_ = 1;
};

}  // namespace isotherm
