#include "server/flags.h"

#include <gtest/gtest.h>

#include <vector>

#include "net/memory_amount.h"

namespace isotherm::flags_test {
namespace {

std::optional<int> parse(std::vector<const char*> arguments, net::ServerOptions& options) {
  arguments.insert(arguments.begin(), "isotherm-server");
  testing::internal::CaptureStderr();
  const auto status = parse_flags(static_cast<int>(arguments.size()), arguments.data(), options);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(status == exit_usage, !said.empty()) << said;
  if (status == exit_usage && arguments.size() > 1) {
    // The message names what is wrong.
    EXPECT_NE(said.find(arguments.size() > 2 ? arguments[1] : arguments.back()), std::string::npos)
        << said;
  }
  return status;
}

TEST(FlagsTest, Memory) {
  EXPECT_EQ(net::parse_memory("0"), 0u);
  EXPECT_EQ(net::parse_memory("100"), 100u);
  EXPECT_EQ(net::parse_memory("1k"), 1000u);
  EXPECT_EQ(net::parse_memory("1Kb"), 1024u);
  EXPECT_EQ(net::parse_memory("100mb"), 100u << 20);
  EXPECT_EQ(net::parse_memory("1m"), 1'000'000u);
  EXPECT_EQ(net::parse_memory("2gb"), 2ull << 30);
  for (const char* text :
       {"", "x", "-1", "1tb", "1 mb", "1.5gb", "99999999999999999999", "18446744073709551615kb"}) {
    EXPECT_FALSE(net::parse_memory(text).has_value()) << text;
  }
}

TEST(FlagsTest, TakesAllOptions) {
  net::ServerOptions options;
  EXPECT_FALSE(parse({"--port",
                      "7000",
                      "--memcached-port",
                      "-1",
                      "--bind",
                      "127.0.0.1 ::1",
                      "--threads",
                      "3",
                      "--databases",
                      "4",
                      "--maxmemory",
                      "1gb",
                      "--maxmemory-policy",
                      "allkeys-lru",
                      "--gpu-schedule",
                      "fixed",
                      "--gpu-batch",
                      "4096",
                      "--gpu-wait-usec",
                      "250",
                      "--device",
                      "auto",
                      "--gpu-values",
                      "8gb",
                      "--gpu-values-from",
                      "1kb",
                      "--maxclients",
                      "5",
                      "--proto-max-bulk-len",
                      "2mb",
                      "--loglevel",
                      "warning"},
                     options)
                   .has_value());
  EXPECT_EQ(options.port, 7000);
  EXPECT_EQ(options.memcached_port, -1);
  EXPECT_EQ(options.bind, (std::vector<std::string>{"127.0.0.1", "::1"}));
  EXPECT_EQ(options.threads, 3u);
  EXPECT_EQ(options.store.databases, 4u);
  EXPECT_EQ(options.store.maxmemory, 1ull << 30);
  EXPECT_EQ(options.store.maxmemory_policy, EvictionPolicy::allkeys_lru);
  EXPECT_EQ(options.store.rounds.policy, Scheduling::fixed_size);
  EXPECT_EQ(options.store.rounds.rows, 4096u);
  EXPECT_EQ(options.store.rounds.wait_ns, 250'000);
  EXPECT_EQ(options.store.gpu_values, 8ull << 30);
  EXPECT_EQ(options.store.gpu_values_from, 1024u);
  EXPECT_EQ(options.maxclients, 5u);
  EXPECT_EQ(options.proto_max_bulk_len, 2ull << 20);
  EXPECT_EQ(options.loglevel, net::LogLevel::warning);
}

TEST(FlagsTest, RefusesWhatItDoesNotKnow) {
  net::ServerOptions options;
  EXPECT_EQ(parse({"--nosuch"}, options), exit_usage);
  EXPECT_EQ(parse({"stray"}, options), exit_usage);
  for (const std::vector<const char*>& arguments :
       std::vector<std::vector<const char*>>{{"--port", "70000"},
                                             {"--port", "x"},
                                             {"--threads", "0"},
                                             {"--databases", "0"},
                                             {"--maxmemory", "lots"},
                                             {"--maxmemory-policy", "none"},
                                             {"--proto-max-bulk-len", "1kb"},
                                             {"--proto-max-bulk-len", "8gb"},
                                             {"--loglevel", "loud"},
                                             {"--bind", "nowhere"},
                                             {"--gpu-schedule", "adaptive"},
                                             {"--gpu-schedule", "none"},
                                             {"--gpu-batch", "0"},
                                             {"--gpu-batch", "2097153"},
                                             {"--gpu-wait-usec", "0"},
                                             {"--gpu-wait-usec", "1000001"},
                                             {"--gpu-wait-usec", "-1"},
                                             {"--gpu-values", "many"},
                                             {"--gpu-values-from", "63"},
                                             {"--gpu-values-from", "2mb"},
                                             {"--maxclients", "-1"}}) {
    EXPECT_EQ(parse(arguments, options), exit_usage) << arguments[0] << ' ' << arguments[1];
  }
}

TEST(FlagsTest, ValuesOnGpusNeedAGpu) {
  net::ServerOptions options;
  EXPECT_EQ(parse({"--gpu-values", "1gb"}, options), exit_usage);
  EXPECT_FALSE(parse({"--gpu-values", "1gb", "--device", "cuda"}, options).has_value());
}

TEST(FlagsTest, ASizeAndAWaitOfRoundsNeedAScheduleThatHasThem) {
  for (const std::vector<const char*>& arguments :
       std::vector<std::vector<const char*>>{{"--gpu-batch", "512"},
                                             {"--gpu-wait-usec", "100"},
                                             {"--gpu-schedule", "greedy", "--gpu-batch", "1"}}) {
    net::ServerOptions options;
    EXPECT_EQ(parse(arguments, options), exit_usage) << arguments[0];
  }
  net::ServerOptions options;
  EXPECT_FALSE(parse({"--gpu-schedule", "periodic"}, options).has_value());
  EXPECT_EQ(options.store.rounds.policy, Scheduling::periodic);
}

}  // namespace
}  // namespace isotherm::flags_test
