// DeviceRows: the owner of the rows of a row table; see gpu/rows/row_kernels.h.
//
// The host keeps a lower bound of the free rows: of new keys some may be the same. When the bound
// does not suffice it asks the device, waiting for what is under way, and if there are too few adds
// a slab.
//
// Threads. One at a time, in the order of the stream.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "gpu/platform/device_memory.h"
#include "gpu/rows/row_kernels.h"

namespace isotherm {

template <class Device>
class DeviceRows {
 public:
  using Stream = typename Device::Stream;

  // `slab_rows`: a power of two; `most_rows`: 0 for as many as memory has room for; `scored`: rows
  // have keys and scores. Throws std::bad_alloc.
  DeviceRows(DeviceMemory<Device>& memory, uint32_t row_bytes, uint64_t slab_rows,
             uint64_t most_rows, bool scored, Stream stream)
      : memory_(memory),
        device_(memory.device()),
        row_bytes_(row_bytes),
        slab_rows_(slab_rows),
        most_rows_(most_rows != 0 ? most_rows : max_slabs * slab_rows),
        scored_(scored),
        slab_table_(memory, max_slabs),
        free_count_(memory, 1),
        report_(static_cast<uint64_t*>(device_.allocate_pinned(sizeof(uint64_t)))) {
    if (slab_table_.empty() || free_count_.empty() || report_ == nullptr) {
      release();
      throw std::bad_alloc();
    }
    require_device(device_.clear(stream, free_count_.data(), free_count_.bytes()) &&
                       device_.synchronize(stream),
                   "make the rows");
  }
  ~DeviceRows() { release(); }
  DeviceRows(const DeviceRows&) = delete;
  DeviceRows& operator=(const DeviceRows&) = delete;

  RowsView view() const {
    return {slab_table_.data(), static_cast<uint32_t>(std::bit_width(slab_rows_ - 1)),
            row_bytes_,         last_writer_.data(),
            free_.data(),       free_count_.data(),
            keys_.data(),       scores_.data()};
  }
  // Whether there are as many as there may be.
  bool complete() const { return rows_ == most_rows_; }
  // All that there are, free or not.
  uint64_t count() const { return rows_; }

  // Free rows, and those that memory has room for beside `beside` bytes for each: 0 where `rows`
  // are free, or memory has no room for a slab, so that `reserve` takes none.
  uint64_t possible(uint64_t rows, uint64_t beside, Stream stream) {
    if (known_free_ < rows) ask(stream);
    if (known_free_ >= rows) return 0;
    const uint64_t left = memory_.left();
    if (left < next_slab() * row_bytes_) return 0;
    return known_free_ +
           std::min(most_rows_ - rows_, left / (row_bytes_ + bytes_in_lists() + beside));
  }
  // As many as are free, as far as is known, when a slab is added.
  uint64_t with_a_slab() const { return known_free_ + next_slab(); }
  // Makes sure of `rows` free rows, or of as many as memory allows; how many of them there are.
  uint64_t reserve(uint64_t rows, Stream stream) {
    if (known_free_ < rows) ask(stream);
    while (known_free_ < rows && add_slab(stream)) {
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
  static constexpr uint64_t max_slabs = 1 << 16;

  void ask(Stream stream) {
    require_device(device_.to_host(stream, report_, free_count_.data(), sizeof(uint64_t)) &&
                       device_.synchronize(stream),
                   "count free rows");
    known_free_ = *report_;
  }

  bool add_slab(Stream stream) {
    const uint64_t rows = next_slab();
    if (rows == 0 || slabs_.size() == max_slabs || !enlarge_lists(stream)) return false;
    DeviceArray<Device, char> slab(memory_, rows * row_bytes_);
    if (slab.empty()) return false;
    // What is queued may run after a failure that ends this function.
    static_assert(sizeof(char*) == sizeof *report_);
    *report_ = reinterpret_cast<uint64_t>(slab.data());
    require_device(
        device_.to_device(stream, slab_table_.data() + slabs_.size(), report_, sizeof(char*)) &&
            device_.launch(stream, 1, 256, AddRowsKernel{view(), rows_, rows}) &&
            device_.synchronize(stream),
        "add rows");
    slabs_.push_back(std::move(slab));
    known_free_ += rows;
    rows_ += rows;
    return true;
  }

  // Room in the lists for another slab.
  bool enlarge_lists(Stream stream) {
    const uint64_t least = rows_ + next_slab();
    if (least <= free_.size()) return true;
    const uint64_t wanted = std::max(least, std::min(rows_ * 5 / 4, most_rows_));
    DeviceArray<Device, uint64_t> free(memory_, wanted), keys, scores;
    DeviceArray<Device, uint32_t> last_writer(memory_, wanted);
    if (scored_) {
      keys = DeviceArray<Device, uint64_t>(memory_, wanted);
      scores = DeviceArray<Device, uint64_t>(memory_, wanted);
    }
    if (free.empty() || last_writer.empty() || (scored_ && (keys.empty() || scores.empty()))) {
      return false;
    }
    require_device(device_.clear(stream, free.data(), free.bytes()), "clear a list of rows");
    const auto copy = [&](const auto& to, const auto& from) {
      return from.empty() ||
             device_.copy(stream, to.data(), from.data(), rows_ * sizeof *from.data());
    };
    require_device(copy(free, free_) && copy(last_writer, last_writer_) && copy(keys, keys_) &&
                       copy(scores, scores_) && device_.synchronize(stream),
                   "copy the lists of rows");
    free_ = std::move(free);
    last_writer_ = std::move(last_writer);
    keys_ = std::move(keys);
    scores_ = std::move(scores);
    return true;
  }
  uint64_t next_slab() const { return std::min(slab_rows_, most_rows_ - rows_); }
  uint64_t bytes_in_lists() const {
    return sizeof(uint64_t) + sizeof(uint32_t) + (scored_ ? 2 * sizeof(uint64_t) : 0);
  }

  void release() {
    if (report_ != nullptr) device_.release_pinned(report_, sizeof(uint64_t));
    report_ = nullptr;
  }

  DeviceMemory<Device>& memory_;
  Device& device_;
  const uint32_t row_bytes_;
  const uint64_t slab_rows_;
  const uint64_t most_rows_;
  const bool scored_;
  uint64_t rows_ = 0;  // in slabs
  std::vector<DeviceArray<Device, char>> slabs_;
  DeviceArray<Device, char*> slab_table_;
  DeviceArray<Device, uint64_t> free_;
  DeviceArray<Device, uint32_t> last_writer_;
  DeviceArray<Device, uint64_t> keys_;
  DeviceArray<Device, uint64_t> scores_;
  DeviceArray<Device, uint64_t> free_count_;
  uint64_t* report_;
  uint64_t known_free_ = 0;
  uint32_t next_stamp_ = 1;
};

}  // namespace isotherm
