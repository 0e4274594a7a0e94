// Churn in tables of items on the fake device.
#include <gtest/gtest.h>

#include "device_checks/device_item_churn_checks.h"
#include "device_checks/test_size.h"
#include "fake_device/fake_device.h"

namespace isotherm::device_item_churn_test {
namespace {

TEST(DeviceItemChurn, FindsNoFault) {
  const uint64_t scale = test_size(128, 1024);
  for (const auto& check : device_item_churn_checks<FakeDevice>) {
    FakeDevice device(1, uint64_t{1} << 29);
    EXPECT_EQ(check.run(device, scale), 0u) << check;
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
    EXPECT_EQ(device.allocated_bytes(), 0u);
  }
}

}  // namespace
}  // namespace isotherm::device_item_churn_test
