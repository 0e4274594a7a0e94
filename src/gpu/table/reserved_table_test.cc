// Tables that have grown ahead of their entries.
#include <gtest/gtest.h>

#include "device_checks/device_table_checks.h"
#include "fake_device/fake_device.h"
#include "isotherm/gpu/common.h"

namespace isotherm::reserved_table_test {
namespace {

constexpr uint64_t memory = uint64_t{1} << 26;
constexpr uint32_t part_rows = 256;
constexpr uint64_t entries = 20'000;
constexpr FixedDeviceOptions options{0, 1, 6, part_rows};

void put(ModelledDeviceTable<FakeDevice>& table, DeviceRequestSource& source, uint64_t rows,
         bool distinct) {
  table.run_uniform(TableOp::put, source.uniform_op(TableOp::put, source.keys(rows)), false,
                    distinct);
}

TEST(ReservedTable, TakesNoMemoryWhileItFills) {
  for (const bool distinct : {false, true}) {
    FakeDevice device(1, memory);
    ModelledDeviceTable<FakeDevice> table(device, options);
    table.table().reserve(entries);
    const gpu::TableStats before = table.table().stats();
    DeviceRequestSource source(2);
    for (uint64_t put_rows = 0; put_rows < entries; put_rows += 1000) {
      put(table, source, 1000, distinct);
    }
    const gpu::TableStats after = table.table().stats();
    EXPECT_EQ(after.entries, entries);
    EXPECT_EQ(after.bytes, before.bytes);
    if (distinct) {
      EXPECT_EQ(after.workspace, before.workspace);
    }
    table.check_all();
    EXPECT_EQ(table.wrong() + table.refused(), 0u);
  }
}

// Two kernels and the totals, whatever number of parts it would be otherwise.
TEST(ReservedTable, ACallWithoutAKeyTwiceIsOnePartWhereThereIsRoom) {
  FakeDevice device(1, memory);
  ModelledDeviceTable<FakeDevice> table(device, options);
  table.table().reserve(entries);
  DeviceRequestSource source(3);
  device.fail_launches_after(3);
  put(table, source, part_rows * 10, true);
  device.fail_launches_after(FakeDevice::never);
  table.check_all();
  EXPECT_EQ(table.wrong() + table.refused(), 0u);
}

// Where memory ends the table holds about what one that grows by itself would; overflow lines come
// 1,024 at a time, so at this scale one of them may have a fifth more.
TEST(ReservedTable, StoresNoFewerKeysUnderACap) {
  for (const uint64_t cap : {2'200'000, 2'300'000}) {
    uint64_t stored[2];
    for (const bool reserved : {false, true}) {
      FakeDevice device(1, memory);
      FixedDeviceOptions capped = options;
      capped.gpu_memory = cap;
      ModelledDeviceTable<FakeDevice> table(device, capped);
      if (reserved) table.table().reserve(entries);
      DeviceRequestSource source(4);
      for (int i = 0; i < 10; ++i) put(table, source, 2000, false);
      const gpu::TableStats stats = table.table().stats();
      EXPECT_LE(stats.bytes + stats.workspace, cap);
      stored[reserved ? 1 : 0] = stats.entries;
    }
    EXPECT_GE(stored[1], stored[0] - stored[0] / 5) << cap;
  }
}

TEST(ReservedTable, MayBeReservedAgainWhenThereAreEntries) {
  FakeDevice device(1, memory);
  ModelledDeviceTable<FakeDevice> table(device, options);
  DeviceRequestSource source(5);
  for (const uint64_t wanted : {100, 5'000, 10, 20'000}) {
    put(table, source, 1000, false);
    table.table().reserve(wanted);
  }
  const gpu::TableStats before = table.table().stats();
  for (int i = 0; i < 16; ++i) put(table, source, 1000, false);
  EXPECT_EQ(table.table().stats().bytes, before.bytes);
  table.check_all();
  EXPECT_EQ(table.wrong() + table.refused(), 0u);
}

}  // namespace
}  // namespace isotherm::reserved_table_test
