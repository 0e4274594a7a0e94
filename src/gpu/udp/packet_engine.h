// PacketEngine: a PacketDevice over a store of device items, on any device.
//
// Each channel has a stream and its slots in one piece of pinned memory, which kernels
// read and write over the bus: a batch is one launch, without a copy before or behind it. The order
// of batches and of other calls is the store's (DeviceItemStore::read).
//
// Threads. See gpu/udp/packet_device.h; the store has its own lock, and every call enters the
// device, since callers' threads differ. Limits. The store must outlive it. Errors. std::bad_alloc
// without pinned memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpu/items/device_item_store.h"
#include "gpu/platform/device_error.h"
#include "gpu/platform/device_stream.h"
#include "gpu/platform/grid.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/udp/packet_device.h"
#include "gpu/udp/packet_kernel.h"

namespace isotherm {

template <class Device>
class PacketEngine final : public PacketDevice {
 public:
  PacketEngine(Device& device, DeviceItemStore<Device>& store, const PacketOptions& options)
      : device_(device), store_(store), options_(options.bounded()) {
    device_.enter();
    for (uint32_t i = 0; i < options_.channels; ++i) {
      channels_.push_back(std::make_unique<Channel>(device, options_));
    }
  }
  ~PacketEngine() override {
    device_.enter();
    for (const auto& channel : channels_) device_.synchronize(channel->stream.get());
  }
  PacketEngine(const PacketEngine&) = delete;
  PacketEngine& operator=(const PacketEngine&) = delete;

  const PacketOptions& options() const override { return options_; }
  const PacketSlots& slots(uint32_t channel) const override { return channels_[channel]->slots; }

  void start(uint32_t channel, uint32_t rows, int64_t now_ms) override {
    device_.enter();
    Channel& its = *channels_[channel];
    const auto stream = its.stream.get();
    its.ended = store_.read(rows, stream, [&](const ItemLookup& items) {
      const uint32_t spread = spread_of(rows);
      const PacketKernel kernel{
          its.slots, items,           rows,  options_.port, options_.amplification,
          now_ms,    options_.stored, spread};
      const uint32_t blocks = grid_for(device_, uint64_t{rows} << spread, PacketKernel::threads);
      require_device(device_.launch(stream, blocks, PacketKernel::threads, kernel),
                     "launch the kernel of packets");
    });
  }
  bool lend(std::span<char> memory) override {
    device_.enter();
    lent_ = std::make_unique<PinnedLoan<Device>>(device_, memory.data(), memory.size());
    if (!lent_->is_pinned()) lent_.reset();
    for (const auto& its : channels_) its->slots.at = lent_ != nullptr ? its->at : nullptr;
    return lent_ != nullptr;
  }
  void take_back() override {
    device_.enter();
    for (const auto& its : channels_) its->slots.at = nullptr;
    lent_.reset();
  }
  bool done(uint32_t channel) override {
    device_.enter();
    const Channel& its = *channels_[channel];
    if (device_.done(its.ended)) return true;
    require_device(device_.healthy(its.stream.get()), "answer packets");
    return false;
  }
  void wait(uint32_t channel) override {
    device_.enter();
    require_device(device_.synchronize(channels_[channel]->ended), "wait for packets");
  }
  uint64_t run_host(const gpu::ItemRequests& requests) override {
    return store_.run_host(requests);
  }

 private:
  struct Channel {
    // Throws std::bad_alloc.
    Channel(Device& its_device, const PacketOptions& options)
        : memory(its_device, options.channel_bytes()),
          stream(its_device,
                 options.urgent ? its_device.create_urgent_stream() : its_device.create_stream()) {
      const uint64_t rows = options.rows;
      slots.frame_stride = options.frame_stride;
      slots.reply_stride = options.reply_stride;
      slots.frames = memory.data();
      slots.replies = slots.frames + rows * slots.frame_stride;
      at = reinterpret_cast<const char**>(slots.replies + rows * slots.reply_stride);
      slots.bytes = reinterpret_cast<uint32_t*>(at + rows);
      slots.results = reinterpret_cast<PacketResult*>(slots.bytes + rows);
    }
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    const PinnedBlock<Device> memory;
    const DeviceStream<Device> stream;
    typename Device::Event ended{};  // of the last batch
    PacketSlots slots;
    const char** at = nullptr;  // of the slots, while memory is lent
  };

  Device& device_;
  DeviceItemStore<Device>& store_;
  const PacketOptions options_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::unique_ptr<PinnedLoan<Device>> lent_;
};

}  // namespace isotherm
