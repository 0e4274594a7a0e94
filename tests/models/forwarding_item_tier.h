// ForwardingItemTier: hands each call to another tier, so that a test changes one of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/store/item_tier.h"
#include "gpu/udp/packet_device.h"

namespace isotherm {

class ForwardingItemTier : public ItemTier {
 public:
  explicit ForwardingItemTier(std::unique_ptr<ItemTier> its) : its_(std::move(its)) {}

  uint64_t run(const gpu::ItemRequests& requests) override { return its_->run(requests); }
  uint64_t walk(uint64_t bound, uint64_t wanted, std::vector<WalkedItem>& to) override {
    return its_->walk(bound, wanted, to);
  }
  uint64_t count(std::string_view start, std::string_view but, int64_t now_ms) override {
    return its_->count(start, but, now_ms);
  }
  uint64_t place_of(std::string_view key) const override { return its_->place_of(key); }
  std::unique_ptr<DirectGets> make_direct(const DirectShape& shape) override {
    return its_->make_direct(shape);
  }
  std::unique_ptr<PacketDevice> make_packets(const PacketOptions& options) override {
    return its_->make_packets(options);
  }
  gpu::ItemStats stats() override { return its_->stats(); }

 private:
  const std::unique_ptr<ItemTier> its_;
};

}  // namespace isotherm
