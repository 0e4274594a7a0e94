#include "gpu/transfer/awaited_gets.h"

#include <gtest/gtest.h>

#include "device_checks/device_table_checks.h"
#include "fake_device/fake_device.h"

namespace isotherm::awaited_gets_test {
namespace {

constexpr uint64_t memory = uint64_t{1} << 26;
constexpr uint64_t rows = 300;
constexpr uint64_t part_rows = 64;

class AwaitedGetsTest : public ::testing::Test {
 protected:
  AwaitedGetsTest() {
    table_.run_uniform(TableOp::put, source_.uniform_op(TableOp::put, keys_), true);
  }
  DeviceBatch gets() { return source_.uniform_op(TableOp::get, keys_); }

  DeviceRequestSource source_{3};
  const std::vector<uint64_t> keys_ = source_.keys(rows);
  FakeDevice device_{1, memory};
  ModelledDeviceTable<FakeDevice> table_{device_, {0, 5, 4, 256}};
};

// Whatever is under way when a launch fails ends before the caller learns of it, since its memory
// may go then.
TEST_F(AwaitedGetsTest, NothingIsUnderWayAfterAFailure) {
  for (uint64_t launches = 0; launches < 8; ++launches) {
    FakeDevice device(launches, memory);
    ModelledDeviceTable<FakeDevice> table(device, {0, 5, 4, 256});
    table.run_uniform(TableOp::put, source_.uniform_op(TableOp::put, keys_), true);
    AwaitedGets<FakeDevice> gets(device, table.table(), part_rows);
    {
      const PinnedRequests<FakeDevice> pinned(device, this->gets());
      device.fail_launches_after(launches);
      EXPECT_THROW(gets.run(pinned.call()), DeviceError) << launches;
    }
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
  }
}

TEST_F(AwaitedGetsTest, ALostDeviceIsTold) {
  AwaitedGets<FakeDevice> lookups(device_, table_.table(), part_rows);
  table_.get_awaited(lookups, gets());
  const PinnedRequests<FakeDevice> pinned(device_, gets());
  device_.lose();
  EXPECT_THROW(lookups.run(pinned.call()), DeviceError);
}

TEST_F(AwaitedGetsTest, WithoutMemoryForItsPartsThereAreNone) {
  for (const uint64_t allocations : {0, 1, 5, 11}) {
    device_.fail_allocations_after(allocations);
    using Gets = AwaitedGets<FakeDevice>;
    EXPECT_THROW(Gets(device_, table_.table(), part_rows), std::bad_alloc) << allocations;
    device_.fail_allocations_after(FakeDevice::never);
  }
  AwaitedGets<FakeDevice> lookups(device_, table_.table(), part_rows);
  table_.get_awaited(lookups, gets());
  EXPECT_EQ(table_.wrong(), 0u);
}

}  // namespace
}  // namespace isotherm::awaited_gets_test
