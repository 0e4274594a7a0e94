// DeviceItemStore: byte-string keys to byte-string values in device memory; what
// include/isotherm/device_item_table.h promises, over any device.
//
// Parts: the index and the blocks of items with the steps over them (gpu/item_steps.h), the
// lanes of host arrays (gpu/item_pipeline.h), and here the calls with device pointers, whose
// parts take turns on the caller's stream in the first lane's workspace. All memory is taken from
// one cap; all but the index and the items at the start.
//
// Threads. Any; one mutex, held while a call of host arrays runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "gpu/item_pipeline.h"

namespace isotherm {

template <class Device>
class DeviceItemStore {
 public:
  using Stream = typename Device::Stream;

  // `device` must outlive the store. Throws std::bad_alloc, DeviceError.
  DeviceItemStore(Device& device, const DeviceItemOptions& options)
      : device_(device),
        part_rows_(options.part_rows),
        memory_(device, options.index.gpu_memory),
        stream_(device),
        steps_(memory_, options, stream_.get()),
        order_(device),
        carry_(memory_, 1),
        before_lanes_(memory_.used()),
        pipeline_(memory_, steps_, order_, options),
        lane_bytes_(memory_.used() - before_lanes_),
        lists_(static_cast<ItemLists*>(device.allocate_pinned(sizeof(ItemLists)))) {
    if (carry_.empty() || lists_ == nullptr) {
      release();
      throw std::bad_alloc();
    }
  }
  ~DeviceItemStore() {
    // A lost device has nothing left to wait for.
    try {
      order_.drain();
    } catch (const DeviceError&) {
    }
    release();
  }
  DeviceItemStore(const DeviceItemStore&) = delete;
  DeviceItemStore& operator=(const DeviceItemStore&) = delete;

  // All pointers to device memory.
  void run(const DeviceItemRequests& requests, Stream stream) {
    item_columns::check_call(requests);
    guarded([&] {
      try {
        order_.begin_write(stream);
        queue(requests, stream);
        order_.end_write(stream);
      } catch (...) {
        device_.synchronize(stream);  // what was queued must not outlive the memory it works in
        throw;
      }
    });
  }

  // All pointers to host memory; the bytes of the reply.
  uint64_t run_host(const DeviceItemRequests& requests) {
    item_columns::check_call(requests);
    uint64_t bytes = 0;
    guarded([&] {
      if (requests.rows == 0) {
        if (requests.replies.offsets != nullptr) requests.replies.offsets[0] = 0;
      } else {
        bytes = pipeline_.run(requests);
      }
    });
    return bytes;
  }

  DeviceItemStats stats() {
    DeviceItemStats stats;
    guarded([&] {
      order_.drain();
      stats = steps_.stats(lists_, stream_.get());
      stats.bytes -= lane_bytes_;
      stats.workspace += lane_bytes_;
    });
    return stats;
  }

 private:
  // Calls take turns; after a failure in the middle of a call nothing that is on the device can be
  // relied on.
  template <class Work>
  void guarded(Work&& work) {
    const std::lock_guard guard(mutex_);
    if (lost_) throw DeviceError("the table was lost when the device failed");
    try {
      work();
    } catch (const std::invalid_argument&) {
      throw;  // the table is as it was, or as the call left it
    } catch (...) {
      lost_ = true;
      throw;
    }
  }

  void queue(const DeviceItemRequests& requests, Stream stream) {
    const DeviceItemReplies& replies = requests.replies;
    if (replies.offsets != nullptr) {
      const bool cleared = requests.rows == 0
                               ? device_.clear(stream, replies.offsets, sizeof(int64_t))
                               : device_.clear(stream, carry_.data(), carry_.bytes());
      require_device(cleared, "begin a reply");
    }
    const bool writes = item_columns::has_writes(requests);
    for (uint64_t first = 0; first < requests.rows; first += part_rows_) {
      ItemPart part = part_of(requests, first);
      if (writes) {
        steps_.change(part, pipeline_.workspace(), carry_.data(), stream);
      } else {
        steps_.find(part, pipeline_.workspace(), carry_.data(), stream);
      }
      if (replies.offsets != nullptr) {
        steps_.place(part, 0, stream);
        const uint64_t room = replies.capacity;
        if (room != 0) steps_.copy(part, {replies.bytes, 0, room, room}, stream);
      }
      if (writes) steps_.release(part, stream);
    }
  }

  ItemPart part_of(const DeviceItemRequests& requests, uint64_t first) const {
    const auto from = [&](auto* column) { return column != nullptr ? column + first : nullptr; };
    const auto view = [&](const DeviceBytes& column) -> BytesView {
      if (column.offsets == nullptr) return {};
      return {column.offsets + first, column.offsets, column.offsets + requests.rows, column.bytes,
              0};
    };
    ItemPart part;
    part.rows = static_cast<uint32_t>(std::min<uint64_t>(part_rows_, requests.rows - first));
    part.ops = from(requests.ops);
    part.op = requests.op;
    part.keys = view(requests.keys);
    part.values = view(requests.values);
    part.expiry = from(requests.expiry);
    part.now = requests.now_ms;
    part.found = from(requests.replies.found);
    part.offsets = from(requests.replies.offsets);
    return part;
  }

  void release() {
    if (lists_ != nullptr) device_.release_pinned(lists_, sizeof *lists_);
    lists_ = nullptr;
  }

  Device& device_;
  const uint32_t part_rows_;
  std::mutex mutex_;  // all below
  bool lost_ = false;
  DeviceMemory<Device> memory_;
  DeviceStream<Device> stream_;
  ItemSteps<Device> steps_;
  CallOrder<Device> order_;
  DeviceArray<Device, uint64_t> carry_;  // bytes of the reply so far
  const uint64_t before_lanes_;
  ItemPipeline<Device> pipeline_;
  const uint64_t lane_bytes_;
  ItemLists* lists_;  // a copy, pinned
};

}  // namespace isotherm
