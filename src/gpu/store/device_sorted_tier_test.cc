// Sorted tiers on the fake device.
#include "gpu/store/device_sorted_tier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "device_checks/sorted_checks.h"
#include "device_checks/test_size.h"
#include "fake_device/fake_device.h"

namespace isotherm::device_sorted_tier_test {
namespace {

constexpr uint64_t device_bytes = uint64_t{1} << 28;

TEST(SortedTiers, FindNoFault) {
  const uint64_t scale = test_size(64, 512);
  for (const auto& check : sorted_checks<FakeDevice>) {
    FakeDevice device(1, device_bytes);
    EXPECT_EQ(check.run(device, scale), 0u) << check;
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
    EXPECT_EQ(device.allocated_bytes(), 0u);
  }
}

TEST(SortedTiers, WantSomeMemoryAndAShortFront) {
  FakeDevice device(1, device_bytes);
  using Tier = DeviceSortedTier<FakeDevice>;
  EXPECT_THROW(Tier(device, {1000, ""}), std::invalid_argument);
  EXPECT_THROW(Tier(device, {0, ""}), std::invalid_argument);
  EXPECT_THROW(Tier(device, {1 << 20, std::string(17, 'k')}), std::invalid_argument);
}

TEST(SortedTiers, TakeAndAnswerNothing) {
  FakeDevice device(1, device_bytes);
  DeviceSortedTier<FakeDevice> tier(device, {1 << 20, ""});
  EXPECT_TRUE(tier.put({}));
  EXPECT_EQ(tier.stats().runs, 0u);
  const auto gets = tier.make_direct({32, 60, 32});
  gets->start(0);
  gets->wait();
  const auto ranges = tier.make_ranges(small_ranges());
  const auto view = tier.view();
  ranges->start(*view, 0);
  ranges->wait();
}

// All that a tier does, with what may fail.
class Story {
 public:
  explicit Story(FakeDevice& device) : device_(device), keys_(3) {}

  void run() {
    std::optional<ModelledSorted<FakeDevice>> made;
    try {
      ModelledSorted<FakeDevice>& tier = made.emplace(device_, 1 << 20);
      for (const uint64_t count : {20, 30, 3, 4}) {
        if (!tier.put(keys_.changes(count, 40, true))) ++refused;
        tier.check_gets(keys_.keys(3));
        tier.check_ranges(keys_.ranges(5));
      }
      if (!tier.put_unsorted({{"b", {"last", 0, false}}, {"a", {"", 0, true}}})) ++refused;
      tier.check_ranges({{"a", "c"}});
      tier.clear();
      tier.put(keys_.changes(3, 40, true));
    } catch (const DeviceError&) {
      ++lost;
      if (made) expect_lost(made->tier());
    }
    if (made) wrong += made->wrong();
  }

  uint64_t lost = 0;
  uint64_t refused = 0;
  uint64_t wrong = 0;

 private:
  static void expect_lost(SortedTier& tier) {
    const std::vector<SortedPair> pairs{{"key", "value", 0, false}};
    EXPECT_THROW(tier.put(pairs), DeviceError);
    EXPECT_THROW(tier.clear(), DeviceError);
    EXPECT_THROW(tier.view(), DeviceError);
    EXPECT_THROW(tier.stats(), DeviceError);
    EXPECT_THROW(tier.make_direct({32, 64, 32}), DeviceError);
    EXPECT_THROW(tier.make_ranges(small_ranges()), DeviceError);
  }

  FakeDevice& device_;
  SortedKeys keys_;
};

// Runs it with ever later failures, until one is too late.
void tell_with_failures(const std::function<void(FakeDevice&, uint64_t)>& fail,
                        const std::function<void(Story&)>& tell) {
  bool failed = true;
  for (uint64_t after = 0; failed; after += 1 + after / 8) {
    FakeDevice device(after + 1, device_bytes);
    fail(device, after);
    Story story(device);
    const uint64_t before = device.launches();
    tell(story);
    failed = story.lost + story.refused != 0 || device.launches() == before;
    EXPECT_EQ(story.wrong, 0u) << after;
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{}) << after;
    EXPECT_EQ(device.allocated_bytes(), 0u) << after;
    ASSERT_LT(after, 100'000u);
  }
}

TEST(SortedTiers, AreLostWithTheDevice) {
  uint64_t lost = 0;
  tell_with_failures([](FakeDevice& device, uint64_t after) { device.lose_after(after); },
                     [&](Story& story) {
                       story.run();
                       lost += story.lost;
                     });
  EXPECT_GE(lost, 20u);
}

TEST(SortedTiers, AreLostByALaunchThatFails) {
  uint64_t lost = 0;
  tell_with_failures([](FakeDevice& device, uint64_t after) { device.fail_launches_after(after); },
                     [&](Story& story) {
                       story.run();
                       lost += story.lost;
                     });
  EXPECT_GT(lost, 5u);
}

TEST(SortedTiers, RefusePutsWithoutMemory) {
  uint64_t refused = 0;
  uint64_t none = 0;
  tell_with_failures(
      [](FakeDevice& device, uint64_t after) { device.fail_allocations_after(after); },
      [&](Story& story) {
        try {
          story.run();
        } catch (const std::bad_alloc&) {
          ++none;
        }
        EXPECT_EQ(story.lost, 0u);
        refused += story.refused;
      });
  EXPECT_GT(refused, 0u);
  EXPECT_GT(none, 0u);
}

// Each put writes its number to all keys, so a range and a get of all show one number, which grows.
class Numbered {
 public:
  explicit Numbered(FakeDevice& device) : tier_(device, {1 << 22, ""}, 512) { put(0); }

  void put(uint32_t number) {
    const std::string value = std::to_string(number);
    std::vector<std::string> keys;
    std::vector<SortedPair> pairs;
    for (uint32_t i = 0; i < count; ++i) keys.push_back(std::to_string(100 + i));
    for (const std::string& key : keys) pairs.push_back({key, value, 0, false});
    EXPECT_TRUE(tier_.put(pairs));
  }
  void read_until(const std::atomic<bool>& stop) {
    const auto gets = tier_.make_direct({count, 3 * count, 16});
    const auto ranges = tier_.make_ranges({1, 16, 1 << 12, 1 << 12, 0});
    uint32_t newest = 0;
    for (bool last = false; !last;) {
      last = stop;
      for (uint32_t i = 0; i < count; ++i) {
        std::memcpy(gets->columns().keys + 3 * i, std::to_string(100 + i).data(), 3);
        gets->columns().key_ends[i + 1] = 3 * (i + 1);
      }
      gets->start(count);
      gets->wait();
      std::vector<std::string> values;
      for (uint32_t i = 0; i < count; ++i) {
        const char* const slot = gets->columns().replies + 16 * i;
        uint32_t bytes = 0;
        std::memcpy(&bytes, slot, sizeof bytes);
        values.emplace_back(slot + sizeof(DirectHead), bytes);
      }
      check(values, newest);
      check(range(*ranges), newest);
    }
  }

 private:
  static constexpr uint32_t count = 40;

  std::vector<std::string> range(DirectRanges& ranges) {
    const RangeColumns& columns = ranges.columns();
    std::memcpy(columns.keys, "12", 2);
    columns.key_ends[1] = 1;
    columns.key_ends[2] = 2;
    columns.limits[0] = 1000;
    const auto view = tier_.view();
    ranges.start(*view, 1);
    ranges.wait();
    EXPECT_EQ(columns.heads[0].pairs, count);
    std::vector<std::string> values;
    const char* at = columns.replies + columns.heads[0].at;
    for (uint32_t i = 0; i < columns.heads[0].pairs; ++i) {
      PairHead head;
      std::memcpy(&head, at, sizeof head);
      values.emplace_back(at + sizeof head + head.key_bytes, head.value_bytes);
      at += head.bytes();
    }
    return values;
  }
  static void check(const std::vector<std::string>& values, uint32_t& newest) {
    ASSERT_FALSE(values.empty());
    for (const std::string& value : values) EXPECT_EQ(value, values[0]);
    const auto number = static_cast<uint32_t>(std::stoul(values[0]));
    EXPECT_GE(number, newest);
    newest = number;
  }

  DeviceSortedTier<FakeDevice> tier_;
};

TEST(SortedTiers, AreReadWhileRunsComeAndMerge) {
  FakeDevice device(1, device_bytes);
  {
    Numbered tier(device);
    std::atomic<bool> stop{false};
    std::vector<std::thread> readers;
    for (uint32_t i = 0; i < 2; ++i) readers.emplace_back([&] { tier.read_until(stop); });
    for (uint32_t number = 1; number < test_size(60, 500); ++number) tier.put(number);
    stop = true;
    for (std::thread& reader : readers) reader.join();
  }
  EXPECT_EQ(device.allocated_bytes(), 0u);
}

}  // namespace
}  // namespace isotherm::device_sorted_tier_test
