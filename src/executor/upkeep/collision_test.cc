// Different keys whose 64-bit hashes agree: each remains a key of its own, through writes, expiry,
// eviction, compaction and growth, also under threads, and where the index is on a device.
#include <ostream>
#include <thread>

#include "executor/run/batch_run.h"
#include "executor/upkeep/host_upkeep.h"
#include "fake_device/fake_root_table.h"
#include "items/poison.h"
#include "models/history.h"

namespace isotherm::collision_test {
namespace {

uint64_t one_hash(std::string_view, uint64_t) { return 0x1234'5678'9ABC'DEF0; }
uint64_t mark_hash(std::string_view, uint64_t) { return mark::top_bit | mark::moved; }
// By length, so that keys collide in three groups, in two halves of the hash space.
uint64_t three_hashes(std::string_view key, uint64_t) {
  constexpr uint64_t hashes[] = {1, ~uint64_t{0}, uint64_t{1} << 63};
  return hashes[key.size() % 3];
}

// A host store with a hash of its own, and one worker of it.
class Subject {
 public:
  Subject(HostStore& store, ManualClock& clock, DeviceExecutor* device = nullptr)
      : store_(store),
        clock_(clock),
        slot_(store.epochs.acquire()),
        executor_(store),
        device_(device),
        participant_(executor_),
        upkeep_(executor_, *slot_, device, &participant_) {}
  ~Subject() { store_.epochs.release(slot_); }

  void step(History& history) {
    const int64_t now = clock_.now_ms();
    // Generously what a batch may store.
    int64_t admitted = 0;
    const bool writable =
        upkeep_.make_room({.lasting = 64 << 10, .at_once = 64 << 10}, now, admitted);
    {
      const EpochGuard guard(store_.epochs, *slot_);
      history.step(now, [&](Batch& batch) { run(batch, now, writable); });
    }
    store_.budget.dismiss(admitted);
    upkeep_.step(50, now);
  }
  void check_all(History& history) {
    const EpochGuard guard(store_.epochs, *slot_);
    const int64_t now = clock_.now_ms();
    history.check_all(now, [&](Batch& batch) { run(batch, now, true); });
  }
  void settle() {
    for (int i = 0; i < 500; ++i) upkeep_.step(0, clock_.now_ms());
  }
  HostExecutor& executor() { return executor_; }

 private:
  struct Owner final : BatchRun::Owner {
    void moved(BatchRun& /*run*/, BatchRun::Phase /*phase*/) override {}
    void has_room() override {}
    void released(BatchRun& /*run*/) override {}
  };

  void run(Batch& batch, int64_t now, bool writable) {
    if (device_ == nullptr) return executor_.run(batch, now, writable);
    BatchRun run(owner_, *slot_);
    run.batch = &batch;
    run.now_ms = now;
    run.writable = writable;
    run.sender = &sender_;
    ASSERT_EQ(device_->run(participant_, run, batch, 0, batch.size(), nullptr, nullptr),
              batch.size());
  }

  HostStore& store_;
  ManualClock& clock_;
  EpochDomain::Slot* slot_;
  HostExecutor executor_;
  DeviceExecutor* const device_;
  DeviceExecutor::Participant participant_;
  RoundSender sender_;
  Owner owner_;
  HostUpkeep upkeep_;
};

struct Case {
  const char* name;
  HostStore::Hash hash;
  uint64_t maxmemory;
  EvictionPolicy policy;
  bool on_device = false;

  friend void PrintTo(const Case& its, std::ostream* out) { *out << its.name; }
};

class CollisionTest : public ::testing::TestWithParam<Case> {
 protected:
  static Options options() {
    Options options;
    options.maxmemory = GetParam().maxmemory;
    options.maxmemory_policy = GetParam().policy;
    options.max_value_bytes = 64 << 10;
    options.databases = 2;
    return options;
  }
  static History::Setup setup(uint64_t seed) {
    History::Setup setup;
    setup.seed = seed;
    setup.databases = 2;
    setup.may_evict = GetParam().policy != EvictionPolicy::noeviction;
    setup.has_cap = GetParam().maxmemory != 0;
    if (setup.has_cap) setup.longest_value = 8 << 10;
    return setup;
  }
  // A fake device is slow.
  static int rounds() { return (poison::sanitized ? 60 : 300) / (GetParam().on_device ? 4 : 1); }

  HostStore store{options(), 1, GetParam().hash};
  ManualClock clock{1'000'000};
  FakeDevice device{1, uint64_t{1} << 28};
  SteadyWaitClock wait_clock;
  std::unique_ptr<DeviceExecutor> on_device =
      GetParam().on_device ? std::make_unique<DeviceExecutor>(store, fake_root_tiers_maker(device),
                                                              nullptr, wait_clock)
                           : nullptr;
};

TEST_P(CollisionTest, RandomHistoryEqualsAMap) {
  Subject subject(store, clock, on_device.get());
  History history(setup(1));
  for (int i = 0; i < rounds() && !HasFatalFailure(); ++i) {
    subject.step(history);
    if (i % 3 == 0) clock.advance(20);
  }
  subject.check_all(history);
  if (setup(1).may_evict) return;
  // Those that expired are swept, and the rest is as the model has it.
  clock.advance(1'000'000);
  subject.settle();
  int64_t left = 0;
  for (const auto& [key, entry] : history.model().entries()) left += entry.expiry == no_expiry;
  int64_t members = 0;
  const auto count = [&](uint64_t root) {
    for_each_member(store.items, root, [&](Location) { ++members; });
  };
  for (const Database& database : store.databases) {
    EXPECT_EQ(database.expires.load(), 0);
    if (database.index() == nullptr) continue;
    uint64_t cursor = 0;
    do {
      cursor = database.index()->scan(cursor, [&](uint64_t, uint64_t root) { count(root); });
    } while (cursor != 0);
  }
  uint64_t bound = 0;
  while (on_device && on_device->scan(bound, 64, count, bound) && bound != 0) {
  }
  EXPECT_EQ(members, left);
}

// Each thread has keys of its own; the collision nodes they share.
TEST_P(CollisionTest, ThreadsShareANodeAndLoseNothing) {
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, thread] {
      Subject subject(store, clock, on_device.get());
      History::Setup mine = setup(thread + 10);
      mine.prefix = thread == 0 ? "ada" : "bob";
      mine.keys = 25;
      mine.rows = 60;
      History history(mine);
      for (int i = 0; i < rounds() && !HasFatalFailure(); ++i) {
        // The clock stands still: a test cannot know which of two times a batch of the other saw.
        subject.step(history);
      }
      subject.check_all(history);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(
    Hashes, CollisionTest,
    ::testing::Values(Case{"one", one_hash, 0, EvictionPolicy::noeviction},
                      Case{"mark", mark_hash, 0, EvictionPolicy::noeviction},
                      Case{"three", three_hashes, 0, EvictionPolicy::noeviction},
                      Case{"one_full", one_hash, 4 << 20, EvictionPolicy::noeviction},
                      Case{"one_lru", one_hash, 4 << 20, EvictionPolicy::allkeys_lru},
                      Case{"three_random", three_hashes, 4 << 20, EvictionPolicy::allkeys_random},
                      Case{"three_ttl", three_hashes, 4 << 20, EvictionPolicy::volatile_ttl},
                      Case{"device_one", one_hash, 0, EvictionPolicy::noeviction, true},
                      Case{"device_three_lru", three_hashes, 4 << 20, EvictionPolicy::allkeys_lru,
                           true}),
    [](const auto& param) { return std::string(param.param.name); });

// Pairs of keys collide, in an index that splits.
uint64_t pair_hash(std::string_view key, uint64_t seed) {
  return hash_bytes(key.substr(0, key.size() - 1), seed);
}

TEST(CollisionGrowth, PairsThatCollideSurviveSplits) {
  ManualClock clock(1);
  HostStore store(Options{}, 5, pair_hash);
  Subject subject(store, clock);
  EpochDomain::Slot* slot = store.epochs.acquire();
  constexpr uint64_t pairs = poison::sanitized ? 30'000 : 50'000;
  const auto name = [](uint64_t number, char half) { return std::to_string(number) + half; };
  for (const bool writes : {true, false}) {
    for (uint64_t from = 0; from < pairs; from += 100) {
      std::vector<std::string> keys;
      for (uint64_t i = from; i < from + 100; ++i) {
        keys.push_back(name(i, 'a'));
        keys.push_back(name(i, 'b'));
      }
      const EpochGuard guard(store.epochs, *slot);
      Batch batch;
      for (const std::string& key : keys) writes ? batch.put(key, key) : batch.get(key);
      subject.executor().run(batch, 1, true);
      for (Batch::Row row = 0; row < batch.size(); ++row) {
        ASSERT_EQ(batch.reply(row).status, Status::ok);
        if (!writes) {
          ASSERT_EQ(batch.reply(row).value(), keys[row]);
        }
      }
      if (store.databases[0].index()->wants_step()) store.databases[0].index()->step(100);
    }
  }
  store.epochs.release(slot);
  EXPECT_GE(store.databases[0].splits(), 1u);
  EXPECT_EQ(store.databases[0].count(), pairs);  // the index counts hashes
}

}  // namespace
}  // namespace isotherm::collision_test
