// Tables on the fake device: the checks that the GPU runs, and what happens when the device fails.
#include <gtest/gtest.h>

#include "device_checks/device_churn_checks.h"
#include "device_checks/device_put_checks.h"
#include "device_checks/device_row_checks.h"
#include "device_checks/device_table_checks.h"
#include "device_checks/test_size.h"
#include "fake_device/fake_device.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/table/table_scan.h"
#include "isotherm/gpu/common.h"

namespace isotherm::fixed_device_table_test {
namespace {

constexpr uint64_t memory = uint64_t{1} << 28;
const uint64_t scale = test_size(256, 2048);

class DeviceTableChecks : public ::testing::TestWithParam<DeviceTableCheck<FakeDevice>> {};

TEST_P(DeviceTableChecks, FindNoFault) {
  for (uint64_t seed = 1; seed <= test_size(1, 2); ++seed) {
    FakeDevice device(seed, memory);
    EXPECT_EQ(GetParam().run(device, scale), 0u) << "seed " << seed;
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
    EXPECT_EQ(device.allocated_bytes(), 0u);
  }
}

std::string test_name(const ::testing::TestParamInfo<DeviceTableCheck<FakeDevice>>& test) {
  std::string name = test.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Table, DeviceTableChecks,
                         ::testing::ValuesIn(device_table_checks<FakeDevice>), test_name);
INSTANTIATE_TEST_SUITE_P(Puts, DeviceTableChecks,
                         ::testing::ValuesIn(device_put_checks<FakeDevice>), test_name);
INSTANTIATE_TEST_SUITE_P(Churn, DeviceTableChecks,
                         ::testing::ValuesIn(device_churn_checks<FakeDevice>), test_name);
INSTANTIATE_TEST_SUITE_P(Rows, DeviceTableChecks,
                         ::testing::ValuesIn(device_row_checks<FakeDevice>), test_name);

DeviceBatch some_puts(uint64_t count) {
  DeviceRequestSource source(1);
  return source.uniform_op(TableOp::put, source.keys(count));
}

// How many entries a walk in steps of so many shows.
uint64_t walked(FakeDevice& device, FixedDeviceTable<FakeDevice>& table, uint64_t wanted) {
  const DeviceStream<FakeDevice> stream(device);
  TableScan<FakeDevice> scan(device);
  uint64_t entries = 0;
  uint64_t bound = 0;
  do {
    bound = scan.run(table, 1, bound, wanted, wanted, stream.get(),
                     [&](uint64_t, uint64_t) { ++entries; });
  } while (bound != 0);
  return entries;
}

TEST(FixedDeviceTable, IsLostWhenALaunchFails) {
  for (uint64_t launches = 0; launches < 8; ++launches) {
    FakeDevice device(1, memory);
    ModelledDeviceTable<FakeDevice> table(device, {0, 1, 4, 256});
    table.run_uniform(TableOp::put, some_puts(100), true);
    device.fail_launches_after(launches);
    EXPECT_THROW(table.run_uniform(TableOp::put, some_puts(100), false), DeviceError);
    device.fail_launches_after(FakeDevice::never);
    EXPECT_THROW(table.run_uniform(TableOp::get, some_puts(100), true), DeviceError);
    EXPECT_THROW(table.table().stats(), DeviceError);
    EXPECT_THROW(walked(device, table.table(), 10), DeviceError);
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
  }
}

// Which needs memory for no more entries than there are.
TEST(FixedDeviceTable, AWalkMayWantMoreEntriesThanThereCanBe) {
  FakeDevice device(1, memory);
  ModelledDeviceTable<FakeDevice> table(device, {0, 1, 4, 256});
  table.run_uniform(TableOp::put, some_puts(500), true);
  for (const int bits : {20, 34, 58, 60, 61, 63}) {
    EXPECT_EQ(walked(device, table.table(), uint64_t{1} << bits), 500u) << bits;
  }
  EXPECT_EQ(walked(device, table.table(), ~uint64_t{0}), 500u);
  EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
}

TEST(DeviceRowStore, IsLostWhenALaunchFails) {
  DeviceRequestSource source(1);
  const std::vector<uint64_t> keys = source.keys(200);
  for (uint64_t launches = 0; launches < 14; ++launches) {
    FakeDevice device(1, memory);
    ModelledRows<FakeDevice> table(device, {64, 64 * 64, {0, 3, 4, 256}});
    table.put({keys.begin(), keys.begin() + 100}, true);
    device.fail_launches_after(launches);
    EXPECT_THROW(table.put(keys, true), DeviceError) << launches;
    device.fail_launches_after(FakeDevice::never);
    EXPECT_THROW(table.get(keys), DeviceError) << launches;
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
  }
}

// The index has short parts, and refuses keys in one of them that it takes in the next, when erased
// ones have left lines: whoever puts a key behind a request that was stored is stored, too.
TEST(DeviceRowStore, WhereItsIndexRefusesKeysALaterPutOfAStoredOneIsStored) {
  DeviceRequestSource source(1);
  FakeDevice device(1, uint64_t{1} << 24);
  constexpr uint64_t part = 4096;
  ModelledRows<FakeDevice> table(device, {16, 1 << 20, {0, 3, 8, part}});
  {
    // No memory for what longer parts work in.
    DeviceMemory<FakeDevice> arrays(device, 0);
    const uint64_t rest = (uint64_t{1} << 24) - device.allocated_bytes();
    const DeviceArray<FakeDevice, char> taken(arrays, rest - (940 << 10));
    ASSERT_FALSE(taken.empty());
    table.put(source.keys(64), true);
  }
  std::vector<uint64_t> keys = source.keys(40000);
  table.put({keys.begin(), keys.begin() + 64}, true);
  const uint64_t refused = table.refused();
  for (int round = 0; round < 7; ++round) {
    device.fail_allocations_after(3);  // the columns of the call
    std::shuffle(keys.begin(), keys.end(), source.random());
    std::vector<uint64_t> some(keys.begin(), keys.begin() + part / 2);
    some.insert(some.end(), some.begin(), some.end());
    std::shuffle(some.begin(), some.end(), source.random());
    round % 4 != 3 ? table.put(some, true) : table.get_or_insert(some);
    device.fail_allocations_after(3);
    if (round > 3) table.erase({keys.begin() + 4000, keys.begin() + 8000});
  }
  device.fail_allocations_after(FakeDevice::never);
  table.check_all();
  EXPECT_GT(table.refused(), refused);
  EXPECT_EQ(table.wrong(), 0u);
  EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
}

TEST(FixedDeviceTable, SaysWhenTheDeviceIsLost) {
  for (const uint64_t operations : {0, 1, 5, 20, 100}) {
    FakeDevice device(1, memory);
    ModelledDeviceTable<FakeDevice> table(device, {0, 1, 4, 256});
    device.lose_after(operations);
    EXPECT_THROW(
        {
          for (int i = 0; i < 20; ++i) table.run_uniform(TableOp::put, some_puts(100), true);
        },
        DeviceError);
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
  }
}

// Which gives no memory then, either.
TEST(FixedDeviceTable, SaysThatTheDeviceIsLostWhereItNeedsMemory) {
  FakeDevice device(1, memory);
  const DeviceStream<FakeDevice> stream(device);
  DeviceMemory<FakeDevice> arrays(device, 0);
  FixedDeviceTable<FakeDevice> table(device, {0, 1, 4, 256});
  device.lose();
  EXPECT_THROW((DeviceArray<FakeDevice, char>(arrays, 1)), DeviceError);
  EXPECT_EQ(arrays.used(), 0u);
  EXPECT_THROW(PinnedBlock(device, 1), DeviceError);
  EXPECT_THROW(table.reserve(100'000), DeviceError);
  EXPECT_THROW(table.stats(), DeviceError);
}

// Nothing is queued, so the table is as it was.
TEST(FixedDeviceTable, RefusesAStreamThatIsBeingCaptured) {
  FakeDevice device(1, memory);
  const DeviceStream<FakeDevice> stream(device);
  FixedDeviceTable<FakeDevice> table(device, {0, 1, 4, 256});
  DeviceMemory<FakeDevice> arrays(device, 0);
  const DeviceArray<FakeDevice, uint64_t> keys(arrays, 1);
  ASSERT_TRUE(device.clear(stream.get(), keys.data(), keys.bytes()));
  TableRequests call;
  call.rows = 1;
  call.op = TableOp::put;
  call.keys = keys.data();
  device.capture(stream.get());
  EXPECT_THROW(table.run(call, stream.get()), std::invalid_argument);
  device.capture({});
  EXPECT_EQ(table.stats().entries, 0u);
  table.run(call, stream.get());
  EXPECT_EQ(table.stats().entries, 1u);
}

TEST(FixedDeviceTable, ThrowsWithoutMemoryForTheEmptyTable) {
  for (uint64_t allocations = 0; allocations < 5; ++allocations) {
    FakeDevice device(1, memory);
    device.fail_allocations_after(allocations);
    using Table = FixedDeviceTable<FakeDevice>;
    EXPECT_THROW(Table(device, {0, 1, 4, 256}), std::bad_alloc);
    EXPECT_EQ(device.allocated_bytes(), 0u);
  }
}

TEST(FixedDeviceTable, WorksOffLargeCallsInSmallPartsWhereMemoryIsShort) {
  FakeDevice device(1, memory);
  constexpr uint64_t cap = 4 << 20;  // the work space of 2^16 rows alone takes more
  ModelledDeviceTable<FakeDevice> table(device, {cap, 1, 4, 1 << 16});
  DeviceRequestSource source(1);
  const std::vector<uint64_t> keys = source.keys(1500);
  for (int i = 0; i < 2; ++i) table.run(source.mixed(keys, 5000, 0.5));
  table.check_all();
  EXPECT_EQ(table.wrong() + table.refused(), 0u);
  const gpu::TableStats stats = table.table().stats();
  EXPECT_LE(stats.bytes + stats.workspace, cap);
  EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
}

// Puts of `keys` in one call; the table's statistics afterwards.
gpu::TableStats stats_after(const std::vector<uint64_t>& keys, uint64_t cap, bool promise) {
  FakeDevice device(1, memory);
  FixedDeviceTable<FakeDevice> table(device, {cap, 1, 4, 1 << 11});
  DeviceMemory<FakeDevice> arrays(device, 0);
  DeviceArray<FakeDevice, uint64_t> column(arrays, keys.size());
  const DeviceStream<FakeDevice> stream(device);
  require_device(device.to_device(stream.get(), column.data(), keys.data(), column.bytes()) &&
                     device.synchronize(stream.get()),
                 "copy keys");
  TableRequests call;
  call.rows = keys.size();
  call.op = TableOp::put;
  call.keys = column.data();
  call.distinct_keys = promise;
  table.run(call, stream.get());
  return table.stats();
}

// What is longer or larger for new keys must not take the room that they need.
TEST(FixedDeviceTable, APromiseStoresNoFewerKeysUnderACap) {
  const std::vector<uint64_t> keys = DeviceRequestSource(5).keys(6'000);
  const gpu::TableStats all = stats_after(keys, 0, true);
  ASSERT_EQ(all.entries, keys.size());
  for (const uint64_t percent : {85, 100, 130}) {
    const uint64_t cap = all.workspace + all.bytes * percent / 100;
    const uint64_t plain = stats_after(keys, cap, false).entries;
    const uint64_t promised = stats_after(keys, cap, true).entries;
    EXPECT_GE(promised, plain - plain / 50) << "at " << percent << "%";
  }
}

TEST(FixedDeviceTable, HasRoomForNothingWhereAllHashesWereLeftOut) {
  FakeDevice device(1, memory);
  FixedDeviceTable<FakeDevice> table(device, {0, 1, 4, 256});
  EXPECT_TRUE(table.has_room(100));
  table.drop({0, 0});
  EXPECT_TRUE(table.has_room(0));
  EXPECT_FALSE(table.has_room(1));
  EXPECT_TRUE(table.restore({0, 0}));
  EXPECT_TRUE(table.has_room(100));
}

TEST(FixedDeviceTable, MissingColumnsAreRefused) {
  FakeDevice device(1, memory);
  FixedDeviceTable<FakeDevice> table(device, {0, 1, 4, 256});
  DeviceMemory<FakeDevice> arrays(device, 0);
  DeviceArray<FakeDevice, uint64_t> keys(arrays, 1), seen(arrays, 1);
  DeviceArray<FakeDevice, uint8_t> found(arrays, 1);
  const DeviceStream<FakeDevice> stream(device);
  ASSERT_TRUE(device.clear(stream.get(), keys.data(), keys.bytes()));
  TableRequests call;
  call.rows = 1;
  EXPECT_THROW(table.run(call, stream.get()), std::invalid_argument);
  call.keys = keys.data();
  EXPECT_THROW(table.run(call, stream.get()), std::invalid_argument);
  call.found = found.data();
  EXPECT_THROW(table.run(call, stream.get()), std::invalid_argument);
  call.values_out = seen.data();
  call.keys = reinterpret_cast<const uint64_t*>(reinterpret_cast<const char*>(keys.data()) + 4);
  EXPECT_THROW(table.run(call, stream.get()), std::invalid_argument);
  call.keys = keys.data();
  for (const TableOp op : {TableOp::put, TableOp::compare_and_swap, TableOp::get}) {
    call.op = op;
    table.run(call, stream.get());
  }
  // Without a column of values the put stored 0.
  uint64_t value = 1;
  uint8_t present = 0;
  ASSERT_TRUE(device.to_host(stream.get(), &value, seen.data(), sizeof value));
  ASSERT_TRUE(device.to_host(stream.get(), &present, found.data(), sizeof present));
  ASSERT_TRUE(device.synchronize(stream.get()));
  EXPECT_EQ(value, 0u);
  EXPECT_EQ(present, 1u);
}

TEST(FixedDeviceTable, CallsTakeEffectInTheirOrderOnAnyStream) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    FakeDevice device(seed, memory);
    FixedDeviceTable<FakeDevice> table(device, {0, 1, 4, 256});
    constexpr uint64_t calls = 12;
    DeviceMemory<FakeDevice> arrays(device, 0);
    DeviceArray<FakeDevice, uint64_t> keys(arrays, 1), seen(arrays, calls);
    DeviceArray<FakeDevice, uint8_t> found(arrays, calls);
    FakeDevice::Stream streams[] = {device.create_stream(), device.create_stream(),
                                    device.create_stream()};
    const uint64_t key = 7;
    ASSERT_TRUE(device.to_device(streams[0], keys.data(), &key, sizeof key));
    ASSERT_TRUE(device.clear(streams[0], seen.data(), seen.bytes()));
    ASSERT_TRUE(device.synchronize(streams[0]));
    for (uint64_t i = 0; i < calls; ++i) {
      // Every third call only reads; the others put the key's own number and show the one before.
      TableRequests call;
      call.rows = 1;
      call.op = i % 3 == 2 ? TableOp::get : TableOp::add;
      call.keys = keys.data();
      call.values = keys.data();
      call.values_out = seen.data() + i;
      call.found = found.data() + i;
      table.run(call, streams[(i * 5 + seed) % 3]);
    }
    EXPECT_EQ(table.stats().entries, 1u);
    std::vector<uint64_t> values(calls);
    ASSERT_TRUE(device.to_host(streams[0], values.data(), seen.data(), seen.bytes()));
    ASSERT_TRUE(device.synchronize(streams[0]));
    uint64_t sum = 0;
    for (uint64_t i = 0; i < calls; ++i) {
      EXPECT_EQ(values[i], sum) << "call " << i;
      if (i % 3 != 2) sum += key;
    }
    for (const auto stream : streams) device.destroy_stream(stream);
  }
}

}  // namespace
}  // namespace isotherm::fixed_device_table_test
