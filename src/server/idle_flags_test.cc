// Flags that nothing would use (server/idle_flags.h).
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "server/flags.h"

namespace isotherm::idle_flags_test {
namespace {

using Words = std::vector<const char*>;

// Whether they are taken; else what is said names the first of them.
bool takes(Words words, const Words& more = {}) {
  words.insert(words.begin(), "isotherm-server");
  words.insert(words.end(), more.begin(), more.end());
  net::ServerOptions options;
  testing::internal::CaptureStderr();
  const bool taken = !parse_flags(static_cast<int>(words.size()), words.data(), options);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find(std::string(words[1]) + ": needs ") != std::string::npos, !taken) << said;
  return taken;
}

// Whoever gives one expects something of it.
TEST(IdleFlags, AreRefused) {
  const Words of_a_device[] = {{"--gpu-schedule", "fixed"},
                               {"--gpu-schedule", "adaptive"},
                               {"--gpu-batch", "512"},
                               {"--gpu-threads", "2"},
                               {"--gpu-queue", "64"}};
  for (const Words& words : of_a_device) {
    EXPECT_FALSE(takes(words)) << words[0];
    EXPECT_FALSE(takes(words, {"--device", "cuda", "--gpu-items", "1gb"})) << words[0];
    EXPECT_TRUE(takes(words, {"--device", "auto"})) << words[0];
  }
  const std::pair<Words, Words> others[] = {
      {{"--gpu-values-from", "1kb", "--device", "cuda"}, {"--gpu-values", "1gb"}},
      {{"--router-bins", "64"}, {"--router", "chance"}},
      {{"--router-memory", "1mb"}, {"--router", "budget"}},
      {{"--router-interval", "5"}, {"--router", "budget"}},
      {{"--router-threshold", "0.1"}, {"--router", "histogram"}},
      {{"--index-item-bytes", "64", "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"},
       {"--index", "set"}},
      {{"--requirepass", "pw", "--port", "off"}, {"--unixsocket", "/s"}},
      {{"--unixsocketperm", "700"}, {"--unixsocket", "/s"}},
      {{"--memcached-unixsocket-mask", "700"}, {"--memcached-unixsocket", "/s"}},
      {{"--memcached-udp-amplification", "5"}, {"--memcached-udp-port", "0"}},
      {{"--memcached-udp-trusted", "all"}, {"--memcached-udp-port", "0"}},
      {{"--memcached-packets-port", "7", "--device", "cuda", "--gpu-items", "1gb"},
       {"--memcached-packets", "eth1"}},
      {{"--memcached-idle-timeout", "5", "--memcached-port", "off"},
       {"--memcached-unixsocket", "/s"}}};
  for (const auto& [words, needed] : others) {
    EXPECT_FALSE(takes(words)) << words[0];
    EXPECT_TRUE(takes(words, needed)) << words[0];
  }
  EXPECT_FALSE(takes({"--router-threshold", "0.1", "--router", "budget"}));
}

// As Redis does.
TEST(IdleFlags, OfRedisAreTaken) {
  EXPECT_TRUE(takes({"--appendfsync", "always", "--maxmemory-policy", "allkeys-lru"}));
}

}  // namespace
}  // namespace isotherm::idle_flags_test
