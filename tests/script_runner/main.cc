// Every script as a test, over every configuration.
//
//   isotherm-script-tests                                   against Isotherm, in this process
//   isotherm-script-tests --peer resp=127.0.0.1:6380 memcached=127.0.0.1:11212
//
// The first form starts a fresh server with a clock of its own for each test; a configuration is a
// line in the table below. The second form proves that the scripts expect what Redis and memcached
// answer: it skips scripts that say `peer no`, waits where a script turns the clock a little, and
// ends a script where it turns it far.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>

#include "items/poison.h"
#include "script_runner/host.h"
#include "script_runner/runner.h"

namespace isotherm::scripts {
namespace {

struct Configuration {
  const char* name;
  HostOptions host;
  Cut cut;
};

constexpr Configuration configurations[] = {
    {"OneThread", {.threads = 1}, Cut::whole},
    {"OneThreadPieces", {.threads = 1}, Cut::pieces},
    {"TwoThreads", {.threads = 2}, Cut::whole},
    {"TwoThreadsPieces", {.threads = 2}, Cut::pieces},
    {"Journal", {.threads = 2, .journal = true}, Cut::whole},
    {"Tree", {.threads = 2, .journal = true, .tree = true}, Cut::whole},
    {"BinsFlap", {.threads = 2, .bins_flap = true}, Cut::whole},
    {"TreeBinsFlap", {.threads = 2, .journal = true, .bins_flap = true, .tree = true}, Cut::whole},
    {"BinsFlapJournalPieces", {.threads = 2, .journal = true, .bins_flap = true}, Cut::pieces},
    {"Cuckoo", {.threads = 2, .kind = IndexChoice::cuckoo}, Cut::whole},
    {"Set", {.threads = 2, .journal = true, .kind = IndexChoice::set}, Cut::whole},
    {"FakeDevice", {.threads = 1, .index = Index::fake_device}, Cut::whole},
    {"FakeDeviceTwoThreadsPieces", {.threads = 2, .index = Index::fake_device}, Cut::pieces},
    {"FakeDeviceItems", {.threads = 2, .index = Index::fake_items}, Cut::whole},
    {"FakeDeviceItemsBinsFlap",
     {.threads = 2, .index = Index::fake_items, .bins_flap = true},
     Cut::pieces},
    {"FakeDeviceValues", {.index = Index::fake_device, .values_away = true}, Cut::whole},
    // Where the tests of a GPU are asked for.
    {"Gpu", {.threads = 1, .index = Index::gpu}, Cut::whole},
    {"GpuTwoThreadsPieces", {.threads = 2, .index = Index::gpu}, Cut::pieces},
    {"GpuValues", {.threads = 2, .index = Index::gpu, .values_away = true}, Cut::whole},
};

bool is_asked_for(const Configuration& configuration) {
  const HostOptions& host = configuration.host;
  // The tree's own tests run under each sanitizer.
  if (forgets(host) && poison::sanitized) return false;
  if (host.tree && !has_trees()) return false;
  // Two threads go every way that one goes, bins flap beside a journal as they do without, requests
  // that come whole are read alike with a journal and without, and both kinds of a fixed size are
  // run alike: under a sanitizer, where a script takes ten times as long, one configuration for
  // each way has to do.
  const bool is_plain =
      host.index == Index::host && !host.journal && configuration.cut == Cut::whole;
  const bool has_likeness = host.threads == 1 || (host.bins_flap && !host.journal) || is_plain ||
                            host.kind == IndexChoice::cuckoo;
  if (poison::sanitized && has_likeness) return false;
  return configuration.host.index != Index::gpu || std::getenv("ISOTHERM_TEST_GPU") != nullptr;
}

// Not those that need memory without a cap, or one that is full, or remembers the last use of
// items.
bool suits_tree(const std::string& name) {
  for (const char* part : {"memory_full", "config", "info", "client", "admin", "object", "use"}) {
    if (name.find(part) != std::string::npos) return false;
  }
  return true;
}

// Not those that need memory without a cap, one of their own, or another policy, or versions of
// different keys that differ.
bool suits_cache(const std::string& name) {
  for (const char* part : {"memory_full", "config", "info", "memcached_cap", "memcached_admin",
                           "resp/object", "memcached/cas"}) {
    if (name.find(part) != std::string::npos) return false;
  }
  return true;
}

constexpr int64_t longest_wait_ms = 3'000;

class HostedScript : public testing::Test {
 public:
  HostedScript(Script script, const Configuration& configuration)
      : script_(std::move(script)), configuration_(configuration) {}

  void TestBody() override {
    std::string failure = play();
    // Memory that is made to forget is full for a moment: a write that comes just then is refused.
    const auto was_full = [&] {
      return failure.find("OOM") != std::string::npos ||
             failure.find("out of memory") != std::string::npos;
    };
    for (int again = 0; again < 3 && forgets(configuration_.host) && was_full(); ++again) {
      failure = play();
    }
    EXPECT_TRUE(failure.empty()) << failure;
  }

 private:
  // Returns what was not as expected.
  std::string play() {
    const auto host = start_host(configuration_.host, script_.server_flags);
    Target target;
    target.resp.port = host->resp_port();
    target.memcached.port = host->memcached_port();
    target.memcached_udp.port = host->memcached_udp_port();
    target.cut = configuration_.cut;
    target.now_ms = [&] { return host->now_ms(); };
    target.advance = [&](int64_t ms) {
      host->advance(ms);
      return true;
    };
    return run_script(script_, target);
  }

  Script script_;
  const Configuration& configuration_;
};

int64_t system_now_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

class PeerScript : public testing::Test {
 public:
  PeerScript(Script script, const Address& resp, const Address& memcached)
      : script_(std::move(script)) {
    target_.resp = resp;
    target_.memcached = target_.memcached_udp = memcached;
    target_.now_ms = system_now_ms;
    target_.advance = [](int64_t ms) {
      if (ms > longest_wait_ms) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(ms));
      return true;
    };
  }

  void TestBody() override {
    if (!script_.peer) GTEST_SKIP() << "not for peers";
    // Their clocks go on: a second may end between two lines, or what was to be there be late for.
    // What they answer otherwise they answer so each time.
    constexpr int most_times = 4;
    std::string failure;
    for (int i = 0; i == 0 || (i < most_times && !failure.empty()); ++i) {
      empty_peers();
      failure = run_script(script_, target_);
    }
    EXPECT_TRUE(failure.empty()) << failure;
  }

 private:
  void empty_peers() {
    Client resp(target_.resp.host, target_.resp.port);
    resp.send("FLUSHALL\r\n", Cut::whole);
    ASSERT_EQ(resp.read_line(), "+OK");
    Client memcached(target_.memcached.host, target_.memcached.port);
    memcached.send("flush_all\r\n", Cut::whole);
    ASSERT_EQ(memcached.read_line(), "OK");
  }

  Script script_;
  Target target_;
};

struct Peers {
  Address resp;
  Address memcached;
};

std::optional<Address> parse_address(std::string_view argument, std::string_view name) {
  const size_t colon = argument.rfind(':');
  if (!argument.starts_with(name) || colon == argument.npos) return std::nullopt;
  const auto host = argument.substr(name.size(), colon - name.size());
  const int port = std::stoi(std::string(argument.substr(colon + 1)));
  return Address{std::string(host), static_cast<uint16_t>(port)};
}

std::optional<Peers> parse_peers(int argc, char** argv) {
  if (argc != 4 || std::string_view(argv[1]) != "--peer") return std::nullopt;
  const auto resp = parse_address(argv[2], "resp=");
  const auto memcached = parse_address(argv[3], "memcached=");
  if (!resp || !memcached) return std::nullopt;
  return Peers{*resp, *memcached};
}

void register_hosted(const Script& script) {
  for (const auto& configuration : configurations) {
    if (!is_asked_for(configuration)) continue;
    if (forgets(configuration.host) && !suits_tree(script.name)) continue;
    if (configuration.host.kind != IndexChoice::line && !suits_cache(script.name)) continue;
    // One sets `appendonly no`, which only changes nothing where it is so; and one fills memory
    // exactly, of which an index on a GPU takes none, nor do items that live there.
    const bool fills = script.name == "both/memcached_cap";
    if (configuration.host.journal && (script.name == "resp/config_set" || fills)) continue;
    if (fills && (configuration.host.index == Index::gpu || forgets(configuration.host))) continue;
    testing::RegisterTest(configuration.name, script.name.c_str(), nullptr, nullptr, __FILE__,
                          __LINE__,
                          [=, &configuration] { return new HostedScript(script, configuration); });
  }
}

void register_peer(Script script, const Peers& peers) {
  // Two programs cannot see each other's data.
  if (script.name.starts_with("both/")) script.peer = false;
  testing::RegisterTest("Peer", script.name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                        [=] { return new PeerScript(script, peers.resp, peers.memcached); });
}

}  // namespace
}  // namespace isotherm::scripts

int main(int argc, char** argv) {
  using namespace isotherm::scripts;
  testing::InitGoogleTest(&argc, argv);
  const auto peers = parse_peers(argc, argv);
  if (argc > 1 && !peers) {
    std::fprintf(stderr, "usage: %s [--peer resp=HOST:PORT memcached=HOST:PORT]\n", argv[0]);
    return 64;
  }
  const std::filesystem::path root = ISOTHERM_SCRIPT_FOLDER;
  for (const auto& file : find_scripts(root)) {
    const Script script = load_script(root, file);
    if (peers) {
      register_peer(script, *peers);
    } else {
      register_hosted(script);
    }
  }
  return RUN_ALL_TESTS();
}
