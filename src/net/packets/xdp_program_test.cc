// The kernel takes the program, and runs it on frames of all kinds.
#include "net/packets/xdp_program.h"

#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <system_error>

#include "models/built_frames.h"
#include "models/fragments.h"

namespace isotherm::xdp_program_test {
namespace {

using built_frames::build;
using built_frames::Parts;
using built_frames::server_port;
using net::XdpProgram;

class XdpProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (socket_.number() < 0) GTEST_SKIP() << "no sockets of AF_XDP";
    try {
      program_.emplace(server_port, 1);
    } catch (const std::system_error& error) {
      if (error.code().value() == EPERM) GTEST_SKIP() << error.what();
      throw;
    }
    program_->add(0, socket_.number());
  }
  // Whether it goes to the socket.
  bool takes(std::string frame) const {
    constexpr size_t least = 14;
    frame.resize(std::max(frame.size(), least));
    bpf_attr call{};
    call.test.prog_fd = static_cast<uint32_t>(program_->number());
    call.test.data_in = reinterpret_cast<uint64_t>(frame.data());
    call.test.data_size_in = static_cast<uint32_t>(frame.size());
    EXPECT_EQ(::syscall(SYS_bpf, BPF_PROG_TEST_RUN, &call, sizeof call), 0);
    EXPECT_TRUE(call.test.retval == XDP_PASS || call.test.retval == XDP_REDIRECT);
    return call.test.retval == XDP_REDIRECT;
  }

  const net::Descriptor socket_{::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0)};
  std::optional<XdpProgram> program_;
};

TEST_F(XdpProgramTest, TakesUdpToThePortAndNothingElse) {
  for (const bool v6 : {false, true}) {
    EXPECT_TRUE(takes(build({.v6 = v6})));
    EXPECT_TRUE(takes(build({.v6 = v6, .padding = "padding"})));
    EXPECT_FALSE(takes(build({.v6 = v6, .to_port = server_port + 1})));
    EXPECT_FALSE(takes(build({.v6 = v6, .from_port = server_port, .to_port = 80})));
    std::string frame = build({.v6 = v6});
    for (size_t bytes = 0; bytes < frame.size(); ++bytes) {
      const size_t whole = v6 ? 14 + 40 + 8 : 14 + 20 + 8;
      EXPECT_EQ(takes(frame.substr(0, bytes)), bytes >= whole) << bytes;
    }
    frame[v6 ? 20 : 23] = 6;  // TCP
    EXPECT_FALSE(takes(frame));
    frame.replace(12, 2, "\x08\x06");  // ARP
    EXPECT_FALSE(takes(frame));
  }
  EXPECT_TRUE(takes(build({.options = std::string(40, '\1')})));
  EXPECT_FALSE(takes(build({.to_port = 80, .options = std::string(40, '\1')})));
}

TEST_F(XdpProgramTest, TakesAllFragmentsOfADatagramThatIsForThePort) {
  for (const bool v6 : {false, true}) {
    const std::string text(3000, 't');
    const auto ours = fragments::split(build({.v6 = v6, .text = text}), 1000, 7);
    const auto others = fragments::split(build({.v6 = v6, .to_port = 80, .text = text}), 1000, 8);
    const auto reused = fragments::split(build({.v6 = v6, .to_port = 80, .text = text}), 1000, 7);
    ASSERT_EQ(ours.size(), 4u);
    // Nobody knows yet for whom it is.
    EXPECT_FALSE(takes(ours[1]));
    for (const std::string& frame : ours) EXPECT_TRUE(takes(frame));
    for (const std::string& frame : others) EXPECT_FALSE(takes(frame));
    EXPECT_TRUE(takes(ours[2]));
    for (const std::string& frame : reused) EXPECT_FALSE(takes(frame));
    std::string tcp = ours[0];
    tcp[v6 ? 54 : 23] = 6;
    EXPECT_FALSE(takes(tcp));
  }
}

TEST_F(XdpProgramTest, WhatCannotBeHadIsSaid) {
  EXPECT_THROW(program_->attach("none-such"), std::system_error);
  EXPECT_THROW(program_->add(1, socket_.number()), std::system_error);
}

}  // namespace
}  // namespace isotherm::xdp_program_test
