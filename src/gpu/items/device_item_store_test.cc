// Tables of items on the fake device: the checks that the GPU runs, and what happens when the
// device fails.
#include <gtest/gtest.h>

#include "device_checks/device_item_host_checks.h"
#include "device_checks/device_item_size_checks.h"
#include "device_checks/device_item_version_checks.h"
#include "device_checks/test_size.h"
#include "fake_device/fake_device.h"
#include "isotherm/gpu/common.h"
#include "items/poison.h"

namespace isotherm::device_item_store_test {
namespace {

constexpr uint64_t memory = uint64_t{1} << 29;
constexpr uint64_t usual = 512;
constexpr uint64_t full = 1024;
const uint64_t scale = test_size(usual / 2, full);

// Those that find fewer rows too few for what they look for, and say so.
bool is_large(const std::string& check) {
  return check == "eviction" || check == "unlisted blocks" || check == "conditions";
}

// Those that do on two memories what others do on one.
bool is_slow(const std::string& check) {
  return check == "evicting histories on both" || check == "changing sizes on both";
}

class DeviceItemChecks : public ::testing::TestWithParam<DeviceItemCheck<FakeDevice>> {};

TEST_P(DeviceItemChecks, FindNoFault) {
  if (poison::sanitized && is_slow(GetParam().name)) GTEST_SKIP() << "slow here";
  for (uint64_t seed = 1; seed <= test_size(1, 2); ++seed) {
    FakeDevice device(seed, memory);
    const uint64_t rows = is_large(GetParam().name) ? test_size(usual, full) : scale;
    EXPECT_EQ(GetParam().run(device, rows), 0u) << "seed " << seed;
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
    EXPECT_EQ(device.allocated_bytes(), 0u);
  }
}

std::string test_name(const ::testing::TestParamInfo<DeviceItemCheck<FakeDevice>>& test) {
  std::string name = test.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Items, DeviceItemChecks,
                         ::testing::ValuesIn(device_item_checks<FakeDevice>), test_name);

INSTANTIATE_TEST_SUITE_P(ItemsOnHost, DeviceItemChecks,
                         ::testing::ValuesIn(device_item_host_checks<FakeDevice>), test_name);

INSTANTIATE_TEST_SUITE_P(ItemSizes, DeviceItemChecks,
                         ::testing::ValuesIn(device_item_size_checks<FakeDevice>), test_name);

INSTANTIATE_TEST_SUITE_P(ItemVersions, DeviceItemChecks,
                         ::testing::ValuesIn(device_item_version_checks<FakeDevice>), test_name);

using Store = DeviceItemStore<FakeDevice>;
using Modelled = ModelledItems<FakeDevice>;

ItemBatch some_puts(uint64_t count) {
  ItemSource source(1, 40, 100);
  return source.uniform_op(TableOp::put, source.keys(count));
}

// With items on the host as well where calls come from there.
DeviceItemOptions failing_items(bool host) {
  DeviceItemOptions options = small_items(1, 64);
  if (host) {
    options.host_memory = 1 << 20;
    options.host_items_from = item_classes::bytes_of(6);
  }
  return options;
}

TEST(DeviceItemStore, ThrowsWithoutMemoryForTheEmptyTable) {
  bool made = false;
  for (uint64_t allocations = 0; !made; ++allocations) {
    FakeDevice device(1, memory);
    device.fail_allocations_after(allocations);
    try {
      const Store store(device, small_items(1, 64));
      made = true;
      EXPECT_GT(allocations, 20u);
    } catch (const std::bad_alloc&) {
    }
    device.fail_allocations_after(FakeDevice::never);
    EXPECT_EQ(device.allocated_bytes(), 0u) << allocations;
  }
}

TEST(DeviceItemStore, IsLostWhenALaunchFails) {
  for (const bool host : {false, true}) {
    bool failed = true;
    for (uint64_t launches = 0; failed; launches += test_size(29, 3)) {
      FakeDevice device(1, memory);
      Modelled table(device, failing_items(host));
      table.run_from(host, some_puts(100));
      device.fail_launches_after(launches);
      failed = false;
      try {
        table.run_from(host, some_puts(100));
      } catch (const DeviceError&) {
        failed = true;
      }
      device.fail_launches_after(FakeDevice::never);
      if (failed) {
        EXPECT_THROW(table.run_from(host, some_puts(1)), DeviceError);
        EXPECT_THROW(table.stats(), DeviceError);
      }
      EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
    }
  }
}

TEST(DeviceItemStore, SaysWhenTheDeviceIsLost) {
  for (const bool host : {false, true}) {
    for (const uint64_t operations : {0, 1, 5, 20, 100, 150}) {
      FakeDevice device(1, memory);
      Modelled table(device, failing_items(host));
      device.lose_after(operations);
      EXPECT_THROW(
          {
            for (int i = 0; i < 20; ++i) table.run_from(host, some_puts(100));
          },
          DeviceError);
      EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
    }
  }
}

TEST(DeviceItemStore, WithoutMemoryPutsAreRefusedAndLaterOnesAreNot) {
  FakeDevice device(1, memory);
  ItemSource source(3, 40, 100);
  Modelled table(device, small_items(1, 64));
  const std::vector<std::string> keys = source.keys(200);
  table.run_host(source.uniform_op(TableOp::put, {keys.begin(), keys.begin() + 20}));
  EXPECT_EQ(table.refused(), 0u);
  device.fail_allocations_after(0);
  for (int i = 0; i < 5; ++i) table.run_host(source.mixed(keys, 300, 0.8));
  EXPECT_GT(table.refused(), 0u);
  device.fail_allocations_after(FakeDevice::never);
  const uint64_t refused = table.refused();
  for (int i = 0; i < 5; ++i) table.run_host(source.mixed(keys, 300, 0.8));
  EXPECT_EQ(table.refused(), refused);
  table.check_all();
  EXPECT_EQ(table.wrong(), 0u);
  EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
}

// At whatever allocation memory ends, the device has nothing to do on what was given back.
TEST(DeviceItemStore, MemoryThatIsGivenBackIsNotUsed) {
  for (uint64_t allocations = 0; allocations < 4; ++allocations) {
    FakeDevice device(1, memory);
    Modelled table(device, small_items(1, 64));
    table.run_host(numbered_puts(0, 20, 10));
    device.fail_allocations_after(allocations);
    table.run_host(numbered_puts(20, 64, 100));
    device.fail_allocations_after(FakeDevice::never);
    table.check_all();
    EXPECT_EQ(table.wrong(), 0u) << allocations;
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{}) << allocations;
  }
}

// Host memory that cannot be had is full: at whatever allocation it ends, nothing goes wrong, and
// when there is some again nothing is refused.
TEST(DeviceItemStore, WithoutHostMemoryPutsAreRefusedAndLaterOnesAreNot) {
  uint64_t refused_at = 0;
  for (uint64_t allocations = 0; allocations < 8; ++allocations) {
    FakeDevice device(1, memory);
    ItemSource source(3, 40, 1000);
    DeviceItemOptions options = small_items(1, 256);
    options.host_items_from = allocations % 2 == 0 ? 1 : 0;
    options = capped_items(device, options, 100'000, 8 << 20);
    Modelled table(device, options);
    const std::vector<std::string> keys = source.keys(1000);
    const auto put_some = [&](int64_t first) {
      const std::vector<std::string> some(keys.begin() + first, keys.begin() + first + 500);
      table.run_host(source.uniform_op(TableOp::put, some));
    };
    put_some(0);
    EXPECT_GT(table.stats().host_entries, 0u);
    EXPECT_EQ(table.refused(), 0u);
    device.fail_allocations_after(allocations);
    put_some(500);
    refused_at += table.refused() != 0;
    device.fail_allocations_after(FakeDevice::never);
    const uint64_t refused = table.refused();
    put_some(250);
    put_some(500);
    EXPECT_EQ(table.refused(), refused) << allocations;
    table.check_all();
    EXPECT_EQ(table.wrong(), 0u) << allocations;
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
  }
  EXPECT_GT(refused_at, 3u);
}

TEST(DeviceItemStore, WithoutACapTheDeviceEndsWhereItsMemoryDoes) {
  DeviceItemOptions options = small_items(1, 256);
  FakeDevice large(1, memory);
  const uint64_t bytes = capped_items(large, options, 600'000, 1).index.gpu_memory;
  FakeDevice device(1, bytes);
  options.host_memory = 2 << 20;
  ItemSource source(3, 40, 1000);
  Modelled table(device, options);
  // The device has no room for arrays of calls.
  const ItemBatch puts = source.uniform_op(TableOp::put, source.keys(3000));
  table.run_host(puts);
  table.run_host(of_keys(TableOp::get, puts));
  const gpu::ItemStats stats = table.stats();
  EXPECT_GT(stats.host_entries, 0u);
  EXPECT_LT(stats.host_entries, stats.entries);
  EXPECT_GE(stats.host_item_bytes, stats.host_entries * 16);
  EXPECT_LE(stats.host_item_bytes, stats.host_bytes);
  EXPECT_EQ(table.wrong() + table.refused(), 0u);
  table.run_host(of_keys(TableOp::erase, puts));
  EXPECT_EQ(table.stats().host_entries + table.stats().host_item_bytes, 0u);
  EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
}

// Keys by their hashes, of which the uppermost 16 bits count: `few` have 2048 hashes in all, `many`
// others, of which the later ones are shared by two keys each.
struct SharedHashes {
  static constexpr uint64_t mask = uint64_t{0xffff} << 48;

  SharedHashes(uint64_t seed, uint64_t alone, uint64_t keys) {
    std::vector<std::vector<std::string>> by_hash(65536);
    for (uint64_t i = 0; few.size() < keys || many.size() < keys; ++i) {
      std::string key = std::to_string(i + 1'000'000'000);
      const ByteRange all{key.data(), key.data() + key.size()};
      const uint64_t hash = ItemHash{seed, mask}(key.data(), key.size(), all) >> 48;
      if (hash < 2048) {
        if (few.size() < keys) few.push_back(key);
        continue;
      }
      std::vector<std::string>& same = by_hash[hash];
      same.push_back(key);
      if (many.size() < alone && same.size() == 1) many.push_back(key);
      if (many.size() >= alone && many.size() < keys && same.size() == 9) {
        many.insert(many.end(), same.begin() + 7, same.end());
      }
    }
  }
  std::vector<std::string> few;
  std::vector<std::string> many;
};

const std::string value_of_many(24, 'v');

ItemBatch batch(TableOp op, const std::vector<std::string>& keys,
                const std::string& value = value_of_many) {
  ItemBatch requests;
  for (const std::string& key : keys) requests.push_back({op, key, value});
  return requests;
}

// Leaves blocks for all keys, an index of few entries, and no memory. An item that shares its hash
// takes two words more than one that is alone, so blocks of both sizes are made.
void fill_blocks_alone(FakeDevice& device, Modelled& table, const SharedHashes& shared) {
  table.run_host(batch(TableOp::put, shared.few));
  table.run_host(batch(TableOp::put, shared.few, value_of_many.substr(16)));
  table.run_host(batch(TableOp::erase, shared.few));
  device.fail_allocations_after(0);
}

TEST(DeviceItemStore, ItemsGiveWayWhereTheIndexIsFull) {
  if (poison::sanitized) GTEST_SKIP() << "too slow here: it takes many rows";
  constexpr uint64_t keys = 17000;
  const SharedHashes shared(1, keys, keys);
  FakeDevice device(1, memory);
  DeviceItemOptions options = small_items(1, 1024);
  options.index.line_bits = 2;
  options.hash_mask = SharedHashes::mask;
  options.evicts = true;
  Modelled table(device, options);
  fill_blocks_alone(device, table, shared);
  for (uint64_t first = 0; first < keys; first += 1000) {
    table.run_host(batch(TableOp::put, {shared.many.begin() + static_cast<int64_t>(first),
                                        shared.many.begin() + static_cast<int64_t>(first) + 1000}));
  }
  EXPECT_EQ(table.refused(), 0u);
  EXPECT_GT(table.stats().evicted, 1000u);
  device.fail_allocations_after(FakeDevice::never);
  table.check_all();
  EXPECT_EQ(table.wrong(), 0u);
  EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
}

TEST(DeviceItemStore, KeysOfOneHashAreRefusedTogetherWhereTheIndexIsFull) {
  if (poison::sanitized) GTEST_SKIP() << "too slow here: it takes many rows";
  constexpr uint64_t alone = 7000;
  constexpr uint64_t keys = 17000;
  const SharedHashes shared(1, alone, keys);
  FakeDevice device(1, memory);
  DeviceItemOptions options = small_items(1, 1024);
  options.index.line_bits = 2;
  options.hash_mask = SharedHashes::mask;
  Modelled table(device, options);
  fill_blocks_alone(device, table, shared);
  table.run_host(batch(TableOp::put, {shared.many.begin(), shared.many.begin() + alone}));
  EXPECT_EQ(table.refused(), 0u);
  table.run_host(batch(TableOp::put, {shared.many.begin() + alone, shared.many.end()}));
  EXPECT_GT(table.refused(), 0u);
  device.fail_allocations_after(FakeDevice::never);
  table.check_all();
  // What was refused is free again: all find room now.
  const uint64_t refused = table.refused();
  table.run_host(batch(TableOp::put, shared.many));
  EXPECT_EQ(table.refused(), refused);
  table.check_all();
  EXPECT_EQ(table.wrong(), 0u);
  EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
}

}  // namespace
}  // namespace isotherm::device_item_store_test
