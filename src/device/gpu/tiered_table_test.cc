// Tables that a fake device and the host share: the checks that the GPU runs, and what happens when
// the device fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "device/fake_device.h"
#include "device/gpu/tiered_table_checks.h"
#include "items/poison.h"

namespace isotherm {
namespace {

constexpr uint64_t memory = uint64_t{1} << 28;
constexpr uint64_t scale = poison::sanitized ? 512 : 2048;

class TieredTableChecks : public ::testing::TestWithParam<DeviceTableCheck<FakeDevice>> {};

TEST_P(TieredTableChecks, FindNoFault) {
  FakeDevice device(1, memory);
  EXPECT_EQ(GetParam().run(device, scale), 0u);
  EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
  EXPECT_EQ(device.allocated_bytes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Shared, TieredTableChecks,
                         ::testing::ValuesIn(tiered_table_checks<FakeDevice>),
                         [](const auto& test) {
                           std::string name = test.param.name;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

}  // namespace
}  // namespace isotherm
