// Tables of rows over some fake devices: the checks that GPUs run, and what happens when one fails.
#include "gpu/rows/split_row_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "device_checks/device_row_checks.h"
#include "device_checks/test_size.h"
#include "fake_device/fake_gpus.h"
#include "isotherm/gpu/common.h"

namespace isotherm::split_row_store_test {
namespace {

const uint64_t scale = test_rows(256, 2048);

struct Gpus {
  uint32_t count;
  bool connected;  // they reach each other's memory
};
using Case = std::tuple<SplitRowCheck<FakeDevice>, Gpus>;

class SplitRowChecks : public ::testing::TestWithParam<Case> {};

TEST_P(SplitRowChecks, FindNoFault) {
  const auto& [check, its] = GetParam();
  FakeGpus gpus(its.count, 1, its.connected);
  EXPECT_EQ(check.run(gpus.pointers, scale), 0u);
  gpus.expect_clean();
}

std::string name_of(const ::testing::TestParamInfo<Case>& test) {
  const auto& [check, gpus] = test.param;
  std::string name = check.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name + '_' + std::to_string(gpus.count) + (gpus.connected ? "_connected" : "");
}

INSTANTIATE_TEST_SUITE_P(All, SplitRowChecks,
                         ::testing::Combine(::testing::ValuesIn(split_row_checks<FakeDevice>),
                                            ::testing::Values(Gpus{2, false}, Gpus{2, true},
                                                              Gpus{3, true})),
                         name_of);

TEST(SplitRowStore, IsLostWhenALaunchOfAnyDeviceFails) {
  DeviceRequestSource source(1);
  const std::vector<uint64_t> keys = source.keys(200);
  for (uint32_t failing = 0; failing < 2; ++failing) {
    for (uint64_t launches = 0; launches < 12; launches += 3) {
      FakeGpus gpus(2, 1);
      ModelledRows<FakeDevice> table(gpus.pointers, {64, 64 * 64, {0, 3, 4, 256}});
      table.put({keys.begin(), keys.begin() + 100}, true);
      gpus.devices[failing]->fail_launches_after(launches);
      EXPECT_THROW(table.put(keys, true), DeviceError) << launches;
      gpus.devices[failing]->fail_launches_after(FakeDevice::never);
      EXPECT_THROW(table.get(keys), DeviceError) << launches;
      EXPECT_THROW(table.stats(), DeviceError) << launches;
      for (const auto& device : gpus.devices) {
        EXPECT_EQ(device->take_errors(), std::vector<std::string>{});
      }
    }
  }
}

TEST(SplitRowStore, BuffersTakeAnEighthOfACap) {
  FakeGpus gpus(2, 1);
  constexpr uint64_t cap = 4 << 20;
  ModelledRows<FakeDevice> table(gpus.pointers, {512, 512 * 64, {cap, 3, 4, 1 << 14}});
  const gpu::TableStats stats = table.stats();
  EXPECT_LE(stats.bytes + stats.workspace, 2 * cap);
  for (const auto& device : gpus.devices) EXPECT_LE(device->allocated_bytes(), cap + (1 << 16));
}

TEST(SplitRowStore, RefusesAPlaceThatItHasNot) {
  FakeGpus gpus(2, 1);
  SplitRowStore<FakeDevice> store(gpus.pointers, {64, 64 * 64, {0, 3, 4, 256}});
  EXPECT_THROW(store.run({}, 2, nullptr), std::invalid_argument);
  EXPECT_THROW(store.scan(2, 10, [](uint64_t) {}), std::invalid_argument);
  EXPECT_THROW(SplitRowStore<FakeDevice>({}, {64, 64 * 64, {0, 3, 4, 256}}), std::invalid_argument);
}

}  // namespace
}  // namespace isotherm::split_row_store_test
