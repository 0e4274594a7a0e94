#include "isotherm_bench/options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "isotherm_bench/presets.h"

namespace isotherm::bench::options_test {
namespace {

ParsedOptions parse(std::vector<std::string> words) {
  words.insert(words.begin(), "isotherm-bench");
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  ParsedOptions parsed = parse_options(static_cast<int>(words.size()), argv.data());
  ::testing::internal::GetCapturedStderr();
  ::testing::internal::GetCapturedStdout();
  return parsed;
}

TEST(Options, BadOnesEndWithUsage) {
  const std::vector<std::vector<std::string>> bad = {
      {"--no-such-flag"},
      {"word"},
      {"--theta", "0"},
      {"--theta", "x"},
      {"--theta", "nan"},
      {"--mix", "read=10"},
      {"--distribution", "gauss"},
      {"--preset", "none"},
      {"--records", "0"},
      {"--records", "12q"},
      {"--records", "99999999999999999999"},
      {"--key-size", "0"},
      {"--key-size", "2", "--records", "1M"},
      {"--value-size", "10-5"},
      {"--value-size", "1G"},
      {"--batch", "0"},
      {"--pipeline", "0"},
      {"--threads", "0"},
      {"--connections", "0"},
      {"--rate", "0"},
      {"--rate", "1k", "--requests", "5"},
      {"--seconds", "0"},
      {"--seconds", "inf"},
      {"--warm-up", "-1"},
      {"--rounds", "0"},
      {"--target", "http://127.0.0.1:80"},
      {"--target", "redis://127.0.0.1"},
      {"--target", "redis://127.0.0.1:70000"},
      {"--target", "redis://:1"},
      {"--pid", "1"},
      {"--json", "--quiet"},
      {"--seed", "--records=10"},
      {"--seed"},
      {"--in-process", "--spawn-redis"},
      {"--fixed", "--spawn-redis"},
      {"--mica", "--spawn-redis"},
      {"--mica", "--fixed"},
      {"--mica", "--device", "cuda"},
      {"--fixed", "--maxmemory", "1gb"},
      {"--mica", "--value-size", "8-16"},
      {"--mica", "--preset", "ycsb-e"},
      {"--no-load"},
      {"--spawn-memcached", "--preset", "ycsb-e"},
      {"--spawn-memcached", "--key-size", "251"},
      {"--protocol", "smtp"},
      {"--maxmemory", "10q"},
      {"--router", "no"},
      {"--index", "tree"},
      {"--spawn-redis", "--maxmemory", "1gb"},
      {"--target", "redis://127.0.0.1:1", "--index", "cuckoo"},
      {"--floor", "--no-floor"},
      {"--protocol", "memcached"},
      {"--isotherm-args", "--threads 2"},
      {"--spawn-memcached", "--redis-args", "--save"},
      {"--spawn-redis", "--memcached-args", "-m 64"},
      {"--pipeline", "32"},
      {"--connections", "3"},
      {"--pid", "1=1"},
      {"--arrival", "fixed"},
      {"--index", "cuckoo"},
      {"--router", "histogram", "--device", "cuda"},
      {"--distribution", "uniform", "--theta", "0.5"},
      {"--fixed", "--key-size", "16"},
      {"--fixed", "--value-size", "8-9"},
      {"--gpus", "0"},
      {"--gpu-schedule", "fixed"},
      {"--device", "cuda", "--gpu-batch", "5"},
      {"--device", "cuda", "--gpu-wait-usec", "5"},
      {"--device", "cuda", "--gpu-write-cycles", "5"},
      {"--router-bins", "5"},
      {"--router-memory", "1mb"},
      {"--router-threshold", "0.5"},
      {"--index-item-bytes", "64"},
      {"--maxmemory-policy", "allkeys-lru"},
      {"--scan-length", "5"},
  };
  for (const auto& words : bad) {
    EXPECT_EQ(parse(words).exit_code, exit_usage) << words.front() << " " << words.back();
  }
}

TEST(Options, FlagsThatHaveAnEffectTogetherAreTaken) {
  const std::vector<std::vector<std::string>> good = {
      {"--fixed", "--key-size", "8", "--value-size", "8"},
      {"--distribution", "latest", "--theta", "0.5"},
      {"--device", "cuda", "--gpus", "0,1"},
      {"--device", "cuda", "--gpu-schedule", "fixed", "--gpu-batch", "5"},
      {"--device", "cuda", "--gpu-items", "1gb", "--maxmemory-policy", "allkeys-lru"},
      {"--preset", "ycsb-e", "--scan-length", "5"},
  };
  for (const auto& words : good) {
    EXPECT_FALSE(parse(words).exit_code) << words.front() << " " << words.back();
  }
}

TEST(Options, HelpIsNoError) {
  EXPECT_EQ(parse({"--help"}).exit_code, 0);
  EXPECT_EQ(parse({"--version"}).exit_code, 0);
  EXPECT_EQ(parse({"--list-presets"}).exit_code, 0);
}

TEST(Options, FlagsWinOverPresets) {
  const Options options =
      parse({"--preset", "mega-kv-b", "--value-size", "8-16", "--records", "2M"}).options;
  EXPECT_EQ(options.workload.name, "mega-kv-b");
  EXPECT_EQ(options.workload.key_size, 16u);
  EXPECT_EQ(options.workload.value_size_min, 8u);
  EXPECT_EQ(options.workload.value_size_max, 16u);
  EXPECT_EQ(options.workload.records, 2'000'000u);
  EXPECT_TRUE(options.in_process);
}

TEST(Options, MemoryIsWrittenAsForTheServer) {
  const auto maxmemory = [](const std::string& text) {
    return parse({"--maxmemory", text}).options.store.maxmemory;
  };
  EXPECT_EQ(maxmemory("100mb"), 100u << 20);
  EXPECT_EQ(maxmemory("100M"), 100'000'000u);
  EXPECT_EQ(maxmemory("4096"), 4096u);
}

TEST(Options, TheBatchMeansKeysOverSockets) {
  EXPECT_EQ(parse({"--batch", "7"}).options.batch, 7u);
  EXPECT_EQ(parse({"--batch", "7", "--spawn-redis"}).options.workload.keys_per_read, 7u);
}

TEST(Options, ARouterOfTheStoreInThisProcess) {
  const RouterOptions router = parse({"--router", "histogram", "--router-bins", "1000",
                                      "--router-memory", "1M", "--router-threshold", "0.005"})
                                   .options.store.router;
  EXPECT_EQ(router.choice, RouterChoice::histogram);
  EXPECT_EQ(router.bins, 1000u);
  EXPECT_EQ(router.memory, 1'000'000u);
  EXPECT_EQ(router.threshold, 0.005);
}

TEST(Options, PeersMakeFiveRounds) {
  EXPECT_EQ(parse({"--spawn-redis"}).options.rounds, 5u);
  EXPECT_FALSE(parse({"--spawn-redis"}).options.floor);
  EXPECT_EQ(parse({"--target", "redis://127.0.0.1:1"}).options.rounds, 1u);
  EXPECT_TRUE(parse({"--target", "redis://127.0.0.1:1"}).options.floor);
  EXPECT_FALSE(parse({"--target", "redis://127.0.0.1:1", "--no-floor"}).options.floor);
}

TEST(Options, Addresses) {
  std::string error;
  const auto address = parse_address("memcached://[::1]:11", &error);
  ASSERT_TRUE(address);
  EXPECT_EQ(address->protocol, WireProtocol::memcached);
  EXPECT_EQ(address->host, "::1");
  EXPECT_EQ(address->port, 11);
}

TEST(Presets, AreValid) {
  for (const Preset& preset : presets()) {
    Workload workload;
    ASSERT_TRUE(apply_preset(preset.name, workload));
    double sum = 0;
    for (double share : workload.mix) sum += share;
    EXPECT_DOUBLE_EQ(sum, 100) << preset.name;
    EXPECT_GE(key_capacity(workload.key_size), 1'000'000'000u);
  }
}

}  // namespace
}  // namespace isotherm::bench::options_test
