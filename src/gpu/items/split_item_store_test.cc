// Tables of byte strings over some fake devices: the checks that GPUs run, and what happens when
// one fails.
#include "gpu/items/split_item_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "device_checks/device_table_checks.h"
#include "device_checks/split_item_checks.h"
#include "device_checks/test_size.h"
#include "fake_device/fake_gpus.h"
#include "items/poison.h"

namespace isotherm::split_item_store_test {
namespace {

const uint64_t scale = test_size(32, 1024);

class SplitItemChecks : public ::testing::TestWithParam<SplitItemCheck<FakeDevice>> {};

TEST_P(SplitItemChecks, FindNoFault) {
  FakeGpus gpus(3, 1);
  EXPECT_EQ(GetParam().run(gpus.pointers, scale), 0u);
  gpus.expect_clean();
}

std::string name_of(const ::testing::TestParamInfo<SplitItemCheck<FakeDevice>>& test) {
  std::string name = test.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, SplitItemChecks, ::testing::ValuesIn(split_item_checks<FakeDevice>),
                         name_of);

TEST(SplitItemStore, IsLostWhenALaunchOfAnyDeviceFails) {
  ItemSource source(1, 40, 100);
  const ItemBatch puts = source.uniform_op(TableOp::put, source.keys(50));
  for (uint32_t failing = 0; failing < 2; ++failing) {
    FakeGpus gpus(2, 1);
    SplitModelledItems<FakeDevice> table(*gpus.pointers[0], gpus.pointers, small_items(1, 64));
    gpus.devices[failing]->fail_launches_after(5);
    EXPECT_THROW(table.run_host(puts), DeviceError);
    gpus.devices[failing]->fail_launches_after(FakeDevice::never);
    EXPECT_THROW(table.run(puts), DeviceError);
    EXPECT_THROW(table.stats(), DeviceError);
    std::vector<WalkedItem> items;
    EXPECT_THROW(table.store().walk(0, 1, items), DeviceError);
    for (const auto& device : gpus.devices) {
      EXPECT_EQ(device->take_errors(), std::vector<std::string>{});
    }
  }
}

// Arrays on a GPU are copied to the host before anything is done.
TEST(SplitItemStore, IsNotLostWhereTheHostHasNoRoomForACall) {
  if (poison::sanitized) GTEST_SKIP() << "sanitizers end a program that asks for so much";
  FakeGpus gpus(2, 1);
  {
    SplitModelledItems<FakeDevice> table(*gpus.pointers[0], gpus.pointers, small_items(1, 64));
    table.run_host({{TableOp::put, "", "value"}});
    gpus.devices[0]->enter();
    DeviceMemory<FakeDevice> memory(*gpus.devices[0], 0);
    const DeviceStream<FakeDevice> stream(*gpus.devices[0]);
    const auto offsets = upload_to(*gpus.devices[0], memory, stream.get(), std::vector<int64_t>(2));
    const auto replies = upload_to(*gpus.devices[0], memory, stream.get(), std::vector<int64_t>(2));
    const auto bytes = upload_to(*gpus.devices[0], memory, stream.get(), std::vector<char>(8));
    gpu::ItemRequests get;
    get.rows = 1;
    get.keys = {offsets.data(), bytes.data()};
    get.replies = {nullptr, replies.data(), bytes.data(), ~uint64_t{0} >> 1};
    EXPECT_THROW(table.store().run(get, 0, stream.get()), std::bad_alloc);
    table.check_all();
    EXPECT_EQ(table.wrong(), 0u);
  }
  gpus.expect_clean();
}

TEST(SplitItemStore, RefusesAPlaceThatItHasNot) {
  FakeGpus gpus(2, 1);
  SplitItemStore<FakeDevice> store(gpus.pointers, small_items(1, 64));
  EXPECT_THROW(store.run({}, 2, nullptr), std::invalid_argument);
  EXPECT_THROW(SplitItemStore<FakeDevice>({}, small_items(1, 64)), std::invalid_argument);
}

}  // namespace
}  // namespace isotherm::split_item_store_test
