// Random histories of all operations on an engine, against a std::map: with one thread and with
// several, with and without a cap, under every eviction policy, while the index grows, on the host,
// on a fake device and, where the tests of a GPU are asked for (ISOTHERM_TEST_GPU=1), on one.
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "device_checks/test_size.h"
#include "engine/engine.h"
#include "fake_device/fake_root_table.h"
#include "items/poison.h"
#include "models/history.h"

namespace isotherm::engine_history_test {
namespace {

// `small_devices`: two that have room for a part of the index.
enum class Where : uint8_t { host, fake_device, small_devices, gpu };

struct Case {
  const char* name;
  EvictionPolicy policy;
  uint64_t maxmemory;
  uint64_t threads;
  uint64_t keys;
  uint64_t batches;
  Where index = Where::host;
  RoundOptions rounds = {};
  uint64_t values_away = 0;  // bytes of each device for values
  bool bins_flap = false;    // hot and cold, by chance
  IndexChoice kind = IndexChoice::line;

  friend void PrintTo(const Case& its, std::ostream* out) { *out << its.name; }
};

class EngineHistoryTest : public ::testing::TestWithParam<Case> {
 protected:
  // So that an index of a fixed size is full before memory is.
  static constexpr uint64_t item_bytes = 8192;

  static Options options() {
    Options options;
    options.maxmemory = GetParam().maxmemory;
    options.maxmemory_policy = GetParam().policy;
    options.max_value_bytes = 50'000;
    options.databases = 3;
    if (GetParam().index == Where::gpu) options.device = DeviceChoice::cuda;
    options.rounds = GetParam().rounds;
    options.gpu_values = GetParam().values_away;
    options.gpu_values_from = 64;
    options.index = GetParam().kind;
    options.index_item_bytes = item_bytes;
    if (GetParam().bins_flap) {
      options.router = {
          .choice = RouterChoice::chance, .bins = 16, .memory = 128 << 10, .interval_ms = 1};
    }
    return options;
  }
  void SetUp() override {
    if (GetParam().index == Where::gpu && std::getenv("ISOTHERM_TEST_GPU") == nullptr) {
      GTEST_SKIP() << "skipped: no GPU";
    }
    WaitClock* const its_clock =
        GetParam().rounds.policy == Scheduling::adaptive ? &rounds_clock : nullptr;
    if (GetParam().index == Where::fake_device) {
      made = std::make_unique<Engine>(options(), clock, fake_root_tiers_maker(device), its_clock);
    } else if (GetParam().index == Where::small_devices) {
      made = std::make_unique<Engine>(
          options(), clock, fake_root_tiers_maker({&device, &other_device}, small), its_clock);
    } else {
      made = std::make_unique<Engine>(options(), clock);
    }
  }
  Engine& engine() { return *made; }

  History::Setup setup(uint64_t thread) const {
    History::Setup setup;
    setup.seed = thread + 1;
    setup.keys = GetParam().keys;
    if (GetParam().threads > 1) setup.prefix = "thread " + std::to_string(thread) + ":";
    setup.databases = 3;
    setup.max_value_bytes = 50'000;
    setup.may_evict = GetParam().policy != EvictionPolicy::noeviction;
    setup.has_cap = GetParam().maxmemory != 0;
    if (setup.has_cap) {
      setup.longest_value = GetParam().index == Where::small_devices ? 400 : 4'000;
    }
    return setup;
  }

  void run(uint64_t thread, History& history) {
    Worker worker(engine());
    const auto submit = [&](Batch& batch) { worker.submit(batch); };
    // What has a cap needs all of them to reach it.
    const bool fills = GetParam().maxmemory != 0 || GetParam().values_away != 0;
    const uint64_t all = GetParam().batches;
    const uint64_t batches = poison::sanitized ? all / 8 : fills ? all : test_size(all / 4, all);
    for (uint64_t i = 0; (i < batches || has_to_flap()) && !HasFatalFailure(); ++i) {
      history.step(clock.now_ms(), submit);
      worker.maintain();
      // So that the side of the index changes at nearly every change of the load.
      rounds_clock.advance(400'000'000);
      // With more threads nobody knows which time a batch of another thread saw.
      if (GetParam().threads == 1 && i % 3 == 0) clock.advance(15);
    }
    history.check_all(clock.now_ms(), submit);
    if (thread != 0) return;
    for (int i = 0; i < 1000; ++i) worker.maintain();
  }

  bool has_to_flap() {
    constexpr uint64_t enough = poison::sanitized ? 10 : 60;
    return GetParam().bins_flap && engine().stats().hot.cooled < enough;
  }

  ManualClock clock{1'700'000'000'000};
  ManualWaitClock rounds_clock{1};  // where nobody waits by it
  // What a tier takes beside its segments, and some 12 of these.
  static constexpr uint64_t small = 2'140'000;
  FakeDevice device{GetParam().keys, uint64_t{1} << 28};
  FakeDevice other_device{GetParam().keys + 1, uint64_t{1} << 28};
  std::unique_ptr<Engine> made;
};

TEST_P(EngineHistoryTest, EveryAnswerEqualsTheModels) {
  std::vector<std::unique_ptr<History>> histories;
  for (uint64_t thread = 0; thread < GetParam().threads; ++thread) {
    histories.push_back(std::make_unique<History>(setup(thread)));
  }
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < GetParam().threads; ++thread) {
    threads.emplace_back([&, thread] { run(thread, *histories[thread]); });
  }
  for (std::thread& thread : threads) thread.join();
  if (HasFatalFailure()) return;

  // The shorter run under a sanitizer may stay below the cap, or end before any was sent.
  if (GetParam().values_away != 0 && !poison::sanitized) {
    EXPECT_GT(engine().stats().values.to_device, 0u);
    if (GetParam().threads == 1) {
      EXPECT_GT(engine().stats().values.fetched, 0u);
    }
  }
  if (GetParam().rounds.policy == Scheduling::adaptive) {
    EXPECT_GT(engine().stats().rounds.switches, poison::sanitized ? 2u : 4u);
    // Near the cap the index stays where it is.
    if (GetParam().maxmemory == 0) {
      EXPECT_GT(engine().stats().root_table.host_lookups, 0u);
    }
  }
  // Where the devices were full.
  if (GetParam().index == Where::small_devices && !poison::sanitized) {
    EXPECT_GT(engine().stats().root_table.bins_to_host, 0u);
  }
  if (GetParam().policy != EvictionPolicy::noeviction) {
    // As above; and a GPU takes values away faster than memory fills.
    const bool sends = GetParam().index == Where::gpu && GetParam().values_away != 0;
    if (!poison::sanitized && !sends) {
      EXPECT_GT(engine().stats().evicted, 0u);
    }
    return;
  }
  EXPECT_EQ(engine().stats().evicted, 0u);
  EXPECT_EQ(engine().stats().on_device, GetParam().index != Where::host);
  EXPECT_EQ(engine().stats().round_options.policy, GetParam().rounds.policy);
  // What has expired is swept without being asked for; the rest stays.
  clock.advance(1'000'000);
  Worker worker(engine());
  for (int i = 0; i < 3000; ++i) worker.maintain();
  for (uint32_t database = 0; database < 3; ++database) {
    uint64_t left = 0;
    for (const auto& history : histories) {
      for (const auto& [key, entry] : history->model().entries()) {
        left += key.first == database && entry.expiry == no_expiry;
      }
    }
    EXPECT_EQ(engine().database(database).keys, left);
    EXPECT_EQ(engine().database(database).expires, 0u);
    EXPECT_EQ(worker.count(database), left);
  }
}

constexpr uint64_t cap = 6 << 20;

INSTANTIATE_TEST_SUITE_P(
    All, EngineHistoryTest,
    ::testing::Values(
        Case{"few_keys", EvictionPolicy::noeviction, 0, 1, 20, 2000},
        Case{"many_keys", EvictionPolicy::noeviction, 0, 1, 40'000, 3000},
        Case{"threads", EvictionPolicy::noeviction, 0, 3, 100, 800},
        Case{"threads_many_keys", EvictionPolicy::noeviction, 0, 3, 20'000, 1200},
        Case{"full", EvictionPolicy::noeviction, cap, 1, 4000, 800},
        Case{"allkeys_lru", EvictionPolicy::allkeys_lru, cap, 1, 4000, 800},
        Case{"allkeys_random", EvictionPolicy::allkeys_random, cap, 1, 4000, 800},
        Case{"volatile_lru", EvictionPolicy::volatile_lru, cap, 1, 4000, 800},
        Case{"volatile_ttl", EvictionPolicy::volatile_ttl, cap, 1, 4000, 800},
        Case{"threads_full", EvictionPolicy::noeviction, cap, 3, 2000, 400},
        Case{"threads_allkeys_lru", EvictionPolicy::allkeys_lru, cap, 3, 2000, 400},
        Case{"threads_allkeys_random", EvictionPolicy::allkeys_random, cap, 3, 2000, 400},
        Case{"threads_volatile_ttl", EvictionPolicy::volatile_ttl, cap, 3, 2000, 400}),
    [](const auto& param) { return std::string(param.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Device, EngineHistoryTest,
    ::testing::Values(
        Case{"few_keys", EvictionPolicy::noeviction, 0, 1, 20, 200, Where::fake_device},
        Case{"many_keys", EvictionPolicy::noeviction, 0, 1, 4'000, 200, Where::fake_device},
        Case{"threads", EvictionPolicy::noeviction, 0, 3, 100, 80, Where::fake_device},
        Case{"full", EvictionPolicy::noeviction, cap, 1, 4000, 800, Where::fake_device},
        Case{"allkeys_lru", EvictionPolicy::allkeys_lru, cap, 1, 4000, 800, Where::fake_device},
        Case{"threads_volatile_ttl", EvictionPolicy::volatile_ttl, cap / 3, 3, 2000, 80,
             Where::fake_device},
        Case{"small_devices", EvictionPolicy::noeviction, 0, 1, 12'000, 400, Where::small_devices},
        Case{"threads_small_devices", EvictionPolicy::noeviction, 0, 3, 4'000, 150,
             Where::small_devices},
        Case{"allkeys_lru_small_devices", EvictionPolicy::allkeys_lru, cap / 2, 1, 12'000, 1200,
             Where::small_devices}),
    [](const auto& param) { return std::string(param.param.name); });

// Bins of keys become hot and cold by chance all the time.
Case flapping(Case its) {
  its.bins_flap = true;
  return its;
}

INSTANTIATE_TEST_SUITE_P(
    RouterFlaps, EngineHistoryTest,
    ::testing::Values(flapping({"few_keys", EvictionPolicy::noeviction, 0, 1, 20, 500}),
                      flapping({"many_keys", EvictionPolicy::noeviction, 0, 1, 10'000, 300}),
                      flapping({"threads", EvictionPolicy::noeviction, 0, 3, 100, 100}),
                      flapping({"full", EvictionPolicy::noeviction, cap, 1, 4000, 250}),
                      flapping({"threads_allkeys_lru", EvictionPolicy::allkeys_lru, cap, 3, 2000,
                                200}),
                      flapping({"volatile_ttl", EvictionPolicy::volatile_ttl, cap, 1, 4000, 800})),
    [](const auto& param) { return std::string(param.param.name); });

// Indexes of a fixed size.
Case of_kind(IndexChoice kind, Case its) {
  its.kind = kind;
  return its;
}

INSTANTIATE_TEST_SUITE_P(
    Cache, EngineHistoryTest,
    ::testing::Values(
        of_kind(IndexChoice::cuckoo, {"cuckoo", EvictionPolicy::allkeys_lru, cap, 1, 4000, 800}),
        of_kind(IndexChoice::set, {"set", EvictionPolicy::allkeys_lru, cap, 1, 4000, 800}),
        of_kind(IndexChoice::cuckoo,
                {"threads_cuckoo", EvictionPolicy::allkeys_random, cap, 3, 1000, 150}),
        of_kind(IndexChoice::set, {"threads_set", EvictionPolicy::allkeys_lru, cap, 3, 1000, 150})),
    [](const auto& param) { return std::string(param.param.name); });

// Cold values on the device: without a cap all of them, with one what the host has no room for.
constexpr uint64_t much = 64 << 20;
constexpr uint64_t little = 512 << 10;  // so that the log is cleaned, and full

INSTANTIATE_TEST_SUITE_P(
    Values, EngineHistoryTest,
    ::testing::Values(
        Case{"few_keys", EvictionPolicy::noeviction, 0, 1, 20, 300, Where::fake_device, {}, much},
        Case{"many_keys",
             EvictionPolicy::noeviction,
             0,
             1,
             4'000,
             300,
             Where::fake_device,
             {},
             much},
        Case{
            "little", EvictionPolicy::noeviction, 0, 1, 2'000, 400, Where::fake_device, {}, little},
        Case{"threads", EvictionPolicy::noeviction, 0, 3, 300, 80, Where::fake_device, {}, little},
        Case{"two_devices",
             EvictionPolicy::noeviction,
             0,
             2,
             2'000,
             150,
             Where::small_devices,
             {},
             little},
        Case{"full",
             EvictionPolicy::noeviction,
             cap / 2,
             1,
             4000,
             400,
             Where::fake_device,
             {},
             much},
        Case{"allkeys_lru",
             EvictionPolicy::allkeys_lru,
             cap / 2,
             1,
             4000,
             400,
             Where::fake_device,
             {},
             little},
        Case{"threads_volatile_ttl",
             EvictionPolicy::volatile_ttl,
             cap / 3,
             3,
             2000,
             80,
             Where::fake_device,
             {},
             little}),
    [](const auto& param) { return std::string(param.param.name); });

// Rounds that wait for more.
constexpr RoundOptions fixed_rounds{Scheduling::fixed_size, 250, 300'000};
constexpr RoundOptions periodic_rounds{Scheduling::periodic, 0, 500'000};
constexpr RoundOptions adaptive_rounds{Scheduling::adaptive, 80};
constexpr RoundOptions delayed_writes{Scheduling::periodic, 0, 100'000, 3};

INSTANTIATE_TEST_SUITE_P(
    Schedules, EngineHistoryTest,
    ::testing::Values(Case{"threads_fixed", EvictionPolicy::noeviction, 0, 3, 100, 80,
                           Where::fake_device, fixed_rounds},
                      Case{"threads_fixed_volatile_ttl", EvictionPolicy::volatile_ttl, cap / 3, 3,
                           2000, 80, Where::fake_device, fixed_rounds},
                      Case{"threads_periodic", EvictionPolicy::noeviction, 0, 3, 100, 80,
                           Where::fake_device, periodic_rounds},
                      Case{"adaptive", EvictionPolicy::noeviction, 0, 1, 4'000, 150,
                           Where::fake_device, adaptive_rounds},
                      Case{"threads_adaptive", EvictionPolicy::noeviction, 0, 3, 500, 150,
                           Where::fake_device, adaptive_rounds},
                      Case{"threads_adaptive_volatile_ttl", EvictionPolicy::volatile_ttl, cap / 3,
                           3, 2000, 80, Where::fake_device, adaptive_rounds},
                      Case{"threads_adaptive_small_devices", EvictionPolicy::noeviction, 0, 3,
                           4'000, 150, Where::small_devices, adaptive_rounds},
                      Case{"threads_delayed_writes", EvictionPolicy::noeviction, 0, 3, 100, 80,
                           Where::fake_device, delayed_writes},
                      Case{"threads_periodic_small_devices", EvictionPolicy::noeviction, 0, 3,
                           4'000, 150, Where::small_devices, periodic_rounds}),
    [](const auto& param) { return std::string(param.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Gpu, EngineHistoryTest,
    ::testing::Values(
        Case{"few_keys", EvictionPolicy::noeviction, 0, 1, 20, 2000, Where::gpu},
        Case{"many_keys", EvictionPolicy::noeviction, 0, 1, 40'000, 2000, Where::gpu},
        Case{"threads", EvictionPolicy::noeviction, 0, 3, 100, 800, Where::gpu},
        Case{"threads_many_keys", EvictionPolicy::noeviction, 0, 8, 20'000, 800, Where::gpu},
        Case{"full", EvictionPolicy::noeviction, cap / 3, 1, 4000, 800, Where::gpu},
        Case{"allkeys_lru", EvictionPolicy::allkeys_lru, cap / 3, 1, 4000, 800, Where::gpu},
        Case{"threads_volatile_ttl", EvictionPolicy::volatile_ttl, cap / 3, 3, 2000, 400,
             Where::gpu},
        Case{"threads_fixed", EvictionPolicy::noeviction, 0, 8, 20'000, 400, Where::gpu,
             fixed_rounds},
        Case{"threads_periodic", EvictionPolicy::noeviction, 0, 8, 20'000, 400, Where::gpu,
             periodic_rounds},
        Case{"values", EvictionPolicy::noeviction, 0, 1, 4'000, 800, Where::gpu, {}, much},
        Case{"values_threads",
             EvictionPolicy::noeviction,
             0,
             8,
             5'000,
             400,
             Where::gpu,
             {},
             8 * little},
        Case{
            "values_full", EvictionPolicy::noeviction, cap / 3, 1, 4000, 800, Where::gpu, {}, much},
        Case{"values_allkeys_lru",
             EvictionPolicy::allkeys_lru,
             cap / 3,
             3,
             4000,
             400,
             Where::gpu,
             {},
             little}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace isotherm::engine_history_test
