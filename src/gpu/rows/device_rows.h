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

  // `slab_rows`: a power of two. Throws std::bad_alloc.
  DeviceRows(DeviceMemory<Device>& memory, uint32_t row_bytes, uint64_t slab_rows, Stream stream)
      : memory_(memory),
        device_(memory.device()),
        row_bytes_(row_bytes),
        slab_rows_(slab_rows),
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
            free_.data(),       free_count_.data()};
  }

  // Free rows, and those that memory has room for beside `beside` bytes for each: 0 where `rows`
  // are free, or memory has no room for a slab, so that `reserve` takes none.
  uint64_t possible(uint64_t rows, uint64_t beside, Stream stream) {
    if (known_free_ < rows) ask(stream);
    if (known_free_ >= rows) return 0;
    const uint64_t left = memory_.left();
    if (left < slab_rows_ * row_bytes_) return 0;
    return known_free_ + left / (row_bytes_ + sizeof(uint64_t) + sizeof(uint32_t) + beside);
  }
  // As many as are free, as far as is known, when a slab is added.
  uint64_t with_a_slab() const { return known_free_ + slab_rows_; }
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
    if (slabs_.size() == max_slabs || !enlarge_lists(stream)) return false;
    DeviceArray<Device, char> slab(memory_, slab_rows_ * row_bytes_);
    if (slab.empty()) return false;
    // What is queued may run after a failure that ends this function.
    static_assert(sizeof(char*) == sizeof *report_);
    *report_ = reinterpret_cast<uint64_t>(slab.data());
    const uint64_t first = slabs_.size() * slab_rows_;
    require_device(
        device_.to_device(stream, slab_table_.data() + slabs_.size(), report_, sizeof(char*)) &&
            device_.launch(stream, 1, 256, AddRowsKernel{view(), first, slab_rows_}) &&
            device_.synchronize(stream),
        "add rows");
    slabs_.push_back(std::move(slab));
    known_free_ += slab_rows_;
    return true;
  }

  // Room in the lists for another slab.
  bool enlarge_lists(Stream stream) {
    const uint64_t rows = slabs_.size() * slab_rows_;
    if (rows + slab_rows_ <= free_.size()) return true;
    const uint64_t wanted = std::max(rows + slab_rows_, rows * 5 / 4);
    DeviceArray<Device, uint64_t> free(memory_, wanted);
    DeviceArray<Device, uint32_t> last_writer(memory_, wanted);
    if (free.empty() || last_writer.empty()) return false;
    require_device(device_.clear(stream, free.data(), free.bytes()), "clear a list of rows");
    if (rows != 0) {
      require_device(device_.copy(stream, free.data(), free_.data(), rows * sizeof(uint64_t)) &&
                         device_.copy(stream, last_writer.data(), last_writer_.data(),
                                      rows * sizeof(uint32_t)) &&
                         device_.synchronize(stream),
                     "copy the lists of rows");
    }
    free_ = std::move(free);
    last_writer_ = std::move(last_writer);
    return true;
  }

  void release() {
    if (report_ != nullptr) device_.release_pinned(report_, sizeof(uint64_t));
    report_ = nullptr;
  }

  DeviceMemory<Device>& memory_;
  Device& device_;
  const uint32_t row_bytes_;
  const uint64_t slab_rows_;
  std::vector<DeviceArray<Device, char>> slabs_;
  DeviceArray<Device, char*> slab_table_;
  DeviceArray<Device, uint64_t> free_;
  DeviceArray<Device, uint32_t> last_writer_;
  DeviceArray<Device, uint64_t> free_count_;
  uint64_t* report_;
  uint64_t known_free_ = 0;
  uint32_t next_stamp_ = 1;
};

}  // namespace isotherm
