// HostRows: calls of a table of rows whose columns lie in host memory, by way of one device.
//
// A call goes in parts of some thousand requests. Each is copied to pinned memory and from there to
// the device, where its rows are padded to a multiple of 16 bytes; its replies come back the same
// way. A get_or_insert without rows inserts rows of zeros.
//
// Memory. It grows to what the longest call needs: at most some 17 MiB of the device, beside the
// cap of the table, and as much of the host; an export of long rows needs 64 of them. Threads. One
// at a time, which has entered the device.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>

#include "gpu/platform/device_memory.h"
#include "gpu/platform/device_stream.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/rows/row_call.h"

namespace isotherm {

template <class Device>
class HostRows {
 public:
  using Stream = typename Device::Stream;

  // The rows that a chunk of an export has room for.
  static constexpr uint64_t least_exported = 64;

  // `stride`: of rows on the device, a multiple of 16. Throws DeviceError.
  HostRows(Device& device, uint64_t stride) : device_(device), stride_(stride), stream_(device) {}

  // run(part, stream) answers parts whose columns lie on the device. Rows of the caller have
  // `row_bytes`, `stride` at most. reply(found, rows) sees the replies of each part.
  template <class Run, class Reply>
  void run(const gpu::RowRequests& call, uint64_t row_bytes, Run&& run, Reply&& reply) {
    if (call.n == 0) return;
    constexpr uint64_t most_bytes = uint64_t{16} << 20;
    make_room(std::min(std::bit_ceil(call.n), std::bit_floor(most_bytes / stride_)));
    for (uint64_t first = 0; first < call.n; first += stage_->rows) {
      const uint64_t some = std::min(call.n - first, stage_->rows);
      const gpu::RowRequests part = part_of(call, first, some, row_bytes);
      const gpu::RowRequests there = on_device(part);
      send(part, there, row_bytes);
      run(there, stream_.get());
      bring(part, row_bytes);
      reply(found_.here, some);
    }
  }

  // A chunk of an export with room for `least_exported` rows or more, by take(chunk on the device,
  // stream).
  template <class Take>
  uint64_t take(gpu::RowExport& chunk, Take&& take) {
    constexpr uint64_t most_bytes = uint64_t{16} << 20;
    const uint64_t most = std::max(std::bit_floor(most_bytes / stride_), least_exported);
    make_room(std::min(std::bit_floor(chunk.capacity), most));
    gpu::RowExport there = chunk;
    there.capacity = std::min(chunk.capacity, stage_->rows);
    there.keys = chunk.keys != nullptr ? keys_.on_device : nullptr;
    there.rows = chunk.rows != nullptr ? rows_.on_device : nullptr;
    there.scores = chunk.scores != nullptr ? scores_.on_device : nullptr;
    const uint64_t next = take(there, stream_.get());
    chunk.count = there.count;
    const auto copy = [&](void* to, const void* from, uint64_t bytes) {
      require_device(to == nullptr || bytes == 0 || device_.to_host(stream_.get(), to, from, bytes),
                     "copy an export");
    };
    copy(chunk.keys, there.keys, there.count * sizeof(uint64_t));
    copy(chunk.rows, there.rows, there.count * stride_);
    copy(chunk.scores, there.scores, there.count * sizeof(uint64_t));
    require_device(device_.synchronize(stream_.get()), "wait for an export");
    return next;
  }

  // Behind a call that failed: what it has queued works in memory of this.
  void settle() { device_.synchronize(stream_.get()); }

 private:
  template <class T>
  struct Column {
    T* on_device = nullptr;
    T* here = nullptr;  // pinned
  };
  struct Stage {
    Stage(Device& device, uint64_t most, uint64_t stride)
        : rows(most),
          memory(device, 0),
          at(memory, most * row_bytes(stride)),
          host(device, most * row_bytes(stride)) {
      if (at.empty()) throw std::bad_alloc();
    }
    static uint64_t row_bytes(uint64_t stride) { return stride + 2 * sizeof(uint64_t) + 1; }
    uint64_t rows;
    DeviceMemory<Device> memory;
    DeviceArray<Device, char> at;
    PinnedBlock<Device> host;
  };

  // Rows come first, since they are aligned.
  void make_room(uint64_t rows) {
    if (stage_ && stage_->rows >= rows) return;
    stage_.reset();
    stage_.emplace(device_, rows, stride_);
    char* const at = stage_->at.data();
    char* const host = static_cast<char*>(stage_->host.data());
    uint64_t begin = 0;
    const auto column = [&](auto& its, uint64_t bytes) {
      its = {reinterpret_cast<decltype(its.here)>(at + begin),
             reinterpret_cast<decltype(its.here)>(host + begin)};
      begin += rows * bytes;
    };
    column(rows_, stride_);
    column(keys_, sizeof(uint64_t));
    column(scores_, sizeof(uint64_t));
    column(found_, 1);
  }

  gpu::RowRequests on_device(const gpu::RowRequests& part) const {
    gpu::RowRequests there = part;
    const bool has_rows = sends_rows(part) || brings_rows(part);
    there.keys = keys_.on_device;
    there.rows = has_rows ? rows_.on_device : nullptr;
    there.found = found_.on_device;
    if (part.scores != nullptr) there.scores = scores_.on_device;
    return there;
  }

  void send(const gpu::RowRequests& part, const gpu::RowRequests& there, uint64_t row_bytes) {
    std::memcpy(keys_.here, part.keys, part.n * sizeof(uint64_t));
    copy_in(keys_, part.n * sizeof(uint64_t));
    if (sends_scores(part)) {
      std::memcpy(scores_.here, part.scores, part.n * sizeof(uint64_t));
      copy_in(scores_, part.n * sizeof(uint64_t));
    }
    if (!sends_rows(part)) return;
    if (part.rows == nullptr) {
      require_device(device_.clear(stream_.get(), there.rows, part.n * stride_), "clear rows");
      return;
    }
    const char* const given = static_cast<const char*>(part.rows);
    if (stride_ == row_bytes) {
      std::memcpy(rows_.here, given, part.n * stride_);
    } else {
      std::memset(rows_.here, 0, part.n * stride_);
      for (uint64_t i = 0; i < part.n; ++i) {
        std::memcpy(rows_.here + i * stride_, given + i * row_bytes, row_bytes);
      }
    }
    copy_in(rows_, part.n * stride_);
  }

  void bring(const gpu::RowRequests& part, uint64_t row_bytes) {
    copy_out(found_, part.n);
    if (brings_rows(part)) copy_out(rows_, part.n * stride_);
    if (brings_scores(part)) copy_out(scores_, part.n * sizeof(uint64_t));
    require_device(device_.synchronize(stream_.get()), "wait for replies");
    for (uint64_t i = 0; i < part.n; ++i) {
      if (found_.here[i] != 1) continue;
      if (brings_rows(part)) {
        std::memcpy(static_cast<char*>(part.rows) + i * row_bytes, rows_.here + i * stride_,
                    row_bytes);
      }
      if (brings_scores(part)) part.scores[i] = scores_.here[i];
    }
    if (part.found != nullptr) std::memcpy(part.found, found_.here, part.n);
  }

  template <class T>
  void copy_in(const Column<T>& column, uint64_t bytes) {
    require_device(device_.to_device(stream_.get(), column.on_device, column.here, bytes),
                   "copy requests");
  }
  template <class T>
  void copy_out(const Column<T>& column, uint64_t bytes) {
    require_device(device_.to_host(stream_.get(), column.here, column.on_device, bytes),
                   "copy replies");
  }

  Device& device_;
  const uint64_t stride_;
  const DeviceStream<Device> stream_;
  std::optional<Stage> stage_;
  Column<char> rows_;
  Column<uint64_t> keys_;
  Column<uint64_t> scores_;
  Column<uint8_t> found_;
};

}  // namespace isotherm
