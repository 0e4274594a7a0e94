// DeviceItemTier: an ItemTier (gpu/store/item_tier.h) over a store of device items, on any devices.
//
// Threads. As gpu/store/item_tier.h; a device is entered by every call, since callers' threads
// differ. Must not outlive its devices.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/items/direct_get_columns.h"
#include "gpu/items/item_launches.h"
#include "gpu/items/split_direct_gets.h"
#include "gpu/items/split_item_store.h"
#include "gpu/store/item_tier.h"
#include "gpu/udp/packet_engine.h"
#include "isotherm/gpu/common.h"

namespace isotherm {

template <class Device>
class DeviceItemTier : public ItemTier {
 public:
  // Throws std::bad_alloc, DeviceError, std::invalid_argument for none or too many devices.
  DeviceItemTier(std::span<Device* const> devices, const DeviceItemOptions& options)
      : devices_(devices.begin(), devices.end()), store_(devices, options) {
    for (size_t i = 0; i < devices.size(); ++i) {
      devices[i]->enter();
      launches_.emplace_back(*devices[i], *store_.stores()[i]);
    }
  }
  ~DeviceItemTier() override {
    for (; !launches_.empty(); launches_.pop_back()) devices_[launches_.size() - 1]->enter();
  }

  uint64_t run(const gpu::ItemRequests& requests) override { return store_.run_host(requests); }
  uint64_t walk(uint64_t bound, uint64_t wanted, std::vector<WalkedItem>& to) override {
    return store_.has_place(bound) ? store_.walk(bound, wanted, to) : 0;
  }
  uint64_t count(std::string_view start, std::string_view but, int64_t now_ms) override {
    return store_.count(start, but, now_ms);
  }
  uint64_t place_of(std::string_view key) const override { return store_.place_of(key); }
  std::unique_ptr<DirectGets> make_direct(const DirectShape& shape) override {
    const bool alone = devices_.size() == 1;
    const DirectShape each = alone ? shape : SplitDirectGets::shape_of_each(shape, devices_.size());
    std::vector<std::unique_ptr<DirectGets>> parts;
    for (size_t i = 0; i < devices_.size(); ++i) {
      devices_[i]->enter();
      parts.push_back(std::make_unique<DirectGetColumns<Device>>(launches_[i], each));
    }
    if (alone) return std::move(parts.front());
    return std::make_unique<SplitDirectGets>(std::move(parts), store_.hash());
  }
  std::unique_ptr<PacketDevice> make_packets(const PacketOptions& options) override {
    if (devices_.size() > 1) throw std::invalid_argument("frames are answered by one GPU alone");
    devices_[0]->enter();
    return std::make_unique<PacketEngine<Device>>(*devices_[0], *store_.alone(), options);
  }
  gpu::ItemStats stats() override { return store_.stats(); }

 private:
  const std::vector<Device*> devices_;
  SplitItemStore<Device> store_;
  std::deque<ItemLaunches<Device>> launches_;  // of each device
};

}  // namespace isotherm
