// Which parts of a batch begin with the try kernels, on the fake device. What they answer is
// checked by tests/device_checks/device_put_checks.h.
#include "gpu/batch/try_kernels.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "device_checks/device_put_checks.h"
#include "fake_device/fake_device.h"

namespace isotherm::try_kernels_test {
namespace {

// Counts parts that try, and those that enter every writer.
class WatchedDevice : public FakeDevice {
 public:
  using FakeDevice::FakeDevice;

  template <class Kernel>
  bool launch(Stream stream, uint32_t blocks, uint32_t threads, const Kernel& kernel) {
    if (std::is_same_v<Kernel, TryKernel<LineKind>>) ++tries;
    if (std::is_same_v<Kernel, MarkKernel<LineKind>>) ++marks;
    return FakeDevice::launch(stream, blocks, threads, kernel);
  }

  uint64_t tries = 0;
  uint64_t marks = 0;
};

class TryKernelsTest : public ::testing::Test {
 protected:
  using Table = ModelledDeviceTable<WatchedDevice>;
  static constexpr uint32_t part_rows = 100;

  static FixedDeviceOptions options(TryPuts when, uint32_t least_rows) {
    FixedDeviceOptions all = put_options(when, 3, 6, part_rows);
    all.tries.least_rows = least_rows;
    return all;
  }
  void put(Table& table, const std::vector<uint64_t>& keys) {
    table.run_uniform(TableOp::put, source_.puts(keys), true);
  }
  // The calls since had so many parts, which all try or none.
  void expect_tries(bool tries, uint64_t parts) {
    EXPECT_EQ(device_.tries, tries ? parts : 0);
    EXPECT_EQ(device_.marks, tries ? 0 : parts);
    device_.tries = device_.marks = 0;
  }
  void expect_right(const Table& table) {
    EXPECT_EQ(table.wrong() + table.refused(), 0u);
    EXPECT_EQ(device_.take_errors(), std::vector<std::string>{});
  }

  WatchedDevice device_{1, uint64_t{1} << 26};
  DevicePutSource source_{1};
};

TEST_F(TryKernelsTest, PutsTryWhereTheirKeysAreExpectedToBeNew) {
  Table table(device_, options(TryPuts::where_new, 1));
  const std::vector<uint64_t> keys = source_.keys(part_rows);
  put(table, keys);
  expect_tries(true, 1);
  put(table, keys);  // the guess is wrong
  expect_tries(true, 1);
  put(table, keys);
  expect_tries(false, 1);
  put(table, source_.keys(part_rows));
  expect_tries(false, 1);
  put(table, source_.keys(part_rows * 3));
  expect_tries(true, 3);
  expect_right(table);
}

TEST_F(TryKernelsTest, PartsWithFewRowsDoNotTry) {
  Table table(device_, options(TryPuts::where_new, part_rows));
  put(table, source_.keys(part_rows - 1));
  expect_tries(false, 1);
  put(table, source_.keys(part_rows));
  expect_tries(true, 1);
  put(table, source_.keys(2 * part_rows + 1));  // the last part is one row
  EXPECT_GE(device_.tries, 1u);
  EXPECT_EQ(device_.marks, 1u);
  expect_right(table);
}

TEST_F(TryKernelsTest, PartsAreTwiceAsLongWhereTheIndexHasRoom) {
  Table table(device_, options(TryPuts::where_new, 1));
  table.table().reserve(part_rows * 20);
  put(table, source_.keys(part_rows * 4));
  expect_tries(true, 2);
  put(table, source_.keys(part_rows * 3));
  expect_tries(true, 2);
  expect_right(table);
}

TEST_F(TryKernelsTest, PartsStayAsTheyAreWhereThereIsNoMemoryForLongerOnes) {
  Table table(device_, options(TryPuts::where_new, 1));
  table.table().reserve(part_rows * 20);
  put(table, source_.keys(part_rows));
  expect_tries(true, 1);
  device_.fail_allocations_after(6);  // the call's columns
  put(table, source_.keys(part_rows * 4));
  device_.fail_allocations_after(FakeDevice::never);
  expect_tries(true, 4);
  expect_right(table);
}

TEST_F(TryKernelsTest, OnlyPutsTry) {
  Table table(device_, options(TryPuts::always, 1));
  for (const TableOp op : {TableOp::put_if_absent, TableOp::add, TableOp::erase}) {
    table.run_uniform(op, source_.uniform_op(op, source_.keys(part_rows)), true);
    expect_tries(false, 1);
  }
  table.run(source_.puts(source_.keys(part_rows)));  // with a column of operations
  expect_tries(false, 1);
  put(table, source_.keys(part_rows));
  expect_tries(true, 1);
  expect_right(table);
}

TEST_F(TryKernelsTest, OptionsOverruleTheGuess) {
  const std::vector<uint64_t> keys = source_.keys(part_rows);
  for (const TryPuts when : {TryPuts::always, TryPuts::never}) {
    Table table(device_, options(when, part_rows * 2));
    for (int i = 0; i < 3; ++i) {
      put(table, keys);
      expect_tries(when == TryPuts::always, 1);
    }
    expect_right(table);
  }
}

}  // namespace
}  // namespace isotherm::try_kernels_test
