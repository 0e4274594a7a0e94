// Packets that the fake device answers.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device_checks/packet_checks.h"
#include "device_checks/test_size.h"
#include "fake_device/fake_device.h"

namespace isotherm::packet_engine_test {
namespace {

class PacketChecks : public ::testing::TestWithParam<DeviceItemCheck<FakeDevice>> {};

TEST_P(PacketChecks, FindsNoFault) {
  for (uint64_t seed = 1; seed <= test_size(1, 20); ++seed) {
    FakeDevice device(seed, uint64_t{1} << 29);
    EXPECT_EQ(GetParam().run(device, test_size(200, 2000)), 0u);
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
    EXPECT_EQ(device.allocated_bytes(), 0u);
  }
}
INSTANTIATE_TEST_SUITE_P(All, PacketChecks, ::testing::ValuesIn(packet_checks<FakeDevice>));

TEST(PacketEngine, ALostDeviceIsTold) {
  FakeDevice device(1, uint64_t{1} << 29);
  DeviceItemStore<FakeDevice> store(device, small_items(1, 64));
  PacketEngine<FakeDevice> engine(device, store, {});
  engine.slots(0).bytes[0] = 0;
  device.lose();
  EXPECT_THROW(engine.start(0, 1, 0), DeviceError);
  EXPECT_THROW(engine.start(1, 1, 0), DeviceError);
}

TEST(PacketEngine, OptionsStayWithinTheirLimits) {
  PacketOptions options;
  options.rows = 0;
  options.channels = 0;
  options.frame_stride = 1000;
  options.reply_stride = 1'000'000;
  const PacketOptions bounded = options.bounded();
  EXPECT_EQ(bounded.rows, 1u);
  EXPECT_EQ(bounded.channels, 1u);
  EXPECT_EQ(bounded.frame_stride, uint32_t{ReplyFrame::slot_bytes});
  EXPECT_GE(bounded.reply_stride, uint32_t{ReplyFrame::most_bytes});
  EXPECT_EQ(bounded.reply_stride % 16, 0u);
  EXPECT_LE(bounded.reply_stride, 65'535u);
}

}  // namespace
}  // namespace isotherm::packet_engine_test
