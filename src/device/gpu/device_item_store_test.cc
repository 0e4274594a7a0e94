// Tables of items on the fake device: the checks that the GPU runs, and what happens when the
// device fails or a call is wrong.
#include <gtest/gtest.h>

#include "device/fake_device.h"
#include "device/gpu/device_item_checks.h"
#include "items/poison.h"

namespace isotherm {
namespace {

constexpr uint64_t memory = uint64_t{1} << 29;
constexpr uint64_t scale = poison::sanitized ? 512 : 1024;

class DeviceItemChecks : public ::testing::TestWithParam<DeviceItemCheck<FakeDevice>> {};

TEST_P(DeviceItemChecks, FindNoFault) {
  for (uint64_t seed = 1; seed <= (poison::sanitized ? 1 : 2); ++seed) {
    FakeDevice device(seed, memory);
    EXPECT_EQ(GetParam().run(device, scale), 0u) << "seed " << seed;
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

}  // namespace
}  // namespace isotherm
