// A fake device's index and values that stand still while a gate is closed, for tests of what goes
// on meanwhile.
//
// Threads. Any may close and open a gate; those that come to a closed one sleep.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "fake_device/fake_device.h"
#include "gpu/device_root_table.h"

namespace isotherm {

class Gate {
 public:
  void close() { set(true); }
  void open() { set(false); }
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !closed_; });
    --waiting_;
  }
  // Until so many threads stand before it.
  void wait_for(uint32_t threads) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ >= threads; });
  }

 private:
  void set(bool closed) {
    const std::lock_guard guard(mutex_);
    closed_ = closed;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  uint32_t waiting_ = 0;
};

struct DeviceGates {
  Gate rounds;  // before the roots of a round are there
  Gate values;  // before values travel
};

class GatedLane final : public ValueLane {
 public:
  GatedLane(std::unique_ptr<ValueLane> lane, Gate& gate) : lane_(std::move(lane)), gate_(gate) {}
  char* window() const override { return lane_->window(); }
  uint64_t window_bytes() const override { return lane_->window_bytes(); }
  ValueCopy* copies() const override { return lane_->copies(); }
  uint32_t most_copies() const override { return lane_->most_copies(); }
  void run(uint32_t count) override {
    gate_.pass();
    lane_->run(count);
  }

 private:
  const std::unique_ptr<ValueLane> lane_;
  Gate& gate_;
};

class GatedValues final : public ValueTier {
 public:
  GatedValues(std::unique_ptr<ValueTier> tier, Gate& gate) : tier_(std::move(tier)), gate_(gate) {}
  uint64_t address() const override { return tier_->address(); }
  uint64_t bytes() const override { return tier_->bytes(); }
  std::unique_ptr<ValueLane> make_lane() override {
    return std::make_unique<GatedLane>(tier_->make_lane(), gate_);
  }
  PinnedValues make_pinned(uint64_t bytes) override { return tier_->make_pinned(bytes); }

 private:
  const std::unique_ptr<ValueTier> tier_;
  Gate& gate_;
};

class GatedRootTable final : public DeviceRootTable<FakeDevice> {
 public:
  GatedRootTable(FakeDevice& device, const FixedDeviceOptions& options,
                 const ValueLaneOptions& lanes, DeviceGates& gates)
      : DeviceRootTable(device, options, lanes), gates_(gates) {}
  std::unique_ptr<ValueTier> make_values(uint64_t bytes) override {
    return std::make_unique<GatedValues>(DeviceRootTable::make_values(bytes), gates_.values);
  }
  void wait() override {
    gates_.rounds.pass();
    DeviceRootTable::wait();
  }

 private:
  DeviceGates& gates_;
};

inline RootTiersMaker gated_root_tiers_maker(FakeDevice& device, DeviceGates& gates) {
  return [&device, &gates](uint64_t seed) {
    constexpr ValueLaneOptions lanes{.window_bytes = 16 << 10, .copies = 24};
    const FixedDeviceOptions options{0, seed, 4, 512, ExpressOptions{2, 3, 20, 50}};
    std::vector<std::unique_ptr<RootTier>> tiers;
    tiers.push_back(std::make_unique<GatedRootTable>(device, options, lanes, gates));
    return tiers;
  };
}

}  // namespace isotherm
