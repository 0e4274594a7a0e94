// Tables that a fake device and the host share: the checks that the GPU runs, and what happens when
// the device fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "device_checks/host_memory_checks.h"
#include "device_checks/test_size.h"
#include "fake_device/fake_device.h"
#include "gpu/split/split_walk.h"
#include "isotherm/gpu/common.h"

namespace isotherm::split_table_host_test {
namespace {

constexpr uint64_t memory = uint64_t{1} << 28;
constexpr uint64_t usual = 512;
constexpr uint64_t full = 2048;
const uint64_t scale = test_size(usual, full);

class HostMemoryChecks : public ::testing::TestWithParam<DeviceTableCheck<FakeDevice>> {};

TEST_P(HostMemoryChecks, FindNoFault) {
  FakeDevice device(1, memory);
  EXPECT_EQ(GetParam().run(device, test_size(usual / 2, full)), 0u);
  EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
  EXPECT_EQ(device.allocated_bytes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Shared, HostMemoryChecks,
                         ::testing::ValuesIn(host_memory_checks<FakeDevice>), [](const auto& test) {
                           std::string name = test.param.name;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

SplitOptions small_options(FakeDevice& device) {
  return host_memory_options(device, 1, scale, scale * 2);
}

DeviceBatch some_puts(uint64_t count, uint64_t seed = 1) {
  DeviceRequestSource source(seed);
  return source.uniform_op(TableOp::put, source.keys(count));
}

TEST(SplitTableWithHost, IsLostWithItsDevice) {
  const std::vector<uint64_t> after = {0, 1, 3, 10, 30, 100, 300};
  for (const uint64_t operations : after) {
    FakeDevice device(1, memory);
    ModelledHostTable<FakeDevice> table(device, small_options(device));
    table.run_uniform(TableOp::put, some_puts(scale * 4), true);
    ASSERT_TRUE(on_both_sides(table.table().stats()));
    device.lose_after(operations);
    EXPECT_THROW(
        {
          for (uint64_t i = 2; i < 30; ++i) {
            table.run_uniform(TableOp::put, some_puts(scale, i), true);
          }
        },
        DeviceError);
    EXPECT_THROW(table.run_uniform(TableOp::get, some_puts(10), true), DeviceError);
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
  }
}

TEST(SplitTableWithHost, IsLostWhenALaunchFails) {
  for (const uint64_t launches : {0, 1, 2, 3, 5, 8, 13, 21}) {
    FakeDevice device(1, memory);
    ModelledHostTable<FakeDevice> table(device, small_options(device));
    table.run_uniform(TableOp::put, some_puts(scale * 4), true);
    device.fail_launches_after(launches);
    EXPECT_THROW(
        {
          for (uint64_t i = 2; i < 6; ++i) table.run_uniform(TableOp::get, some_puts(scale), true);
        },
        DeviceError);
    device.fail_launches_after(FakeDevice::never);
    EXPECT_THROW(table.run_uniform(TableOp::get, some_puts(10), true), DeviceError);
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
  }
}

// Bins move between the steps, as calls let them.
TEST(SplitTableWithHost, IsWalkedWhole) {
  FakeDevice device(1, memory);
  {
    ModelledHostTable<FakeDevice> table(device, small_options(device));
    const auto puts = some_puts(scale * 4);
    const auto op = puts.front().op;
    table.run_uniform(op, puts, true);
    ASSERT_TRUE(on_both_sides(table.table().stats()));
    std::map<uint64_t, uint64_t> seen;
    const auto show = [&](uint64_t key, uint64_t word) { seen[key] = word; };
    uint64_t cursor = 0;
    do {
      cursor = SplitWalk<FakeDevice>(table.table()).step(cursor, scale / 4, show);
      table.run_uniform(op, {puts.begin(), puts.begin() + static_cast<int64_t>(scale / 2)}, true);
    } while (cursor != 0);
    EXPECT_EQ(seen.size(), puts.size());
    for (const auto& put : puts) EXPECT_EQ(seen[put.key], put.value);
  }
  EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
}

TEST(SplitTableWithHost, ThrowsWithoutMemoryForTheEmptyTable) {
  FakeDevice device(1, memory);
  const SplitOptions options = small_options(device);
  uint64_t allocations = 0;
  for (bool thrown = true; thrown; ++allocations) {
    thrown = false;
    device.fail_allocations_after(allocations);
    try {
      const SplitTable<FakeDevice> table(device, options);
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    EXPECT_EQ(device.allocated_bytes(), 0u);
  }
  EXPECT_GT(allocations, 4u);
  EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
}

// Memory for bins that move cannot be had: calls go on without, and no entry is lost.
TEST(SplitTableWithHost, NothingIsLostWhereTheDeviceGivesNoMoreMemory) {
  for (const uint64_t allocations : {0, 1, 2, 3, 5, 9}) {
    FakeDevice device(1, memory);
    ModelledHostTable<FakeDevice> table(device, small_options(device));
    table.run_uniform(TableOp::put, some_puts(scale), true);
    DeviceMemory<FakeDevice> arrays(device, 0);
    const DeviceStream<FakeDevice> stream(device);
    const DeviceBatch others = some_puts(scale * 4, 2);
    UploadedRequests<FakeDevice> columns(arrays, stream.get(), others.size());
    columns.upload(others);
    device.fail_allocations_after(allocations);
    table.table().run(columns.call(), stream.get());
    device.fail_allocations_after(FakeDevice::never);
    table.run_uniform(TableOp::get, some_puts(scale), true);
    DeviceBatch erases = others;
    for (DeviceRequest& request : erases) request.op = TableOp::erase;
    columns.upload(erases);
    table.table().run(columns.call(), stream.get());
    columns.download();
    table.check_all();
    EXPECT_EQ(table.wrong() + table.refused(), 0u);
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
  }
}

TEST(SplitTableWithHost, ALostTableTakesNoMail) {
  FakeDevice device(1, memory);
  ModelledHostTable<FakeDevice> table(device, small_options(device));
  table.run_uniform(TableOp::put, some_puts(scale * 4), true);
  device.fail_launches_after(0);
  EXPECT_THROW(table.run_uniform(TableOp::get, some_puts(scale), true), DeviceError);
  device.fail_launches_after(FakeDevice::never);
  EXPECT_THROW(table.run_express(some_puts(1)), DeviceError);
  EXPECT_THROW(table.table().stats(), DeviceError);
}

TEST(SplitTableWithHost, StatisticsWaitForReplies) {
  FakeDevice device(1, memory);
  ModelledHostTable<FakeDevice> table(device, small_options(device));
  const DeviceBatch puts = some_puts(scale * 4);
  table.run_uniform(TableOp::put, puts, true);
  const DeviceStream<FakeDevice> stream(device);
  const PinnedRequests<FakeDevice> pinned(device, puts);
  table.table().run(pinned.call(), stream.get());
  const gpu::TableStats stats = table.table().stats();
  EXPECT_EQ(stats.entries, table.model().size());
  const std::vector<uint8_t> found = pinned.found();
  EXPECT_EQ(std::count(found.begin(), found.end(), 1), static_cast<int64_t>(puts.size()));
}

// Buffers and work space leave so much to the index that a device without host memory would do.
TEST(SplitTableWithHost, AnyCapThatHoldsATableHoldsASharedOne) {
  FakeDevice device(1, memory);
  SplitOptions options = small_options(device);
  options.most_bin_bits = 14;
  options.host_threads = 16;
  const uint64_t host_memory = options.host_memory;
  for (uint64_t cap = 200 << 10; cap < 16 << 20; cap += cap / 8) {
    options.table.gpu_memory = cap;
    options.host_memory = 0;
    try {
      const SplitTable<FakeDevice> table(device, options);
    } catch (const std::bad_alloc&) {
      continue;
    }
    options.host_memory = host_memory;
    ModelledHostTable<FakeDevice> table(device, options);
    table.run_uniform(TableOp::get, some_puts(10), true);
    const gpu::TableStats stats = table.table().stats();
    EXPECT_LE(stats.bytes + stats.workspace, cap);
  }
}

TEST(SplitTableWithHost, MoreExpectedEntriesThanTheDeviceHoldsFillIt) {
  FakeDevice device(1, memory);
  const SplitOptions options = small_options(device);
  SplitTable<FakeDevice> table(device, options);
  table.reserve(uint64_t{1} << 30);
  const gpu::TableStats stats = table.stats();
  EXPECT_GT(stats.segments, 8u);
  EXPECT_LE(stats.bytes + stats.workspace, options.table.gpu_memory);
}

TEST(SplitTableWithHost, ADeviceTooSmallToShareRefusesWhatHasNoRoom) {
  FakeDevice device(1, memory);
  SplitOptions options = small_options(device);
  options.table.line_bits = 12;  // so that it has a few segments at most
  options.table.gpu_memory += 1 << 20;
  ModelledHostTable<FakeDevice> table(device, options);
  for (uint64_t i = 1; i < 100 && table.refused() == 0; ++i) {
    table.run_uniform(TableOp::put, some_puts(scale, i), true);
  }
  EXPECT_GT(table.refused(), 0u);
  table.check_all();
  EXPECT_EQ(table.wrong(), 0u);
  EXPECT_EQ(table.table().stats().host_entries, 0u);
}

TEST(SplitTableWithHost, WithoutHostMemoryItIsTheDevicesTable) {
  FakeDevice device(1, memory);
  SplitOptions options = small_options(device);
  options.host_memory = 0;
  ModelledHostTable<FakeDevice> table(device, options);
  for (uint64_t i = 1; i < 100 && table.refused() == 0; ++i) {
    table.run_uniform(TableOp::put, some_puts(scale, i), true);
  }
  EXPECT_GT(table.refused(), 0u);
  table.check_all();
  EXPECT_EQ(table.wrong(), 0u);
  const gpu::TableStats stats = table.table().stats();
  EXPECT_EQ(stats.host_entries + stats.host_bytes, 0u);
}

}  // namespace
}  // namespace isotherm::split_table_host_test
