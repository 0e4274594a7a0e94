// Stores whose index has a fixed size and evicts (index/cache_index.h): what goes, who is told,
// what stays, and that nothing is ever answered wrongly.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "executor/upkeep/host_upkeep.h"
#include "items/poison.h"
#include "models/change_log.h"
#include "models/held_keys.h"
#include "models/history.h"

namespace isotherm::cache_store_test {
namespace {

constexpr uint64_t cap = 64 << 20;

// With an index of so many bytes for each item of the cap: `one_part` leaves one part of it.
constexpr uint64_t one_part = cap;

Options options_of(IndexChoice index, uint64_t item_bytes) {
  Options options;
  options.maxmemory = cap;
  options.maxmemory_policy = EvictionPolicy::allkeys_lru;
  options.databases = 2;
  options.max_value_bytes = 50'000;
  options.hash_seed = 1;
  options.index = index;
  options.index_item_bytes = item_bytes;
  return options;
}

std::string key(uint64_t number) { return "key:" + std::to_string(number); }

class CacheStoreTest : public ::testing::TestWithParam<IndexChoice> {
 protected:
  void open(uint64_t item_bytes) {
    worker.reset();
    engine = std::make_unique<Engine>(options_of(GetParam(), item_bytes), clock);
    worker = std::make_unique<Worker>(*engine);
  }
  Status put(const std::string& name, std::string_view value, int64_t expiry = no_expiry) {
    Batch batch;
    batch.put(name, value, 0, expiry);
    worker->submit(batch);
    return batch.reply(0).status;
  }
  std::string get(const std::string& name, uint16_t options = 0) {
    Batch batch;
    batch.get(name, options);
    worker->submit(batch);
    const Reply& reply = batch.reply(0);
    return reply.status == Status::ok ? std::string(reply.value()) : "(absent)";
  }
  // Puts so many keys, and returns those of them that are there.
  std::set<uint64_t> fill(uint64_t from, uint64_t count) {
    for (uint64_t i = from; i < from + count; ++i) {
      EXPECT_EQ(put(key(i), std::to_string(i)), Status::ok);
    }
    return present(from, count);
  }
  std::set<uint64_t> present(uint64_t from, uint64_t count) {
    std::set<uint64_t> all;
    for (uint64_t i = from; i < from + count; ++i) {
      const std::string value = get(key(i), option::no_touch);
      if (value == "(absent)") continue;
      EXPECT_EQ(value, std::to_string(i));
      all.insert(i);
    }
    return all;
  }
  std::set<std::string> walked() {
    std::set<std::string> keys;
    uint64_t cursor = 0;
    do {
      cursor = worker->scan(0, cursor, 10, [&](const ScanItem& item) {
        EXPECT_TRUE(keys.insert(std::string(item.key)).second) << item.key << " twice";
      });
    } while (cursor != 0);
    return keys;
  }

  ManualClock clock{1'700'000'000'000};
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Worker> worker;
};

INSTANTIATE_TEST_SUITE_P(Kinds, CacheStoreTest,
                         ::testing::Values(IndexChoice::cuckoo, IndexChoice::set),
                         [](const auto& its) { return std::string(to_string(its.param)); });

TEST_P(CacheStoreTest, HasRoomForWhatTheCapHolds) {
  open(128);
  fill(0, 1);
  const EngineStats stats = engine->stats();
  EXPECT_NEAR(static_cast<double>(stats.index_room), cap / (128.0 + 24), cap / (128.0 + 24) * .02);
  EXPECT_LT(stats.index_bytes, cap / 5);
  EXPECT_GT(stats.index_bytes, cap / 8);
  // That of another database is made for what is left.
  Batch batch;
  batch.select(1);
  batch.put("key", "value");
  worker->submit(batch);
  EXPECT_GT(engine->stats().index_room, stats.index_room * 18 / 10);
  EXPECT_LT(engine->stats().index_room, stats.index_room * 19 / 10);
}

TEST_P(CacheStoreTest, EvictsWhereItIsFullAndCountsIt) {
  open(one_part);
  fill(0, 1);
  const uint64_t room = engine->stats().index_room;
  const std::set<uint64_t> left = fill(0, room * 3);
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.index_evicted, stats.evicted);
  EXPECT_EQ(worker->count(0), left.size());
  EXPECT_EQ(left.size() + stats.evicted, room * 3);
  EXPECT_LE(left.size(), room);
  EXPECT_GT(left.size(), room * 9 / 10);
  EXPECT_EQ(walked().size(), left.size());
  EXPECT_LT(stats.used_memory, cap / 2) << "it was not for want of memory";
  worker->flush(0);
  EXPECT_EQ(worker->count(0), 0u);
  EXPECT_EQ(walked().size(), 0u);
  for (int i = 0; i < 100; ++i) worker->maintain();
  EXPECT_EQ(fill(0, 10).size(), 10u);
}

// What was read of late stays longer than what was not, unless a read says that it is no use.
TEST_P(CacheStoreTest, KeysThatAreReadStayLonger) {
  for (const uint16_t how : {uint16_t{0}, option::no_touch}) {
    open(one_part);
    fill(0, 1);
    const uint64_t room = engine->stats().index_room;
    std::set<uint64_t> read, others;
    for (const uint64_t number : fill(0, room)) {
      (read.size() * 4 < room ? read : others).insert(number);
    }
    for (uint64_t i = 0; i < room / 2; ++i) {
      if (i % 4 == 0) {
        for (const uint64_t number : read) get(key(number), how);
      }
      ASSERT_EQ(put(key(1000 + i), std::to_string(1000 + i)), Status::ok);
    }
    const auto share = [&](const std::set<uint64_t>& of) {
      uint64_t left = 0;
      for (const uint64_t number : of) left += present(number, 1).size();
      return static_cast<double>(left) / static_cast<double>(of.size());
    };
    if (how == 0) {
      EXPECT_GT(share(read), share(others) + .4);
    } else {
      EXPECT_LT(share(read), share(others) + .3);
    }
  }
}

TEST_P(CacheStoreTest, PutsOfABatchTakeEffectInTheirOrder) {
  open(one_part);
  Batch batch;
  std::vector<std::string> values;
  for (uint64_t i = 0; i < 300; ++i) values.push_back(std::to_string(i));
  for (uint64_t i = 0; i < 300; ++i) batch.put(i % 3 == 0 ? "one" : "two", values[i]);
  batch.get("one");
  batch.get("two");
  worker->submit(batch);
  EXPECT_EQ(batch.reply(300).value(), "297");
  EXPECT_EQ(batch.reply(301).value(), "299");
}

// Walks pass over parts without entries.
TEST_P(CacheStoreTest, WalksOfALargeIndexWithFewKeysAreShort) {
  open(32);
  fill(0, 3);
  uint64_t count = 0;
  EXPECT_EQ(worker->scan(0, 0, 10, [&](const ScanItem&) { ++count; }), 0u);
  EXPECT_EQ(count, 3u);
}

TEST_P(CacheStoreTest, WalksShowEachKeyOnce) {
  open(2000);
  const std::set<uint64_t> left = fill(0, 5000);
  std::set<std::string> expected;
  for (const uint64_t number : left) expected.insert(key(number));
  EXPECT_EQ(walked(), expected);
}

// What expires goes without being asked for, and its entry with it.
TEST_P(CacheStoreTest, ExpiredItemsGo) {
  open(2000);
  for (uint64_t i = 0; i < 1000; ++i) {
    put(key(i), std::to_string(i), i % 2 == 0 ? no_expiry : clock.now_ms() + 50);
  }
  EXPECT_EQ(get(key(1)), "1");
  clock.advance(50);
  EXPECT_EQ(get(key(1)), "(absent)");
  for (int i = 0; i < 200; ++i) worker->maintain();
  EXPECT_EQ(worker->count(0), 500u);
  EXPECT_EQ(engine->database(0).expires, 0u);
  EXPECT_EQ(engine->stats().evicted, 0u);
}

// The cap evicts, too: items larger than the index was made for, whose sizes change so that they
// are moved.
TEST_P(CacheStoreTest, MemoryStaysAtTheCap) {
  Options options = options_of(GetParam(), 64);
  options.maxmemory = 12 << 20;
  engine = std::make_unique<Engine>(options, clock);
  worker = std::make_unique<Worker>(*engine);
  std::mt19937_64 random(1);
  for (int i = 0; i < (poison::sanitized ? 3000 : 15'000); ++i) {
    const uint64_t bytes = i / 2000 % 2 == 0 ? 1000 + random() % 1000 : 4000 + random() % 4000;
    const std::string name = key(random() % 20'000);
    ASSERT_EQ(put(name, std::string(bytes, 'v')), Status::ok) << i;
    if (i % 8 == 0) worker->maintain();
    ASSERT_LE(engine->stats().used_memory, options.maxmemory * 115 / 100);
  }
  EXPECT_GT(engine->stats().evicted, engine->stats().index_evicted);
}

// A sink is told of every item that the index evicts, before anybody can miss it.
TEST_P(CacheStoreTest, EvictedItemsAreToldInOrder) {
  open(one_part);
  ChangeLog log;
  engine->set_commit_sink(&log);
  engine->set_demotion_hook(&log);
  uint64_t kept = 0;
  log.fate = [&](const Item& item) {
    const bool stays = item.key().ends_with('7');
    kept += stays ? 1 : 0;
    return stays ? DemotionHook::Fate::kept : DemotionHook::Fate::dropped;
  };
  History history({.keys = 4000, .max_value_bytes = 50'000, .may_evict = true, .has_cap = true});
  for (int i = 0; i < 120 && !HasFailure(); ++i) {
    history.step(clock.now_ms(), [&](Batch& batch) { worker->submit(batch); });
    worker->maintain();
    if (i % 3 == 0) clock.advance(15);
  }
  EXPECT_GT(log.count(ItemChange::Reason::evicted), 20u);
  EXPECT_GT(kept, 0u);
  log.compare(*engine);
  engine->set_commit_sink(nullptr);
  engine->set_demotion_hook(nullptr);
}

// Keys of which a group has shown that they are there stay, whoever needs room; and where all that
// could go have to stay, there is none.
TEST_P(CacheStoreTest, KeysThatAGroupHasStay) {
  for (const bool all : {false, true}) {
    open(one_part);
    fill(0, 1);
    const uint64_t room = engine->stats().index_room;
    std::vector<std::string> held;
    for (const uint64_t number : fill(0, room * 2)) {
      if (all || held.size() * 4 < room * 3) held.push_back(key(number));
    }
    HeldKeys group(*engine, held);
    // Rows that count as rows on the group's keys wait for it, all others run.
    std::vector<std::string> names;
    for (uint64_t i = 0; i < room * 2; ++i) names.push_back(key(10'000 + i));
    Batch batch;
    for (const std::string& name : names) batch.put(name, "x");
    worker->start(batch);
    group.let_go();
    worker->wait_for(batch);
    for (size_t i = 0; i < held.size(); ++i) EXPECT_TRUE(group.found(i)) << held[i];
    uint64_t refused = 0;
    for (Batch::Row row = 0; row < batch.size(); ++row) {
      const Status status = batch.reply(row).status;
      refused += status == Status::out_of_memory ? 1 : 0;
      ASSERT_TRUE(status == Status::ok || status == Status::out_of_memory);
    }
    if (all) {
      EXPECT_GT(refused, room);
    } else {
      EXPECT_LT(refused, room / 8);
    }
    batch.clear();
    EXPECT_EQ(put("another", "x"), Status::ok);
    EXPECT_EQ(get("another"), "x");
  }
}

// A group that needs more room than there is evicts keys of its own.
TEST_P(CacheStoreTest, AGroupMayEvictItsOwnKeys) {
  open(one_part);
  Batch batch;
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < 2000; ++i) keys.push_back(key(i));
  for (const std::string& name : keys) batch.put(name, "x");
  batch.group(0);
  worker->submit(batch);
  for (Batch::Row row = 0; row < batch.size(); ++row) {
    ASSERT_EQ(batch.reply(row).status, Status::ok);
  }
  batch.clear();
  EXPECT_EQ(get(key(1999)), "x");
}

// Whoever has found an item reads it until the end of its batch, evicted or not (MemcachedGPU,
// section 4.3). Where the rule "evicting" (base/broken.h) is broken, this fails.
TEST_P(CacheStoreTest, WhatWasReadStaysReadable) {
  open(one_part);
  const std::set<uint64_t> left = fill(0, 100);
  Worker other(*engine);
  Batch reads;
  std::vector<std::string> keys;
  for (const uint64_t number : left) keys.push_back(key(number));
  for (const std::string& name : keys) reads.get(name);
  other.submit(reads);
  uint64_t gone = 0;
  for (uint64_t i = 0; gone < keys.size() && i < 10'000; i += 100) {
    fill(1000 + i, 100);
    worker->maintain();
    gone = left.size() - present(0, 100).size();
  }
  EXPECT_GT(gone, left.size() / 2);
  Batch::Row row = 0;
  for (const uint64_t number : left) EXPECT_EQ(reads.reply(row++).value(), std::to_string(number));
}

// Values say whose they are, and the how manieth of their key. Each key has one writer, so nobody
// may be shown a value of another key, or one older than he has been shown already.
class Churn {
 public:
  explicit Churn(Engine& engine) : engine_(engine) {
    for (uint64_t i = 0; i < keys; ++i) names_.push_back(key(i));
  }

  void run(uint64_t rounds) {
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < writers; ++i) threads.emplace_back([=, this] { write(i, rounds); });
    for (uint64_t i = 0; i < readers; ++i) threads.emplace_back([=, this] { read(i, rounds); });
    for (std::thread& thread : threads) thread.join();
  }
  uint64_t bad() const { return bad_; }
  uint64_t hits() const { return hits_; }

 private:
  static constexpr uint64_t keys = 1200;
  static constexpr uint64_t writers = 2;
  static constexpr uint64_t readers = 2;
  static constexpr uint64_t rows = 50;

  static std::string value_of(uint64_t key, uint64_t put) {
    const uint64_t word[2] = {key, put};
    std::string value;
    for (uint64_t i = 0; i < 1 + put % 40; ++i) {
      value.append(reinterpret_cast<const char*>(word), sizeof word);
    }
    return value;
  }
  // The number of the put; 0: it is damaged.
  static uint64_t put_of(uint64_t key, std::string_view value) {
    uint64_t word[2] = {};
    if (value.size() < sizeof word) return 0;
    std::memcpy(word, value.data(), sizeof word);
    return value == value_of(key, word[1]) ? word[1] : 0;
  }

  void write(uint64_t number, uint64_t rounds) {
    Worker worker(engine_);
    std::mt19937_64 random(number);
    std::vector<uint64_t> puts(keys);
    for (uint64_t round = 0; round < rounds && bad_ == 0; ++round) {
      Batch batch;
      std::vector<std::string> values;
      std::vector<uint64_t> chosen;
      for (uint64_t i = 0; i < rows; ++i) {
        chosen.push_back(random() % (keys / writers) * writers + number);
        values.push_back(value_of(chosen.back(), ++puts[chosen.back()]));
      }
      for (uint64_t i = 0; i < rows; ++i) {
        if (random() % 16 == 0) batch.erase(names_[chosen[i]]);
        batch.put(names_[chosen[i]], values[i]);
      }
      const Batch::Row first = batch.size();
      for (const uint64_t one : chosen) batch.get(names_[one]);
      worker.submit(batch);
      // Its own last value, or none.
      for (uint64_t i = 0; i < rows; ++i) {
        const Reply& reply = batch.reply(first + static_cast<Batch::Row>(i));
        if (reply.status != Status::ok) continue;
        bad_ += put_of(chosen[i], reply.value()) == puts[chosen[i]] ? 0 : 1;
      }
      batch.clear();
      worker.maintain();
    }
  }

  void read(uint64_t number, uint64_t rounds) {
    Worker worker(engine_);
    std::mt19937_64 random(100 + number);
    std::vector<uint64_t> seen(keys);
    for (uint64_t round = 0; round < rounds && bad_ == 0; ++round) {
      Batch batch;
      std::vector<uint64_t> chosen;
      std::vector<std::string> shown;
      for (uint64_t i = 0; i < rows; ++i) chosen.push_back(random() % keys);
      for (const uint64_t one : chosen) batch.get(names_[one]);
      worker.submit(batch);
      for (uint64_t i = 0; i < rows; ++i) {
        const Reply& reply = batch.reply(static_cast<Batch::Row>(i));
        shown.emplace_back(reply.value());
        if (reply.status != Status::ok) continue;
        ++hits_;
        const uint64_t put = put_of(chosen[i], reply.value());
        bad_ += put < std::max<uint64_t>(seen[chosen[i]], 1) ? 1 : 0;
        seen[chosen[i]] = put;
      }
      if (round % 16 == 0) std::this_thread::yield();  // others evict what it has found
      for (uint64_t i = 0; i < rows; ++i) {
        bad_ += batch.reply(static_cast<Batch::Row>(i)).value() == shown[i] ? 0 : 1;
      }
      batch.clear();
      worker.maintain();
    }
  }

  Engine& engine_;
  std::vector<std::string> names_;
  std::atomic<uint64_t> bad_{0};
  std::atomic<uint64_t> hits_{0};
};

TEST_P(CacheStoreTest, NothingIsAnsweredWronglyUnderChurn) {
  open(one_part);
  Churn churn(*engine);
  churn.run(poison::sanitized ? 100 : 500);
  EXPECT_EQ(churn.bad(), 0u);
  EXPECT_GT(churn.hits(), 0u);
  EXPECT_GT(engine->stats().index_evicted, 1000u);
}

// Few hashes, each of several keys: what an entry leads to goes as a whole.
uint64_t few_hashes(std::string_view key, uint64_t seed) {
  return hash_bytes(std::to_string(hash_bytes(key, seed) % 1500), seed);
}

TEST_P(CacheStoreTest, KeysWhoseHashesAgreeAreToldApart) {
  HostStore store(options_of(GetParam(), one_part), 1, few_hashes);
  ChangeLog log;
  store.sink = &log;
  const TakenSlot taken(store.epochs);
  HostExecutor executor(store);
  HostUpkeep upkeep(executor, *taken.slot);
  History history({.keys = 6000, .max_value_bytes = 50'000, .may_evict = true, .has_cap = true});
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    {
      const EpochGuard guard(store.epochs, *taken.slot);
      history.step(clock.now_ms(), [&](Batch& batch) {
        const CommitSink::Begun begun = log.begins(batch);
        executor.set_token(begun.token);
        executor.run(batch, clock.now_ms(), true);
        log.ends(begun.token);
      });
    }
    upkeep.step(200, clock.now_ms());
    clock.advance(5);
  }
  EXPECT_EQ(log.errors(), std::vector<std::string>{});
  EXPECT_GT(log.count(ItemChange::Reason::evicted), 20u);
  EXPECT_GT(executor.counters().index_evicted.get(), 20u);
}

TEST(CacheStoreOptions, WhatDoesNotFitIsRefused) {
  const ManualClock clock{1000};
  const auto refused = [&](auto change) {
    Options options = options_of(IndexChoice::set, 128);
    change(options);
    EXPECT_THROW(Engine(options, clock), std::invalid_argument);
  };
  refused([](Options& its) { its.maxmemory = 0; });
  refused([](Options& its) { its.maxmemory_policy = EvictionPolicy::noeviction; });
  refused([](Options& its) { its.maxmemory_policy = EvictionPolicy::volatile_lru; });
  refused([](Options& its) { its.maxmemory_policy = EvictionPolicy::volatile_ttl; });
  refused([](Options& its) { its.index_item_bytes = 15; });
  refused([](Options& its) { its.device = DeviceChoice::automatic; });
  refused([](Options& its) { its.tree = "/nowhere"; });
  refused([](Options& its) { its.router.choice = RouterChoice::budget; });
}

}  // namespace
}  // namespace isotherm::cache_store_test
