// DeviceValueTier: a ValueTier (gpu/store/value_tier.h) in the memory of any device, taken as a
// whole when it is made.
//
// Threads. As gpu/store/value_tier.h; the device is entered by every call, since callers' threads
// differ.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>

#include "gpu/platform/device_error.h"
#include "gpu/platform/device_memory.h"
#include "gpu/platform/device_stream.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/store/value_kernel.h"
#include "gpu/store/value_tier.h"

namespace isotherm {

struct ValueChannelOptions {
  uint64_t window_bytes = 1 << 20;
  uint32_t copies = 1 << 14;

  // There are some channels for each thread, so all of them together take a part of a small cap.
  ValueChannelOptions within(uint64_t cap) const {
    constexpr uint64_t part = 1024;
    constexpr uint64_t least = 64 << 10;
    ValueChannelOptions its = *this;
    if (cap != 0) its.window_bytes = std::min(window_bytes, std::max(cap / part, least));
    its.copies = static_cast<uint32_t>(copies * its.window_bytes / window_bytes);
    return its;
  }
};

template <class Device>
class DeviceValueChannel final : public ValueChannel {
 public:
  // Throws std::bad_alloc.
  DeviceValueChannel(Device& device, const ValueChannelOptions& options)
      : device_(device),
        most_copies_(options.copies),
        stream_(device),
        window_(device, options.window_bytes),
        copies_(device, options.copies * sizeof(ValueCopy)),
        memory_(device, 0),
        list_(memory_, options.copies) {
    if (list_.empty()) throw std::bad_alloc();
  }
  ~DeviceValueChannel() override { device_.enter(); }

  char* window() const override { return window_.data(); }
  uint64_t window_bytes() const override { return window_.bytes(); }
  ValueCopy* copies() const override { return reinterpret_cast<ValueCopy*>(copies_.data()); }
  uint32_t most_copies() const override { return most_copies_; }

  void run(uint32_t count) override {
    if (count == 0) return;
    device_.enter();
    constexpr uint32_t threads = 256;
    constexpr uint32_t tiles = threads / CopyValuesKernel::tile;
    const uint32_t blocks = std::min((count + tiles - 1) / tiles, device_.full_grid());
    // Reads of the host's memory that lie apart are slow: a long list goes over as a whole.
    constexpr uint32_t few = 64;
    const ValueCopy* list = count <= few ? copies() : list_.data();
    const bool sent = count <= few || device_.to_device(stream_.get(), list_.data(), copies(),
                                                        count * sizeof(ValueCopy));
    require_device(
        sent && device_.launch(stream_.get(), blocks, threads, CopyValuesKernel{list, count}) &&
            device_.synchronize(stream_.get()),
        "copy values");
  }

 private:
  Device& device_;
  const uint32_t most_copies_;
  DeviceStream<Device> stream_;
  PinnedBlock<Device> window_;
  PinnedBlock<Device> copies_;
  DeviceMemory<Device> memory_;
  DeviceArray<Device, ValueCopy> list_;  // the same on the device
};

template <class Device>
class DeviceValueTier final : public ValueTier {
 public:
  // `device` must outlive it. Throws std::bad_alloc where it has not so much memory.
  DeviceValueTier(Device& device, uint64_t bytes, const ValueChannelOptions& options = {})
      : device_(device), options_(options), all_(device, 0), memory_(all_, bytes) {
    if (memory_.empty()) throw std::bad_alloc();
  }
  ~DeviceValueTier() override { device_.enter(); }

  uint64_t address() const override { return reinterpret_cast<uint64_t>(memory_.data()); }
  uint64_t bytes() const override { return memory_.bytes(); }
  std::unique_ptr<ValueChannel> make_channel() override {
    device_.enter();
    return std::make_unique<DeviceValueChannel<Device>>(device_, options_);
  }
  PinnedValues make_pinned(uint64_t bytes) override {
    device_.enter();
    auto* memory = static_cast<char*>(device_.allocate_pinned(bytes));
    return {memory, [&device = device_, bytes](char* at) {
              device.enter();
              device.release_pinned(at, bytes);
            }};
  }

 private:
  Device& device_;
  const ValueChannelOptions options_;
  DeviceMemory<Device> all_;
  DeviceArray<Device, char> memory_;
};

}  // namespace isotherm
