#include "server/flags.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/memory_amount.h"

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
  EXPECT_EQ(parse_memory("0"), 0u);
  EXPECT_EQ(parse_memory("100"), 100u);
  EXPECT_EQ(parse_memory("1k"), 1000u);
  EXPECT_EQ(parse_memory("1Kb"), 1024u);
  EXPECT_EQ(parse_memory("100mb"), 100u << 20);
  EXPECT_EQ(parse_memory("1m"), 1'000'000u);
  EXPECT_EQ(parse_memory("2gb"), 2ull << 30);
  for (const char* text :
       {"", "x", "-1", "1tb", "1 mb", "1.5gb", "99999999999999999999", "18446744073709551615kb"}) {
    EXPECT_FALSE(parse_memory(text).has_value()) << text;
  }
}

TEST(FlagsTest, MemcachedsOwn) {
  net::ServerOptions options;
  EXPECT_FALSE(parse({"--memcached-udp-port",
                      "0",
                      "--memcached-udp-amplification",
                      "10",
                      "--memcached-udp-trusted",
                      "none",
                      "--memcached-max-connections",
                      "7",
                      "--memcached-idle-timeout",
                      "8",
                      "--memcached-item-size-max",
                      "2mb",
                      "--memcached-reqs-per-event",
                      "20",
                      "--memcached-disable-flush-all",
                      "--memcached-disable-dumping",
                      "--unixsocket",
                      "/r",
                      "--unixsocketperm",
                      "700",
                      "--memcached-unixsocket",
                      "/m",
                      "--memcached-unixsocket-mask",
                      "750"},
                     options));
  EXPECT_EQ(options.memcached_udp_port, 0);
  EXPECT_EQ(options.memcached_udp_amplification, 10u);
  EXPECT_EQ(options.memcached_udp_trusted, net::UdpTrust::none);
  EXPECT_EQ(options.memcached_max_connections, 7u);
  EXPECT_EQ(options.memcached_idle_timeout, 8u);
  EXPECT_EQ(options.memcached_item_size_max, 2u << 20);
  EXPECT_EQ(options.memcached_reqs_per_event, 20u);
  EXPECT_FALSE(options.memcached_flush);
  EXPECT_FALSE(options.memcached_dumps);
  EXPECT_EQ(options.unixsocket, "/r");
  EXPECT_EQ(options.unixsocketperm, 0700u);
  EXPECT_EQ(options.memcached_unixsocket, "/m");
  EXPECT_EQ(options.memcached_unixsocket_mask, 0750u);
  net::ServerOptions others;
  EXPECT_EQ(others.memcached_udp_port, -1) << "off, unless it is asked for";
  for (const std::vector<const char*>& wrong :
       std::vector<std::vector<const char*>>{{"--memcached-udp-trusted", "some"},
                                             {"--memcached-udp-port", "65536"},
                                             {"--unixsocketperm", "8"},
                                             {"--memcached-unixsocket-mask", "1777"},
                                             {"--memcached-item-size-max", "1000"},
                                             {"--memcached-reqs-per-event", "0"}}) {
    EXPECT_TRUE(parse(wrong, others)) << wrong.front();
  }
}

TEST(FlagsTest, WhatIsSaidOfGpusIsUsedOrRefused) {
  const auto refused = [](const std::vector<const char*>& words) {
    net::ServerOptions options;
    return parse(words, options).has_value();
  };
  for (const std::vector<const char*>& wrong : std::vector<std::vector<const char*>>{
           {"--gpus", "0,1"},
           {"--gpus", "0,0", "--device", "cuda"},
           {"--gpu-items-host", "1gb", "--device", "cuda"},
           {"--gpus", "0,1", "--tree", "there", "--gpu-sorted", "1gb"},
           {"--gpu-memory", "1gb"},
           {"--gpu-memory", "1gb", "--device", "cuda", "--gpu-items", "1gb"}}) {
    EXPECT_TRUE(refused(wrong)) << wrong.front() << ' ' << wrong[1];
  }
  EXPECT_FALSE(refused({"--gpus", "1"})) << "one may be chosen for later";
  EXPECT_FALSE(refused({"--gpus", "0,1", "--device", "cuda", "--gpu-memory", "1gb"}));
}

TEST(FlagsTest, PacketsNeedItemsOnAGpu) {
  using Words = std::vector<const char*>;
  const Words items = {"--device", "cuda", "--gpu-items", "1gb"};
  const auto parse_with = [&](const Words& words, const Words& behind) {
    Words all = words;
    all.insert(all.end(), behind.begin(), behind.end());
    net::ServerOptions options;
    return parse(all, options).has_value()
               ? std::string("refused")
               : options.memcached_packets + '/' + options.memcached_packets_address + '/' +
                     std::to_string(options.memcached_packets_port);
  };
  EXPECT_EQ(parse_with({}, items), "//11211");
  EXPECT_EQ(parse_with({"--memcached-packets", "eth1"}, items), "eth1//11211");
  EXPECT_EQ(parse_with({"--memcached-packets", "eth1", "--memcached-packets-port", "7"}, items),
            "eth1//7");
  const Words any_port = {"--memcached-packets-address", "::1", "--memcached-packets-port", "0"};
  EXPECT_EQ(parse_with(any_port, items), "/::1/0");
  for (const auto& [word, source] :
       {std::pair("ring", net::PacketSource::ring), std::pair("xdp", net::PacketSource::xdp)}) {
    net::ServerOptions options;
    Words all = {"--memcached-packets", "eth1", "--memcached-packets-source", word};
    all.insert(all.end(), items.begin(), items.end());
    EXPECT_FALSE(parse(all, options).has_value());
    EXPECT_EQ(options.memcached_packets_source, source);
  }
  for (const Words& wrong :
       std::vector<Words>{{"--memcached-packets-port", "0", "--memcached-packets", "eth1"},
                          {"--memcached-packets", "eth1", "--memcached-packets-address", "::1"},
                          {"--memcached-packets-source", "xdp"},
                          {"--memcached-packets", "eth1", "--memcached-packets-source", "file"},
                          {"--memcached-packets-port", "65536"}}) {
    EXPECT_EQ(parse_with(wrong, items), "refused");
  }
  EXPECT_EQ(parse_with({"--memcached-packets", "eth1"}, {}), "refused");
}

TEST(FlagsTest, TakesAllOptions) {
  net::ServerOptions options;
  EXPECT_FALSE(parse({"--port",
                      "7000",
                      "--memcached-port",
                      "off",
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
                      "--gpu-threads",
                      "3",
                      "--gpu-queue",
                      "64",
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
                      "--requirepass",
                      "open sesame",
                      "--timeout",
                      "7",
                      "--tcp-keepalive",
                      "0",
                      "--proto-max-bulk-len",
                      "2mb",
                      "--slowlog-log-slower-than",
                      "-1",
                      "--slowlog-max-len",
                      "5",
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
  EXPECT_EQ(options.store.router.choice, RouterChoice::off);
  EXPECT_EQ(options.store.rounds.policy, Scheduling::fixed_size);
  EXPECT_EQ(options.store.rounds.rows, 4096u);
  EXPECT_EQ(options.store.rounds.wait_ns, 250'000);
  EXPECT_EQ(options.store.gpu_threads, 3u);
  EXPECT_EQ(options.store.gpu_queue, 64u);
  EXPECT_EQ(options.store.gpu_values, 8ull << 30);
  EXPECT_EQ(options.store.gpu_values_from, 1024u);
  EXPECT_EQ(options.maxclients, 5u);
  EXPECT_EQ(options.requirepass, "open sesame");
  EXPECT_EQ(options.timeout, 7u);
  EXPECT_EQ(options.tcp_keepalive, 0u);
  EXPECT_EQ(options.proto_max_bulk_len, 2ull << 20);
  EXPECT_EQ(options.slowlog_log_slower_than, -1);
  EXPECT_EQ(options.slowlog_max_len, 5u);
  EXPECT_EQ(options.loglevel, net::LogLevel::warning);
}

TEST(FlagsTest, WordsThatAreNoFlagsAreShownAsTheyWereGiven) {
  const auto said = [](std::vector<const char*> words) {
    net::ServerOptions options;
    words.insert(words.begin(), "isotherm-server");
    testing::internal::CaptureStderr();
    EXPECT_EQ(parse_flags(static_cast<int>(words.size()), words.data(), options), exit_usage);
    return testing::internal::GetCapturedStderr();
  };
  const std::string end = "\nRun with --help for the flags.\n";
  EXPECT_EQ(said({"--nosuch", "1", "x"}), "isotherm-server: no such option: --nosuch 1 x" + end);
  EXPECT_EQ(said({"--timeout", "1", "--port"}),
            "isotherm-server: --port: a value is missing" + end);
}

TEST(FlagsTest, TheLastOfSeveralCounts) {
  net::ServerOptions options;
  EXPECT_FALSE(parse({"--port", "1", "--threads", "3", "--maxmemory", "1gb", "--gpus", "0,1",
                      "--device", "cuda", "--port", "off", "--threads", "2", "--maxmemory", "2gb",
                      "--memcached-disable-dumping", "--memcached-disable-dumping"},
                     options));
  EXPECT_EQ(options.port, -1);
  EXPECT_EQ(options.threads, 2u);
  EXPECT_EQ(options.store.maxmemory, 2ull << 30);
  EXPECT_EQ(options.store.gpus, (std::vector<uint32_t>{0, 1}));
  EXPECT_FALSE(options.memcached_dumps);
  net::ServerOptions others;
  EXPECT_FALSE(parse({"--save", "3600 1", "--save", "300 100"}, others));
  EXPECT_EQ(to_string(others.save), "3600 1 300 100") << "these add up";
}

TEST(FlagsTest, TakesTheEndsOfItsRanges) {
  for (const std::vector<const char*>& arguments :
       std::vector<std::vector<const char*>>{{"--port", "0"},
                                             {"--port", "65535"},
                                             {"--port", "off"},
                                             {"--threads", "256"},
                                             {"--databases", "16384"},
                                             {"--maxmemory", "0"},
                                             {"--maxmemory", "768kb"},
                                             {"--maxclients", "1"},
                                             {"--timeout", "0"},
                                             {"--timeout", "2147483647"},
                                             {"--proto-max-bulk-len", "1mb"}}) {
    net::ServerOptions options;
    EXPECT_FALSE(parse(arguments, options).has_value()) << arguments[0] << ' ' << arguments[1];
  }
}

TEST(FlagsTest, RefusesWhatItDoesNotKnow) {
  net::ServerOptions options;
  EXPECT_EQ(parse({"--nosuch"}, options), exit_usage);
  EXPECT_EQ(parse({"stray"}, options), exit_usage);
  for (const std::vector<const char*>& arguments :
       std::vector<std::vector<const char*>>{{"--port", "70000"},
                                             {"--port", "x"},
                                             {"--port", "-1"},
                                             {"--port", ""},
                                             {"--port", "6379x"},
                                             {"--port", "99999999999999999999"},
                                             {"--memcached-port", "-1"},
                                             {"--memcached-port", "65536"},
                                             {"--threads", "-1"},
                                             {"--threads", "257"},
                                             {"--threads", "1.5"},
                                             {"--threads", "0x10"},
                                             {"--threads", " 1"},
                                             {"--threads", "+1"},
                                             {"--threads", "1 "},
                                             {"--databases", "010"},
                                             {"--gpus", "0, 1"},
                                             {"--router-threshold", " 0.1"},
                                             {"--router-threshold", "0x1"},
                                             {"--threads", "99999999999999999999"},
                                             {"--databases", "-1"},
                                             {"--databases", "16385"},
                                             {"--databases", "x"},
                                             {"--maxmemory", "-1"},
                                             {"--maxmemory", ""},
                                             {"--maxmemory", "1"},
                                             {"--maxmemory", "1kb"},
                                             {"--maxmemory", "767kb"},
                                             {"--maxmemory", "99999999999gb"},
                                             {"--maxmemory", "9223372036854775808"},
                                             {"--maxmemory-policy", "ALLKEYS"},
                                             {"--maxmemory-policy", ""},
                                             {"--maxclients", "0"},
                                             {"--maxclients", "1000001"},
                                             {"--maxclients", "4294967297"},
                                             {"--maxclients", "many"},
                                             {"--timeout", "-1"},
                                             {"--timeout", "2147483648"},
                                             {"--timeout", "soon"},
                                             {"--tcp-keepalive", "-1"},
                                             {"--tcp-keepalive", "2147483648"},
                                             {"--proto-max-bulk-len", "-1"},
                                             {"--proto-max-bulk-len", "0"},
                                             {"--slowlog-log-slower-than", "-2"},
                                             {"--slowlog-max-len", "-1"},
                                             {"--slowlog-max-len", "many"},
                                             {"--loglevel", "1"},
                                             {"--gpu-memory", "-1"},
                                             {"--gpus", "-1"},
                                             {"--gpu-values-from", "-1"},
                                             {"--threads", "0"},
                                             {"--databases", "0"},
                                             {"--maxmemory", "lots"},
                                             {"--maxmemory-policy", "none"},
                                             {"--proto-max-bulk-len", "1kb"},
                                             {"--proto-max-bulk-len", "8gb"},
                                             {"--loglevel", "loud"},
                                             {"--bind", "nowhere"},
                                             {"--gpu-schedule", "none"},
                                             {"--gpu-threads", "0"},
                                             {"--gpu-threads", "257"},
                                             {"--gpu-queue", "0"},
                                             {"--gpu-batch", "0"},
                                             {"--gpu-batch", "2097153"},
                                             {"--gpu-wait-usec", "0"},
                                             {"--gpu-wait-usec", "1000001"},
                                             {"--gpu-wait-usec", "-1"},
                                             {"--gpu-values", "many"},
                                             {"--tree", ""},
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

TEST(FlagsTest, SnapshotsNeedTheHostOrItemsOnAGpu) {
  net::ServerOptions options;
  EXPECT_EQ(parse({"--save", "60 1", "--device", "cuda"}, options), exit_usage);
  net::ServerOptions others;
  EXPECT_FALSE(parse({"--save", "60 1", "--device", "cuda", "--gpu-items", "1gb"}, others));
}

TEST(FlagsTest, OptionsOfATreeNeedATree) {
  net::ServerOptions options;
  EXPECT_EQ(parse({"--tree-options", "max_open_files=10"}, options), exit_usage);
  net::ServerOptions others;
  EXPECT_FALSE(parse({"--tree-options", "max_open_files=10", "--tree", "/tmp/tree"}, others));
}

TEST(FlagsTest, ARouterNeedsTheIndexOnTheHost) {
  net::ServerOptions options;
  for (const char* choice : {"histogram", "budget", "chance"}) {
    net::ServerOptions others;
    EXPECT_FALSE(parse({"--router", choice}, others));
    EXPECT_EQ(to_string(others.store.router.choice), choice);
    for (const char* device : {"cuda", "auto"}) {
      EXPECT_EQ(parse({"--router", choice, "--device", device}, options), exit_usage);
    }
  }
  for (const std::vector<const char*>& arguments :
       std::vector<std::vector<const char*>>{{"--router", "on"},
                                             {"--router-memory", "1kb"},
                                             {"--router-bins", "0"},
                                             {"--router-bins", "16777217"},
                                             {"--router-threshold", "1.5"},
                                             {"--router-interval", "0"},
                                             {"--router-interval", "60001"}}) {
    net::ServerOptions others;
    EXPECT_EQ(parse(arguments, others), exit_usage) << arguments[0];
  }
}

TEST(FlagsTest, TakesAllOptionsOfARouter) {
  net::ServerOptions options;
  EXPECT_FALSE(parse({"--router", "histogram", "--router-bins", "10000", "--router-memory", "32mb",
                      "--router-threshold", "0.005", "--router-interval", "50"},
                     options));
  EXPECT_EQ(options.store.router.bins, 10'000u);
  EXPECT_EQ(options.store.router.memory, 32u << 20);
  EXPECT_EQ(options.store.router.threshold, .005);
  EXPECT_EQ(options.store.router.interval_ms, 50u);
}

TEST(FlagsTest, AnIndexOfAFixedSizeNeedsACapAndAPolicyForAllKeys) {
  using Arguments = std::vector<const char*>;
  const auto with = [](Arguments more) {
    Arguments all{"--index", "set", "--maxmemory", "64mb"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  for (const char* policy : {"allkeys-lru", "allkeys-random"}) {
    net::ServerOptions options;
    EXPECT_FALSE(parse(with({"--maxmemory-policy", policy, "--index-item-bytes", "1kb"}), options));
    EXPECT_EQ(options.store.index, IndexChoice::set);
    EXPECT_EQ(options.store.index_item_bytes, 1024u);
  }
  for (const Arguments& arguments :
       std::vector<Arguments>{{"--index", "tree"},
                              {"--index", "cuckoo"},
                              {"--index", "cuckoo", "--maxmemory-policy", "allkeys-lru"},
                              {"--index-item-bytes", "15"},
                              with({}),
                              with({"--maxmemory-policy", "noeviction"}),
                              with({"--maxmemory-policy", "volatile-lru"}),
                              with({"--maxmemory-policy", "allkeys-lru", "--router", "budget"}),
                              with({"--maxmemory-policy", "allkeys-lru", "--device", "auto"}),
                              with({"--maxmemory-policy", "allkeys-lru", "--tree", "folder"})}) {
    net::ServerOptions options;
    EXPECT_EQ(parse(arguments, options), exit_usage) << arguments.back();
  }
}

TEST(FlagsTest, ATreeNeedsMoreMemory) {
  net::ServerOptions options;
  EXPECT_EQ(parse({"--maxmemory", "2047kb", "--tree", "folder"}, options), exit_usage);
  EXPECT_FALSE(parse({"--tree", "folder", "--maxmemory", "2mb"}, options).has_value());
}

TEST(FlagsTest, ASizeAndAWaitOfRoundsNeedAScheduleThatHasThem) {
  for (const std::vector<const char*>& arguments : std::vector<std::vector<const char*>>{
           {"--gpu-schedule", "greedy", "--gpu-batch", "512"},
           {"--gpu-wait-usec", "100"},
           {"--gpu-schedule", "adaptive", "--gpu-wait-usec", "1"},
           {"--gpu-schedule", "fixed", "--gpu-write-cycles", "2"}}) {
    net::ServerOptions options;
    EXPECT_EQ(parse(arguments, options), exit_usage) << arguments[0];
  }
  net::ServerOptions options;
  EXPECT_FALSE(
      parse({"--device", "cuda", "--gpu-schedule", "periodic", "--gpu-write-cycles", "4"}, options)
          .has_value());
  EXPECT_EQ(options.store.rounds.write_cycles, 4u);
  net::ServerOptions adaptive;
  EXPECT_FALSE(parse({"--device", "cuda", "--gpu-batch", "100"}, adaptive).has_value());
  EXPECT_EQ(adaptive.store.rounds.policy, Scheduling::adaptive);
  EXPECT_EQ(options.store.rounds.policy, Scheduling::periodic);
}

// A snapshot would take the place of a segment that is being written.
TEST(FlagsTest, SomeClientCanReachTheServer) {
  const std::vector<const char*> none{"--port", "off", "--memcached-port", "off"};
  net::ServerOptions options;
  EXPECT_EQ(parse(none, options), exit_usage);
  std::vector<const char*> by_path = none;
  by_path.insert(by_path.end(), {"--memcached-unixsocket", "/s"});
  EXPECT_FALSE(parse(by_path, options).has_value());
}

TEST(FlagsTest, FilesNeedAFolderAndNames) {
  const std::string long_name(201, 'n');
  for (const std::vector<const char*>& arguments :
       std::vector<std::vector<const char*>>{{"--dir", ""},
                                             {"--dir", "/nosuch"},
                                             {"--dir", "/dev/null"},
                                             {"--appendfilename", "."},
                                             {"--appendfilename", ".."},
                                             {"--appendfilename", long_name.c_str()},
                                             {"--dbfilename", ".."}}) {
    net::ServerOptions options;
    EXPECT_EQ(parse(arguments, options), exit_usage) << arguments.front() << ' ' << arguments[1];
  }
}

TEST(FlagsTest, ASnapshotHasNoNameOfTheJournal) {
  for (const char* name : {"appendonly.aof", "appendonly.aof.2", "appendonly.aof.manifest"}) {
    net::ServerOptions options;
    EXPECT_EQ(parse({"--dbfilename", name}, options), exit_usage) << name;
  }
  net::ServerOptions options;
  EXPECT_FALSE(parse({"--dbfilename", "appendonly.rdb"}, options).has_value());
}

}  // namespace
}  // namespace isotherm::flags_test
