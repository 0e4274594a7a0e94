#include "gpu/rows/device_rows.h"

#include <gtest/gtest.h>

#include "fake_device/fake_device_fixture.h"

namespace isotherm::device_rows_test {
namespace {

class DeviceRowsTest : public FakeDeviceFixture {};

TEST_F(DeviceRowsTest, WhereStampsEndAllAreForgotten) {
  DeviceMemory<FakeDevice> memory(device, 0);
  DeviceRows<FakeDevice> rows(memory, {64, 16}, stream);
  ASSERT_EQ(rows.reserve(16, stream), 16u);
  uint32_t* const writer = rows.view().last_writer + 3;

  const uint32_t first = rows.next_stamps(4'000'000'000, stream);
  EXPECT_EQ(first, 1u);
  EXPECT_EQ(rows.next_stamps(1000, stream), 4'000'000'001u);
  uint32_t stamp = 4'000'000'500u;
  ASSERT_TRUE(device.to_device(stream, writer, &stamp, sizeof stamp));

  EXPECT_EQ(rows.next_stamps(4'000'000'000, stream), 1u);
  ASSERT_TRUE(device.to_host(stream, &stamp, writer, sizeof stamp) && device.synchronize(stream));
  EXPECT_EQ(stamp, 0u);
}

}  // namespace
}  // namespace isotherm::device_rows_test
