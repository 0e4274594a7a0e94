// DeviceItemTier: an ItemTier (gpu/store/item_tier.h) over a store of device items, on any device.
//
// Threads. As gpu/store/item_tier.h; the device is entered by every call, since callers' threads
// differ. Must not outlive its device.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "gpu/items/device_item_store.h"
#include "gpu/items/direct_get_columns.h"
#include "gpu/items/item_launches.h"
#include "gpu/store/item_tier.h"
#include "gpu/udp/packet_engine.h"
#include "isotherm/gpu/common.h"

namespace isotherm {

template <class Device>
class DeviceItemTier : public ItemTier {
 public:
  // Throws std::bad_alloc, DeviceError.
  DeviceItemTier(Device& device, const DeviceItemOptions& options)
      : device_(device), store_(device, options), launches_(device, store_) {}
  ~DeviceItemTier() override { device_.enter(); }

  uint64_t run(const gpu::ItemRequests& requests) override {
    device_.enter();
    return store_.run_host(requests);
  }
  uint64_t walk(uint64_t bound, uint64_t wanted, std::vector<WalkedItem>& to) override {
    device_.enter();
    return store_.walk(bound, wanted, to);
  }
  uint64_t count(std::string_view start, std::string_view but, int64_t now_ms) override {
    device_.enter();
    return store_.count(start, but, now_ms);
  }
  uint64_t place_of(std::string_view key) const override { return store_.place_of(key); }
  std::unique_ptr<DirectGets> make_direct(const DirectShape& shape) override {
    device_.enter();
    return std::make_unique<DirectGetColumns<Device>>(launches_, shape);
  }
  std::unique_ptr<PacketDevice> make_packets(const PacketOptions& options) override {
    device_.enter();
    return std::make_unique<PacketEngine<Device>>(device_, store_, options);
  }
  gpu::ItemStats stats() override {
    device_.enter();
    return store_.stats();
  }

 private:
  Device& device_;
  DeviceItemStore<Device> store_;
  ItemLaunches<Device> launches_;
};

}  // namespace isotherm
