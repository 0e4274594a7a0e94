// The two ways in which rows of keys with several writers come into their order, on the fake
// device: few are ranked, more are sorted.
#include "gpu/batch/rank_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "device_checks/device_put_checks.h"
#include "fake_device/fake_device.h"

namespace isotherm::rank_kernel_test {
namespace {

using Table = ModelledDeviceTable<FakeDevice>;

constexpr uint32_t rows = 256;

TEST(RankKernel, FewRowsAreWorthIt) {
  EXPECT_EQ(RankKernel::most_listed(1), 1u);
  EXPECT_EQ(RankKernel::most_listed(rows), 128u);
  EXPECT_EQ(RankKernel::most_listed(1 << 16), 2048u);
}

// A batch of `operations` whose first rows have `grouped` rows of keys that come several times,
// those of a key apart from each other; keys of the rest come once.
std::vector<DeviceRequest> batch_with(DevicePutSource& source, uint32_t grouped,
                                      const std::vector<TableOp>& operations) {
  const std::vector<uint64_t> keys = source.keys(rows);
  constexpr uint32_t each = 7;
  std::vector<DeviceRequest> batch;
  for (uint32_t i = 0; i < rows; ++i) {
    const uint64_t key = i < grouped ? keys[i % std::max(1u, grouped / each)] : keys[i];
    const TableOp op = operations[source.random()() % operations.size()];
    batch.push_back({op, key, source.random()() % 8, source.random()() % 8});
  }
  return batch;
}

// Batches whose listed rows are none, few, as many as the list takes, and more.
void expect_right(const std::vector<TableOp>& operations) {
  FakeDevice device(1, uint64_t{1} << 26);
  DevicePutSource source(1);
  {
    Table table(device, put_options(TryPuts::never, 3, 6, rows));
    const uint32_t most = RankKernel::most_listed(rows);
    for (const uint32_t grouped : {0u, 8u, most - 4, most, most + 4, rows}) {
      table.run(batch_with(source, grouped, operations));
      table.run_uniform(TableOp::put, batch_with(source, grouped, {TableOp::put}), true);
      table.check_all();
    }
    EXPECT_EQ(table.wrong() + table.refused(), 0u);
  }
  EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
}

TEST(RankKernel, WritersThatDependOnNothingAreInOrder) {
  expect_right({TableOp::put});
  expect_right({TableOp::put, TableOp::erase});
  expect_right({TableOp::put, TableOp::erase, TableOp::get});
}

TEST(RankKernel, WritersThatDependOnOthersAreInOrder) {
  expect_right({TableOp::add, TableOp::put, TableOp::get});
  expect_right({TableOp::put_if_absent, TableOp::compare_and_swap, TableOp::erase, TableOp::get});
}

}  // namespace
}  // namespace isotherm::rank_kernel_test
