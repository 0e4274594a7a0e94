// Values that travel to a fake device and back, of all lengths, by windows of all sizes.
#include "gpu/store/device_value_tier.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "executor/values/value_transfer.h"
#include "fake_device/fake_device.h"

namespace isotherm::device_value_tier_test {
namespace {

class DeviceValueTierTest : public ::testing::Test {
 protected:
  static constexpr uint64_t tier_bytes = 2 << 20;

  // Values of random lengths go to several devices, and come back in another order.
  void go_and_return(const ValueChannelOptions& options, uint64_t count, uint64_t longest) {
    FakeDevice first(1, 8 << 20);
    FakeDevice second(2, 8 << 20, first);
    std::vector<std::unique_ptr<ValueTier>> tiers;
    std::vector<ValueLog::Area> areas;
    for (FakeDevice* device : {&first, &second}) {
      device->enter();
      tiers.push_back(std::make_unique<DeviceValueTier<FakeDevice>>(*device, tier_bytes, options));
      areas.push_back({tiers.back()->address(), tiers.back()->bytes()});
    }
    ValueLog log(areas, 256 << 10, epochs, budget);
    std::vector<std::unique_ptr<ValueChannel>> channels;
    for (const auto& tier : tiers) channels.push_back(tier->make_channel());
    ValueTransfer transfer(log, std::move(channels));

    std::mt19937_64 random(count);
    std::vector<std::string> values(count);
    std::vector<ValueTransfer::Bring> brings;
    std::vector<ValueTransfer::Fetch> fetches;
    for (std::string& value : values) {
      value.resize(1 + random() % longest);
      for (char& c : value) c = static_cast<char>(random());
      const auto place = log.add(value.size(), 1);
      ASSERT_TRUE(place);
      brings.push_back({*place, value.size(), value.data()});
    }
    transfer.bring(brings);
    std::vector<std::string> copies(count);
    for (uint64_t i = count; i-- > 0;) {
      copies[i].resize(values[i].size());
      fetches.push_back({brings[i].place, values[i].size(), copies[i].data(), false});
    }
    transfer.fetch(fetches);
    EXPECT_TRUE(copies == values);
  }

  EpochDomain epochs;
  MemoryBudget budget{0};
};

TEST_F(DeviceValueTierTest, ValuesReturnAsTheyWent) {
  go_and_return({.window_bytes = 16 << 10, .copies = 24}, 500, 3000);
  go_and_return({.window_bytes = 1 << 20, .copies = 1 << 14}, 500, 3000);
}

TEST_F(DeviceValueTierTest, ValuesMayBeLongerThanAWindow) {
  go_and_return({.window_bytes = 160, .copies = 1}, 20, 700);
  go_and_return({.window_bytes = 16 << 10, .copies = 64}, 40, 64 << 10);
}

TEST_F(DeviceValueTierTest, WithoutMemoryThereIsNone) {
  FakeDevice device(1, 1 << 20);
  EXPECT_THROW(DeviceValueTier<FakeDevice>(device, 2 << 20), std::bad_alloc);
  DeviceValueTier<FakeDevice> tier(device, 1 << 19);
  device.fail_allocations_after(2);
  EXPECT_THROW(static_cast<void>(tier.make_channel()), std::bad_alloc);
  device.recover();
  const auto channel = tier.make_channel();
  channel->copies()[0] = {reinterpret_cast<uint64_t>(channel->window()), tier.address(), 16};
  device.fail_launches_after(0);
  EXPECT_THROW(channel->run(1), DeviceError);
}

}  // namespace
}  // namespace isotherm::device_value_tier_test
