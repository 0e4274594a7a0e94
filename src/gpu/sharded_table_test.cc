// Tables over several fake devices: the checks that GPUs run, and what happens when one fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "device_checks/sharded_table_checks.h"
#include "device_checks/test_size.h"
#include "fake_device/fake_device.h"
#include "items/poison.h"

namespace isotherm::sharded_table_test {
namespace {

constexpr uint64_t memory = uint64_t{1} << 28;
const uint64_t scale = test_size(512, 2048);

// Fake devices of one host; `connected`: they reach each other's memory.
struct FakeGpus {
  FakeGpus(uint32_t count, uint64_t seed, bool connected = true) {
    for (uint32_t i = 0; i < count; ++i) {
      devices.push_back(i == 0 ? std::make_unique<FakeDevice>(seed, memory)
                               : std::make_unique<FakeDevice>(seed + i, memory, *devices[0]));
      pointers.push_back(devices[i].get());
      if (!connected) devices[i]->forbid_connections();
    }
  }
  void expect_clean() const {
    for (const auto& device : devices) {
      EXPECT_EQ(device->take_errors(), std::vector<std::string>{});
      EXPECT_EQ(device->allocated_bytes(), 0u);
    }
  }

  std::vector<std::unique_ptr<FakeDevice>> devices;
  std::vector<FakeDevice*> pointers;
};

using CheckOnDevices = std::tuple<ShardedTableCheck<FakeDevice>, uint32_t, bool>;

class ShardedDeviceTableChecks : public ::testing::TestWithParam<CheckOnDevices> {};

TEST_P(ShardedDeviceTableChecks, FindNoFault) {
  const auto& [check, count, connected] = GetParam();
  FakeGpus gpus(count, 1, connected);
  EXPECT_EQ(check.run(gpus.pointers, scale), 0u);
  gpus.expect_clean();
}

std::string test_name(const ::testing::TestParamInfo<CheckOnDevices>& test) {
  std::string name = std::string(std::get<0>(test.param).name) + " " +
                     std::to_string(std::get<1>(test.param)) +
                     (std::get<2>(test.param) ? " connected" : "");
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

constexpr size_t all = std::size(sharded_table_checks<FakeDevice>);

// The first `checks` of them.
auto on(uint32_t devices, bool connected, size_t checks = all) {
  const auto* first = std::begin(sharded_table_checks<FakeDevice>);
  return ::testing::Combine(::testing::ValuesIn(first, first + checks), ::testing::Values(devices),
                            ::testing::Values(connected));
}

INSTANTIATE_TEST_SUITE_P(One, ShardedDeviceTableChecks, on(1, true), test_name);
INSTANTIATE_TEST_SUITE_P(Two, ShardedDeviceTableChecks, on(2, true), test_name);
INSTANTIATE_TEST_SUITE_P(Apart, ShardedDeviceTableChecks, on(2, false), test_name);
// Sanitizers take ten times as long.
INSTANTIATE_TEST_SUITE_P(Three, ShardedDeviceTableChecks, on(3, true, poison::sanitized ? 1 : all),
                         test_name);

std::vector<DeviceBatch> some_puts(uint64_t count, uint32_t devices) {
  DeviceRequestSource source(1);
  std::vector<DeviceBatch> slices;
  for (uint32_t i = 0; i < devices; ++i) {
    slices.push_back(source.uniform_op(DeviceOp::put, source.keys(count)));
  }
  return slices;
}

ShardedOptions small() { return small_parts(1, 4, 512); }

TEST(ShardedFixedDeviceTable, IsLostWhenALaunchOfAnyDeviceFails) {
  for (uint32_t failing = 0; failing < 2; ++failing) {
    for (uint64_t launches = 0; launches < 12; launches += 3) {
      FakeGpus gpus(2, 1);
      ModelledShardedTable<FakeDevice> table(gpus.pointers, small());
      table.run_uniform(DeviceOp::put, some_puts(100, 2), true);
      gpus.devices[failing]->fail_launches_after(launches);
      EXPECT_THROW(table.run_uniform(DeviceOp::put, some_puts(100, 2), false), DeviceError);
      gpus.devices[failing]->fail_launches_after(FakeDevice::never);
      EXPECT_THROW(table.run_uniform(DeviceOp::get, some_puts(100, 2), true), DeviceError);
      EXPECT_THROW(table.run_host(some_puts(100, 1)[0]), DeviceError);
      EXPECT_THROW(table.table().stats(), DeviceError);
      for (const auto& device : gpus.devices) {
        EXPECT_EQ(device->take_errors(), std::vector<std::string>{});
      }
    }
  }
}

TEST(ShardedFixedDeviceTable, SaysWhenADeviceIsLost) {
  for (uint32_t failing = 0; failing < 2; ++failing) {
    for (const uint64_t operations : {0, 1, 5, 20, 100}) {
      FakeGpus gpus(2, 1);
      ModelledShardedTable<FakeDevice> table(gpus.pointers, small());
      gpus.devices[failing]->lose_after(operations);
      EXPECT_THROW(
          {
            for (int i = 0; i < 20; ++i) {
              table.run_uniform(DeviceOp::put, some_puts(100, 2), true);
              table.run_host(some_puts(200, 1)[0]);
            }
          },
          DeviceError);
      EXPECT_THROW(table.table().stats(), DeviceError);
      for (const auto& device : gpus.devices) {
        EXPECT_EQ(device->take_errors(), std::vector<std::string>{});
      }
    }
  }
}

TEST(ShardedFixedDeviceTable, ThrowsWithoutMemoryForTheEmptyTable) {
  for (uint32_t short_of = 0; short_of < 2; ++short_of) {
    for (const uint64_t allocations : {0, 4, 7, 10, 15}) {
      FakeGpus gpus(2, 1);
      gpus.devices[short_of]->fail_allocations_after(allocations);
      EXPECT_THROW(ShardedTable<FakeDevice>(gpus.pointers, small()), std::bad_alloc);
      gpus.expect_clean();
    }
  }
}

TEST(ShardedFixedDeviceTable, TakesSmallerPartsWhereMemoryIsCapped) {
  FakeGpus gpus(2, 1);
  ShardedOptions options = small_parts(1, 4, 1 << 18);
  {
    ShardedTable<FakeDevice> large(gpus.pointers, options);
    const DeviceTableStats stats = large.stats();
    EXPECT_GT(stats.workspace, uint64_t{24} << 20);
    EXPECT_EQ(stats.bytes + stats.workspace,
              gpus.devices[0]->allocated_bytes() + gpus.devices[1]->allocated_bytes());
  }
  options.table.gpu_memory = 24 << 20;
  ModelledShardedTable<FakeDevice> table(gpus.pointers, options);
  EXPECT_LE(table.table().stats().workspace, options.table.gpu_memory * 2 / 7);
  table.run_uniform(DeviceOp::put, some_puts(1000, 2), true);
  table.check_all();
  EXPECT_EQ(table.wrong() + table.refused(), 0u);
}

TEST(ShardedFixedDeviceTable, WrongCallsAreRefused) {
  FakeGpus gpus(2, 1);
  using Table = ShardedTable<FakeDevice>;
  EXPECT_THROW(Table({}, small()), std::invalid_argument);
  const std::vector<FakeDevice*> too_many(33, gpus.pointers[0]);
  EXPECT_THROW(Table(too_many, small()), std::invalid_argument);
  Table table(gpus.pointers, small());
  const std::vector<DeviceRequests> one(1), two(2);
  const std::vector<FakeDevice::Stream> streams(2);
  EXPECT_THROW(table.run(one, streams), std::invalid_argument);
  EXPECT_THROW(table.run(two, {streams.data(), 1}), std::invalid_argument);
  table.run(two, streams);
  std::vector<DeviceRequests> keyless(2);
  keyless[1].rows = 1;
  EXPECT_THROW(table.run(keyless, streams), std::invalid_argument);
  EXPECT_THROW(table.run_host(keyless[1]), std::invalid_argument);
  EXPECT_THROW(table.get_pinned(keyless[1]), std::invalid_argument);
  EXPECT_EQ(table.stats().entries, 0u);
}

// What a call reads is there when its streams have come to it, and its replies when they have come
// past it.
TEST(ShardedFixedDeviceTable, KeepsItsPlaceInTheCallersStreams) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    FakeGpus gpus(2, seed);
    ShardedTable<FakeDevice> table(gpus.pointers, small());
    constexpr uint64_t rows = 100;
    FakeDevice& device = *gpus.devices[1];
    ASSERT_TRUE(device.enter());
    DeviceMemory<FakeDevice> arrays(device, 0);
    DeviceArray<FakeDevice, uint64_t> keys(arrays, rows), values(arrays, rows);
    DeviceArray<FakeDevice, uint8_t> found(arrays, rows);
    const DeviceStream<FakeDevice> stream(device);
    std::vector<DeviceRequests> slices(2);
    slices[1] = {rows, nullptr, DeviceOp::put, keys.data(), keys.data(), nullptr, nullptr, nullptr};
    const std::vector<FakeDevice::Stream> streams = {nullptr, stream.get()};
    const auto one_by_one = [](uint64_t first) {
      std::vector<uint64_t> numbers(rows);
      for (uint64_t i = 0; i < rows; ++i) numbers[i] = first + i;
      return numbers;
    };
    const std::vector<uint64_t> wanted = one_by_one(1000), others = one_by_one(5000);
    std::vector<uint64_t> got(rows);
    ASSERT_TRUE(device.clear(stream.get(), keys.data(), keys.bytes()));
    ASSERT_TRUE(device.synchronize(stream.get()));
    ASSERT_TRUE(device.to_device(stream.get(), keys.data(), wanted.data(), keys.bytes()));
    table.run(slices, streams);
    // The keys are the caller's again as soon as the stream has come past.
    ASSERT_TRUE(device.to_device(stream.get(), keys.data(), others.data(), keys.bytes()));
    ASSERT_TRUE(device.to_device(stream.get(), keys.data(), wanted.data(), keys.bytes()));
    slices[1].op = DeviceOp::get;
    slices[1].values_out = values.data();
    slices[1].found = found.data();
    table.run(slices, streams);
    ASSERT_TRUE(device.to_host(stream.get(), got.data(), values.data(), values.bytes()));
    ASSERT_TRUE(device.synchronize(stream.get()));
    EXPECT_EQ(got, wanted);
    EXPECT_EQ(table.stats().entries, rows);
  }
}

}  // namespace
}  // namespace isotherm::sharded_table_test
