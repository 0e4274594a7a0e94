// Tables with an index of a fixed size on the fake device: the checks that the GPU runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "device_checks/cache_checks.h"
#include "device_checks/test_size.h"
#include "fake_device/fake_device.h"

namespace isotherm::cache_kind_test {
namespace {

class CacheKindChecks : public ::testing::TestWithParam<DeviceTableCheck<FakeDevice>> {};

TEST_P(CacheKindChecks, FindNoFault) {
  FakeDevice device(1, uint64_t{1} << 28);
  EXPECT_EQ(GetParam().run(device, test_size(256, 2048)), 0u);
  EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
  EXPECT_EQ(device.allocated_bytes(), 0u);
}

std::string test_name(const ::testing::TestParamInfo<DeviceTableCheck<FakeDevice>>& test) {
  std::string name = test.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Cuckoo, CacheKindChecks,
                         ::testing::ValuesIn(cache_checks<FakeDevice, CuckooKind<>>), test_name);
INSTANTIATE_TEST_SUITE_P(Set, CacheKindChecks,
                         ::testing::ValuesIn(cache_checks<FakeDevice, SetKind>), test_name);

}  // namespace
}  // namespace isotherm::cache_kind_test
