// Packets that the fake device answers.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device_checks/packet_checks.h"
#include "device_checks/test_size.h"
#include "fake_device/fake_device.h"
#include "fake_device/fake_packets.h"

namespace isotherm::packet_engine_test {
namespace {

class FakePackets final : public PacketDevice {
 public:
  FakePackets(uint64_t seed, const PacketOptions& options)
      : device_(seed, uint64_t{1} << 29),
        store_(device_, small_items(seed, 64)),
        engine_(device_, store_, options) {}
  ~FakePackets() override {
    for (const std::string& error : device_.take_errors()) {
      std::fprintf(stderr, "%s\n", error.c_str());
      std::abort();
    }
  }
  const PacketOptions& options() const override { return engine_.options(); }
  const PacketSlots& slots(uint32_t channel) const override { return engine_.slots(channel); }
  void start(uint32_t channel, uint32_t rows, int64_t now_ms) override {
    engine_.start(channel, rows, now_ms);
  }
  bool lend(std::span<char> memory) override { return engine_.lend(memory); }
  void take_back() override { engine_.take_back(); }
  bool done(uint32_t channel) override { return engine_.done(channel); }
  void wait(uint32_t channel) override { engine_.wait(channel); }
  uint64_t run_host(const gpu::ItemRequests& requests) override {
    return engine_.run_host(requests);
  }

 private:
  FakeDevice device_;
  DeviceItemStore<FakeDevice> store_;
  PacketEngine<FakeDevice> engine_;
};

class PacketChecks : public ::testing::TestWithParam<DeviceItemCheck<FakeDevice>> {};

TEST_P(PacketChecks, FindsNoFault) {
  for (uint64_t seed = 1; seed <= test_size(1, 4); ++seed) {
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

namespace isotherm {

std::unique_ptr<PacketDevice> make_fake_packets(uint64_t seed, const PacketOptions& options) {
  return std::make_unique<packet_engine_test::FakePackets>(seed, options);
}

}  // namespace isotherm
