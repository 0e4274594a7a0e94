// Sorted tiers on the fake device.
#include "gpu/store/device_sorted_tier.h"

#include <gtest/gtest.h>

#include "device_checks/sorted_checks.h"
#include "device_checks/test_size.h"
#include "fake_device/fake_device.h"

namespace isotherm::device_sorted_tier_test {
namespace {

TEST(SortedTiers, FindNoFault) {
  const uint64_t scale = test_rows(128, 512);
  for (const auto& check : sorted_checks<FakeDevice>) {
    FakeDevice device(1, uint64_t{1} << 28);
    EXPECT_EQ(check.run(device, scale), 0u) << check;
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
    EXPECT_EQ(device.allocated_bytes(), 0u);
  }
}

}  // namespace
}  // namespace isotherm::device_sorted_tier_test
