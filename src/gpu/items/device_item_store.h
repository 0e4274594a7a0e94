// DeviceItemStore: byte-string keys to byte-string values in device memory; what
// include/isotherm/gpu/item_table.h promises, over any device.
//
// Parts: the index and the blocks of items with the steps over them (gpu/items/item_steps.h), the
// lanes of host arrays (gpu/items/item_pipeline.h), and here the calls with device pointers, whose
// parts take turns on the caller's stream in the first lane's workspace. All memory is taken from
// one cap; all but the index and the items at the start.
//
// Threads. Any; one mutex, held while a call of host arrays runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "gpu/items/item_pipeline.h"
#include "gpu/items/item_walk.h"
#include "gpu/platform/device_context.h"
#include "gpu/platform/pinned_block.h"
#include "isotherm/gpu/common.h"

namespace isotherm {

template <class Device>
class DeviceItemStore {
 public:
  using Stream = typename Device::Stream;

  // `device` must outlive the store. Throws std::bad_alloc, DeviceError.
  DeviceItemStore(Device& device, const DeviceItemOptions& options)
      : device_(device),
        part_rows_(options.part_rows),
        context_(device, options.index.gpu_memory),
        steps_(context_.memory(), options, context_.stream()),
        carry_(context_.memory(), 1),
        before_lanes_(context_.memory().used()),
        pipeline_(context_.memory(), steps_, context_.order(), options),
        lane_bytes_(context_.memory().used() - before_lanes_),
        lists_(device, sizeof(ItemLists)) {
    if (carry_.empty()) throw std::bad_alloc();
  }
  ~DeviceItemStore() { context_.settle(); }
  DeviceItemStore(const DeviceItemStore&) = delete;
  DeviceItemStore& operator=(const DeviceItemStore&) = delete;

  // All pointers to device memory.
  void run(const gpu::ItemRequests& requests, Stream stream) {
    item_columns::check_call(requests);
    context_.write(stream, [&] { lost_by_any_failure([&] { queue(requests, stream); }); });
  }

  // All pointers to host memory; the bytes of the reply.
  uint64_t run_host(const gpu::ItemRequests& requests) {
    item_columns::check_call(requests);
    uint64_t bytes = 0;
    context_.call(context_.stream(), [&] {
      if (requests.rows == 0) {
        if (requests.replies.offsets != nullptr) requests.replies.offsets[0] = 0;
      } else {
        lost_by_any_failure([&] { bytes = pipeline_.run(requests); });
      }
    });
    return bytes;
  }

  // Queues what work(lookup) launches on the stream for so many rows: kernels that only read, which
  // run behind all calls that wrote so far, and before those that will. The event of their end,
  // until the stream's next call.
  template <class Work>
  typename Device::Event read(uint64_t rows, Stream stream, Work&& work) {
    typename Device::Event ended{};
    context_.call(stream, [&] {
      context_.order().begin_read(stream);
      steps_.read(rows, stream, work);
      ended = context_.order().end_read(stream);
    });
    return ended;
  }

  // The device has failed beside the calls.
  void lose() { context_.lose(); }

  // Adds at least `wanted` items, whole lines of the index from `bound` on, to `to`, and returns
  // the bound to go on from; 0 at the end. What is there from the first step to the last is shown
  // at least once, expired or not.
  uint64_t walk(uint64_t bound, uint64_t wanted, std::vector<WalkedItem>& to) {
    uint64_t next = 0;
    const Stream stream = context_.stream();
    context_.call(stream, [&] {
      if (!walk_) walk_.emplace(device_);
      context_.order().begin_read(stream);
      next = steps_.walk(*walk_, bound, wanted, stream, to);
      context_.order().end_read(stream);
    });
    return next;
  }

  // Where walks have a key: a step from a bound that is not behind it to one that is, or to the
  // end, shows it.
  uint64_t place_of(std::string_view key) const { return steps_.place_of(key); }

  // How many items there are whose keys begin with `start`, or, where `but` is not empty, do not
  // begin with that, at one moment; both have at most KeyStart::most_bytes. Expired ones are left
  // out; it looks at every block. Waits for it.
  uint64_t count(std::string_view start, std::string_view but, int64_t now_ms) {
    uint64_t keys = 0;
    const Stream stream = context_.stream();
    context_.call(stream, [&] {
      context_.order().begin_read(stream);
      keys = steps_.count({KeyStart::of(start), KeyStart::of(but)}, now_ms, stream);
      context_.order().end_read(stream);
    });
    return keys;
  }

  // Grows the index for `entries` items, as far as there is memory.
  void reserve(uint64_t entries) {
    context_.write(context_.stream(), [&] { steps_.reserve(entries); });
  }

  gpu::ItemStats stats() {
    gpu::ItemStats stats;
    context_.call(context_.stream(), [&] {
      context_.order().drain();
      stats = steps_.stats(reinterpret_cast<ItemLists*>(lists_.data()), context_.stream());
      stats.bytes -= lane_bytes_;
      stats.workspace += lane_bytes_;
    });
    return stats;
  }

 private:
  // After a failure in the middle of a call, be it for memory, nothing that is on the device can be
  // relied on.
  template <class Work>
  void lost_by_any_failure(Work&& work) {
    try {
      work();
    } catch (const std::bad_alloc&) {
      context_.lose();
      throw;
    }
  }

  void queue(const gpu::ItemRequests& requests, Stream stream) {
    const gpu::ItemReplies& replies = requests.replies;
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

  ItemPart part_of(const gpu::ItemRequests& requests, uint64_t first) const {
    const auto from = [&](auto* column) { return column != nullptr ? column + first : nullptr; };
    const auto view = [&](const gpu::Bytes& column) -> BytesView {
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
    part.flags = from(requests.flags);
    part.expected = from(requests.versions);
    part.now = requests.now_ms;
    part.previous = requests.replies.previous;
    part.found = from(requests.replies.found);
    part.offsets = from(requests.replies.offsets);
    part.versions = from(requests.replies.versions);
    part.new_versions = from(requests.replies.new_versions);
    part.expiry_out = from(requests.replies.expiry);
    part.flags_out = from(requests.replies.flags);
    return part;
  }

  Device& device_;
  const uint32_t part_rows_;
  DeviceContext<Device> context_;
  ItemSteps<Device> steps_;
  DeviceArray<Device, uint64_t> carry_;  // bytes of the reply so far
  const uint64_t before_lanes_;
  ItemPipeline<Device> pipeline_;
  const uint64_t lane_bytes_;
  const PinnedBlock<Device> lists_;  // a copy of the lists' counts
  std::optional<ItemWalk<Device>> walk_;
};

}  // namespace isotherm
