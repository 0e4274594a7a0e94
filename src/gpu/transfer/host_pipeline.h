// HostPipeline: requests in ordinary host memory, taken to a table on the device and back.
//
// Rows go in chunks through pinned buffers, which kernels read and write directly: a chunk is
// copied in by the caller's thread, worked off on a stream of its own, and its replies are copied
// out when its buffer is needed again. So copying in, the device and copying out overlap over three
// buffers (Mega-KV, section 4.3), and a miss leaves the caller's value untouched. Chunks take
// effect in their order, as calls to the table do.
//
// Threads. One at a time. Memory. Three buffers of chunk_rows rows, 34 bytes each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "gpu/kernel/request_columns.h"
#include "gpu/table/fixed_device_table.h"

namespace isotherm {

template <class Device, class Table = FixedDeviceTable<Device>>
class HostPipeline {
 public:
  static constexpr uint64_t chunk_rows = 1 << 18;

  // Throws std::bad_alloc.
  HostPipeline(Device& device, Table& table) : device_(device), table_(table) {
    for (Buffer& buffer : buffers_) {
      buffer.memory = static_cast<char*>(device.allocate_pinned(chunk_rows * row_bytes));
      if (buffer.memory == nullptr) {
        release();
        throw std::bad_alloc();
      }
      buffer.stream = device.create_stream();
    }
  }
  ~HostPipeline() { release(); }
  HostPipeline(const HostPipeline&) = delete;
  HostPipeline& operator=(const HostPipeline&) = delete;

  // All pointers are to host memory. Returns when the replies are there.
  void run(const DeviceRequests& requests) {
    uint32_t next = 0;
    for (uint64_t first = 0; first < requests.rows; first += chunk_rows) {
      Buffer& buffer = buffers_[next];
      next = (next + 1) % buffers;
      finish(buffer, requests);
      start(buffer, requests, first);
    }
    for (uint32_t i = 0; i < buffers; ++i) finish(buffers_[(next + i) % buffers], requests);
  }

 private:
  static constexpr uint32_t buffers = 3;
  static constexpr uint64_t row_bytes = RequestColumns::row_bytes;

  struct Buffer {
    char* memory = nullptr;
    typename Device::Stream stream{};
    uint64_t first = 0;
    uint64_t rows = 0;  // 0: idle

    RequestColumns columns() const { return {memory, chunk_rows}; }
  };

  void start(Buffer& buffer, const DeviceRequests& requests, uint64_t first) {
    buffer.first = first;
    buffer.rows = std::min(chunk_rows, requests.rows - first);
    const DeviceRequests rows = rows_of(requests, first, buffer.rows);
    const DeviceRequests chunk = buffer.columns().requests(rows, 0, buffer.rows);
    each_request_column(chunk, rows, [](void* to, const void* from, uint64_t bytes) {
      std::memcpy(to, from, bytes);
    });
    table_.run(chunk, buffer.stream);
  }

  void finish(Buffer& buffer, const DeviceRequests& requests) {
    if (buffer.rows == 0) return;
    const uint64_t rows = buffer.rows;
    buffer.rows = 0;
    require_device(device_.synchronize(buffer.stream), "wait for a chunk");
    if (requests.found == nullptr) return;
    copy_replies(buffer.columns(), rows, rows_of(requests, buffer.first, rows));
  }

  void release() {
    for (Buffer& buffer : buffers_) {
      if (buffer.memory == nullptr) continue;
      device_.destroy_stream(buffer.stream);
      device_.release_pinned(buffer.memory, chunk_rows * row_bytes);
    }
  }

  Device& device_;
  Table& table_;
  Buffer buffers_[buffers];
};

}  // namespace isotherm
