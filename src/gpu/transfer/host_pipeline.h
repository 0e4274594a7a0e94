// HostPipeline: requests in ordinary host memory, taken to a table on the device and back.
//
// Rows go in chunks through pinned buffers, which kernels read and write directly: a chunk is
// copied in by the caller's thread, worked off on a stream of its own, and its replies are copied
// out when its buffer is needed again (gpu/transfer/ring.h); a miss leaves the caller's value
// untouched. Chunks take effect in their order, as calls to the table do.
//
// Threads. One at a time. Memory. Three buffers of chunk_rows rows, 34 bytes each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "gpu/batch/distinct_keys.h"
#include "gpu/kernel/request_columns.h"
#include "gpu/platform/device_stream.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/table/fixed_device_table.h"
#include "gpu/transfer/ring.h"

namespace isotherm {

template <class Device, class Table = FixedDeviceTable<Device>>
class HostPipeline {
 public:
  static constexpr uint64_t chunk_rows = 1 << 18;

  // Throws std::bad_alloc.
  HostPipeline(Device& device, Table& table) : device_(device), table_(table) {
    for (uint32_t i = 0; i < buffers; ++i) buffers_.emplace_back(device);
  }
  HostPipeline(const HostPipeline&) = delete;
  HostPipeline& operator=(const HostPipeline&) = delete;

  // All pointers are to host memory. Returns when the replies are there; when it throws, nothing is
  // under way. Throws std::invalid_argument for columns that are missing.
  void run(const TableRequests& requests) {
    if (requests.rows == 0) return;
    require_columns(requests);
    const auto rows_of_chunk = [&](uint64_t chunk) {
      const uint64_t first = chunk * chunk_rows;
      return rows_of(requests, first, std::min(chunk_rows, requests.rows - first));
    };
    try {
      in_turns(
          parts_of(requests.rows, chunk_rows), buffers, buffers,
          [&](uint64_t chunk, uint64_t at) { start(buffers_[at], rows_of_chunk(chunk)); },
          [&](uint64_t chunk, uint64_t at) { finish(buffers_[at], rows_of_chunk(chunk)); });
    } catch (...) {
      for (const Buffer& buffer : buffers_) device_.synchronize(buffer.stream.get());
      throw;
    }
  }

 private:
  static constexpr uint32_t buffers = 3;

  struct Buffer {
    explicit Buffer(Device& device)
        : memory(device, chunk_rows * RequestColumns::row_bytes), stream(device) {}

    RequestColumns columns() const { return {memory.data(), chunk_rows}; }

    const PinnedBlock<Device> memory;
    const DeviceStream<Device> stream;
  };

  void start(Buffer& buffer, const TableRequests& rows) {
    const TableRequests chunk =
        buffer.columns().requests(with_promise(rows, distinct_), 0, rows.rows);
    each_request_column(chunk, rows, [](void* to, const void* from, uint64_t bytes) {
      std::memcpy(to, from, bytes);
    });
    table_.run(chunk, buffer.stream.get());
  }

  void finish(Buffer& buffer, const TableRequests& rows) {
    require_device(device_.synchronize(buffer.stream.get()), "wait for a chunk");
    if (rows.found != nullptr) copy_replies(buffer.columns(), rows.rows, rows);
  }

  Device& device_;
  Table& table_;
  std::deque<Buffer> buffers_;
  std::vector<uint32_t> distinct_;
};

}  // namespace isotherm
