// DeviceDirectRanges: DirectRanges over a sorted store, on any device.
//
//   asked     bytes taken, 16 (gpu/sorted/range_kernel.h) | limits | ends of keys | keys
// is filled in pinned memory and copied to the device, as far as it is used. Heads and pairs lie in
// pinned memory; the kernel writes them over the bus. Each has a stream of its own, so those of
// several threads overlap.
//
// Threads. One at a time. The store must outlive it. Errors. As gpu/store/sorted_tier.h.
#pragma once

#include <cstdint>
#include <cstring>
#include <new>

#include "gpu/platform/device_memory.h"
#include "gpu/platform/device_stream.h"
#include "gpu/platform/grid.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/sorted/direct_ranges.h"
#include "gpu/sorted/range_kernel.h"
#include "gpu/sorted/sorted_store.h"

namespace isotherm {

// What a tier had at one moment.
template <class Device>
class DeviceSortedView final : public SortedView {
 public:
  using Hold = typename SortedStore<Device>::Hold;
  explicit DeviceSortedView(Hold runs) : runs_(std::move(runs)) {}
  const Hold& runs() const { return runs_; }

 private:
  const Hold runs_;
};

template <class Device>
class DeviceDirectRanges final : public DirectRanges {
 public:
  DeviceDirectRanges(SortedStore<Device>& store, const RangeShape& shape)
      : device_(store.device()),
        store_(store),
        shape_(shape),
        memory_(device_, 0),
        asked_(memory_, asked_bytes()),
        pinned_(device_, replies_at() + shape.reply_room),
        stream_(device_) {
    if (asked_.empty()) throw std::bad_alloc();
    char* const begin = pinned_.data();
    std::memset(begin, 0, limits_at);
    columns_.limits = reinterpret_cast<uint32_t*>(begin + limits_at);
    columns_.key_ends = reinterpret_cast<uint32_t*>(begin + ends_at());
    columns_.keys = begin + keys_at();
    columns_.heads = reinterpret_cast<const RangeHead*>(begin + asked_bytes());
    columns_.replies = begin + replies_at();
    columns_.key_ends[0] = 0;
  }
  ~DeviceDirectRanges() override {
    device_.enter();
    device_.synchronize(stream_.get());
  }

  const RangeShape& shape() const override { return shape_; }
  const RangeColumns& columns() const override { return columns_; }
  uint64_t pinned_bytes() const override { return pinned_.bytes(); }

  void start(const SortedView& view, uint32_t ranges) override {
    if (ranges == 0) return;
    store_.guard([&] {
      hold_ = dynamic_cast<const DeviceSortedView<Device>&>(view).runs();
      const uint64_t bytes = keys_at() + columns_.key_ends[2 * uint64_t{ranges}];
      require_device(device_.to_device(stream_.get(), asked_.data(), pinned_.data(), bytes),
                     "copy ranges");
      RangeKernel kernel;
      kernel.runs = store_.view(*hold_);
      kernel.asked = asked(ranges);
      const uint32_t blocks = grid_for(device_, ranges, RangeKernel::warps);
      require_device(device_.launch(stream_.get(), blocks, RangeKernel::threads, kernel),
                     "launch ranges");
    });
  }
  void wait() override {
    store_.guard([&] { require_device(device_.synchronize(stream_.get()), "wait for ranges"); });
    hold_.reset();
  }

 private:
  static constexpr uint64_t line_bytes = 256;
  static constexpr uint64_t limits_at = 16;
  static uint64_t upto(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

  uint64_t ends_at() const {
    return limits_at + upto(sizeof(uint32_t) * uint64_t{shape_.ranges}, unit_bytes);
  }
  uint64_t keys_at() const {
    return ends_at() + upto(sizeof(uint32_t) * (2 * uint64_t{shape_.ranges} + 1), unit_bytes);
  }
  uint64_t asked_bytes() const { return upto(keys_at() + shape_.key_room, unit_bytes); }
  uint64_t replies_at() const {
    return upto(asked_bytes() + sizeof(RangeHead) * shape_.ranges, line_bytes);
  }

  AskedRanges asked(uint32_t ranges) const {
    AskedRanges asked;
    asked.taken = reinterpret_cast<uint64_t*>(asked_.data());
    asked.limits = reinterpret_cast<const uint32_t*>(asked_.data() + limits_at);
    asked.key_ends = reinterpret_cast<const uint32_t*>(asked_.data() + ends_at());
    asked.keys = asked_.data() + keys_at();
    asked.heads = const_cast<RangeHead*>(columns_.heads);
    asked.replies = const_cast<char*>(columns_.replies);
    asked.reply_room = shape_.reply_room;
    asked.most_bytes = shape_.most_bytes;
    asked.value_skip = shape_.value_skip;
    asked.ranges = ranges;
    return asked;
  }

  Device& device_;
  SortedStore<Device>& store_;
  const RangeShape shape_;
  DeviceMemory<Device> memory_;
  DeviceArray<Device, char> asked_;
  PinnedBlock<Device> pinned_;
  DeviceStream<Device> stream_;
  RangeColumns columns_;
  typename SortedStore<Device>::Hold hold_;  // what the kernel reads
};

}  // namespace isotherm
