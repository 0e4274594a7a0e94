#include "fake_device/fake_root_table.h"

#include <memory>
#include <utility>

#include "fake_device/gated_root_table.h"
#include "gpu/store/device_root_table.h"

namespace isotherm {
namespace {

// Express kernels end soon, and mail begins anew.
constexpr ExpressOptions short_express{2, 3, 20, 50};
constexpr ValueChannelOptions small_channels{.window_bytes = 16 << 10, .copies = 24};

FixedDeviceOptions small_table(uint64_t seed, uint64_t device_memory) {
  constexpr int line_bits = 4;
  constexpr uint32_t part_rows = 512;
  return {device_memory, seed, line_bits, part_rows, short_express};
}

class GatedChannel final : public ValueChannel {
 public:
  GatedChannel(std::unique_ptr<ValueChannel> channel, Gate& gate)
      : channel_(std::move(channel)), gate_(gate) {}
  char* window() const override { return channel_->window(); }
  uint64_t window_bytes() const override { return channel_->window_bytes(); }
  ValueCopy* copies() const override { return channel_->copies(); }
  uint32_t most_copies() const override { return channel_->most_copies(); }
  void run(uint32_t count) override {
    gate_.pass();
    channel_->run(count);
  }

 private:
  const std::unique_ptr<ValueChannel> channel_;
  Gate& gate_;
};

class GatedValues final : public ValueTier {
 public:
  GatedValues(std::unique_ptr<ValueTier> tier, Gate& gate) : tier_(std::move(tier)), gate_(gate) {}
  uint64_t address() const override { return tier_->address(); }
  uint64_t bytes() const override { return tier_->bytes(); }
  std::unique_ptr<ValueChannel> make_channel() override {
    return std::make_unique<GatedChannel>(tier_->make_channel(), gate_);
  }
  PinnedValues make_pinned(uint64_t bytes) override { return tier_->make_pinned(bytes); }

 private:
  const std::unique_ptr<ValueTier> tier_;
  Gate& gate_;
};

class GatedRootTable final : public DeviceRootTable<FakeDevice> {
 public:
  GatedRootTable(FakeDevice& device, uint64_t seed, DeviceGates& gates)
      : DeviceRootTable(device, small_table(seed, 0), small_channels), gates_(gates) {}
  std::unique_ptr<ValueTier> make_values(uint64_t bytes, uint64_t cap) override {
    return std::make_unique<GatedValues>(DeviceRootTable::make_values(bytes, cap), gates_.values);
  }
  void wait() override {
    gates_.rounds.pass();
    DeviceRootTable::wait();
  }
  bool ready() override { return gates_.rounds.is_open() && DeviceRootTable::ready(); }

 private:
  DeviceGates& gates_;
};

}  // namespace

RootTiersMaker fake_root_tiers_maker(std::vector<FakeDevice*> devices, uint64_t device_memory) {
  return [devices = std::move(devices), device_memory](uint64_t seed) {
    std::vector<std::unique_ptr<RootTier>> tiers;
    for (FakeDevice* device : devices) {
      tiers.push_back(std::make_unique<DeviceRootTable<FakeDevice>>(
          *device, small_table(seed, device_memory), small_channels));
    }
    return tiers;
  };
}

RootTiersMaker fake_root_tiers_maker(FakeDevice& device, uint64_t device_memory) {
  return fake_root_tiers_maker(std::vector<FakeDevice*>{&device}, device_memory);
}

RootTiersMaker gated_root_tiers_maker(FakeDevice& device, DeviceGates& gates) {
  return [&device, &gates](uint64_t seed) {
    std::vector<std::unique_ptr<RootTier>> tiers;
    tiers.push_back(std::make_unique<GatedRootTable>(device, seed, gates));
    return tiers;
  };
}

}  // namespace isotherm
