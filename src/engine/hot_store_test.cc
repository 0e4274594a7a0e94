// A store with a router: hot keys are found by their table, and whatever becomes hot or cold when,
// every answer is right.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "fake_device/fake_root_table.h"
#include "items/poison.h"
#include "models/change_log.h"
#include "models/pile.h"

namespace isotherm::hot_store_test {
namespace {

class HotStoreTest : public ::testing::Test {
 protected:
  static Options flapping(uint32_t bins) {
    Options options;
    options.databases = 2;
    options.router = {
        .choice = RouterChoice::chance, .bins = bins, .memory = 128 << 10, .interval_ms = 1};
    return options;
  }
  // Bins that have cooled before a test that lets them flap is content.
  static constexpr uint64_t enough = poison::sanitized ? 20 : 60;
  bool flapped() const { return engine->stats().hot.cooled >= enough; }

  static std::string key(uint64_t number) { return "key:" + std::to_string(number); }
  std::string get(Worker& worker, const std::string& name, uint32_t database = 0) {
    Batch batch;
    batch.select(database);
    batch.get(name);
    worker.submit(batch);
    const Reply& reply = batch.reply(0);
    return reply.status == Status::ok ? std::string(reply.data, reply.size) : std::string();
  }
  void put(Worker& worker, const std::string& name, const std::string& value,
           uint32_t database = 0) {
    Batch batch;
    batch.select(database);
    batch.put(name, value);
    worker.submit(batch);
    ASSERT_EQ(batch.reply(0).status, Status::ok);
  }
  bool erase(Worker& worker, const std::string& name) {
    Batch batch;
    batch.erase(name);
    worker.submit(batch);
    return batch.reply(0).status == Status::ok;
  }

  ManualClock clock{1'700'000'000'000};
  std::unique_ptr<Engine> engine;
};

TEST_F(HotStoreTest, KeysThatAreAskedForOftenAreServedByTheirTable) {
  for (const RouterChoice choice : {RouterChoice::histogram, RouterChoice::budget}) {
    Options options;
    options.router = {
        .choice = choice, .bins = 1024, .memory = 1 << 20, .threshold = .01, .interval_ms = 1};
    engine = std::make_unique<Engine>(options, clock);
    Worker worker(*engine);
    for (uint64_t i = 0; i < 1000; ++i) put(worker, key(i), key(i));
    std::vector<std::string> keys;
    for (uint64_t i = 0; i < 512; ++i) keys.push_back(key(i % 8));
    Batch batch;
    while (engine->stats().fast_hits == 0) {
      for (const std::string& name : keys) batch.get(name);
      worker.submit(batch);
      for (Batch::Row row = 0; row < batch.size(); ++row) {
        ASSERT_EQ(std::string_view(batch.reply(row).data, batch.reply(row).size), keys[row]);
      }
      batch.clear();
    }
    const EngineStats stats = engine->stats();
    EXPECT_GT(stats.hot.trainings, 0u);
    EXPECT_GT(stats.hot.share_hot, .9);
    const uint64_t hot = stats.hot.bins[2];
    EXPECT_GE(hot, 1u);
    if (choice == RouterChoice::histogram) {
      EXPECT_LE(hot, 8u);
    }
    EXPECT_GT(stats.hot.bytes, stats.hot.table_bytes);
    EXPECT_LE(stats.hot.bytes, options.router.memory);
    EXPECT_GE(stats.used_memory, stats.hot.bytes);
  }
}

TEST_F(HotStoreTest, EveryAnswerIsRightWhileBinsFlap) {
  engine = std::make_unique<Engine>(flapping(4), clock);
  Worker worker(*engine);
  std::map<std::string, std::string> model;
  std::mt19937_64 random(1);
  // Only full windows of look-ups into the fast part are counted.
  for (uint64_t i = 0; !flapped() || engine->stats().fast_looks == 0 || i < 10'000; ++i) {
    const std::string name = key(random() % 100);
    const auto at = model.find(name);
    switch (random() % 4) {
      case 0:
        put(worker, name, std::to_string(i));
        model[name] = std::to_string(i);
        break;
      case 1:
        ASSERT_EQ(erase(worker, name), at != model.end());
        if (at != model.end()) model.erase(at);
        break;
      default:
        ASSERT_EQ(get(worker, name), at != model.end() ? at->second : std::string());
    }
    if (i % 64 == 0) worker.maintain();
  }
  EXPECT_EQ(worker.count(0), model.size());
  EXPECT_GT(engine->stats().fast_looks, 0u);
}

// The items of a flush are freed, and their memory used again, while the table still names them.
TEST_F(HotStoreTest, NothingIsFoundAfterAFlush) {
  engine = std::make_unique<Engine>(flapping(4), clock);
  Worker worker(*engine);
  for (uint64_t round = 1; !flapped() || engine->stats().fast_hits == 0; ++round) {
    for (uint64_t i = 0; i < 50; ++i) {
      ASSERT_EQ(get(worker, key(i)), "");
      put(worker, key(i), std::to_string(round));
      put(worker, key(i), std::to_string(round + 1), 1);
      ASSERT_EQ(get(worker, key(i)), std::to_string(round));
    }
    worker.flush(0);
    for (int i = 0; i < 20; ++i) worker.maintain();
    for (uint64_t i = 0; i < 50; ++i) {
      ASSERT_EQ(get(worker, key(i), 1), std::to_string(round + 1));
    }
    if (round % 8 == 0) worker.flush(1);
  }
}

TEST_F(HotStoreTest, ExpiredKeysAreGoneHotOrCold) {
  engine = std::make_unique<Engine>(flapping(4), clock);
  Worker worker(*engine);
  for (uint64_t round = 1; !flapped(); ++round) {
    Batch batch;
    std::vector<std::string> keys;
    for (uint64_t i = 0; i < 50; ++i) keys.push_back(key(i));
    for (const std::string& name : keys) batch.put(name, "v", 0, clock.now_ms() + 10);
    worker.submit(batch);
    for (const std::string& name : keys) ASSERT_EQ(get(worker, name), "v");
    clock.advance(10);
    // Half of the rounds by the sweep, the others by whoever asks.
    if (round % 2 == 0) {
      for (int i = 0; i < 20; ++i) worker.maintain();
    }
    for (const std::string& name : keys) ASSERT_EQ(get(worker, name), "");
  }
}

// Threads add to few counters, and write what the others read: no sum loses an addition, and nobody
// reads what is older than what he has seen written.
TEST_F(HotStoreTest, NoUpdateIsLostAndNoneIsReadLateByThreads) {
  engine = std::make_unique<Engine>(flapping(8), clock);
  constexpr uint64_t thread_count = 4;
  constexpr uint64_t counters = 3;
  std::array<std::atomic<uint64_t>, counters> added{};
  std::array<std::atomic<uint64_t>, thread_count> written{};
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < thread_count; ++thread) {
    threads.emplace_back([&, thread] {
      Worker worker(*engine);
      const std::string own = key(thread);
      for (uint64_t round = 1; !flapped() || round < 500; ++round) {
        const std::string counter = "counter:" + std::to_string(round % counters);
        const std::string value = std::to_string(round);
        Batch batch;
        batch.add(counter, 1);
        if (round % 5 == 0) batch.erase(own);
        batch.put(own, value);
        batch.get(own);
        worker.submit(batch);
        ASSERT_EQ(batch.reply(0).status, Status::ok);
        const Reply& mine = batch.reply(batch.size() - 1);
        ASSERT_EQ(mine.status, Status::ok);
        ASSERT_EQ(std::string_view(mine.data, mine.size), value);
        batch.clear();
        added[round % counters].fetch_add(1);
        written[thread].store(round);
        const uint64_t other = (thread + round) % thread_count;
        const uint64_t before = written[other].load();
        const std::string theirs = get(worker, key(other));
        // Absent for a moment, between an erase and a put.
        if (!theirs.empty()) {
          ASSERT_GE(std::stoull(theirs), before);
        }
        if (round % 16 == 0) worker.maintain();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Worker worker(*engine);
  for (uint64_t i = 0; i < counters; ++i) {
    EXPECT_EQ(get(worker, "counter:" + std::to_string(i)), std::to_string(added[i].load()));
  }
}

// Each change is compared with the one before it, so one that went to the wrong place is an error:
// of strings and objects, alone and in groups, by requests, sweeps, flushes and compaction.
TEST_F(HotStoreTest, WhoIsToldOfChangesHasTheStoreWhileBinsFlap) {
  engine = std::make_unique<Engine>(flapping(8), clock);
  ChangeLog log;
  engine->set_commit_sink(&log);
  constexpr std::string_view parts[] = {"part"};
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      Worker worker(*engine);
      std::mt19937_64 random(thread + 1);
      for (uint64_t round = 1; !flapped() || round < 300; ++round) {
        const std::string name = key(random() % 20);
        const std::string other = key(random() % 20);
        const std::string value(random() % 200, 'v');
        Batch batch;
        batch.select(static_cast<uint32_t>(random() % 2));
        switch (random() % 8) {
          case 0:
            batch.erase(name);
            break;
          case 1:
            batch.put(name, value, 0, clock.now_ms() + static_cast<int64_t>(random() % 3));
            break;
          case 2:
          case 3:
            batch.call(name, pile::push, parts);
            break;
          case 4:
            batch.call(name, pile::pop);
            break;
          case 5:
            batch.put(name, value);
            batch.put(other, value);
            batch.group(0);
            break;
          case 6:
            batch.append(name, "x");
            break;
          default:
            batch.put(name, value);
        }
        batch.get(other, option::any_type);
        worker.submit(batch);
        batch.clear();
        if (thread == 0 && round % 64 == 0) worker.flush(1);
        if (thread == 1 && round % 16 == 0) clock.advance(1);
        worker.maintain();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  log.compare(*engine);
  engine.reset();
  EXPECT_EQ(Pile::there_are(), 0);
}

TEST_F(HotStoreTest, TakesItsShareOfASmallCap) {
  Options options;
  options.maxmemory = 8 << 20;
  options.maxmemory_policy = EvictionPolicy::allkeys_lru;
  options.router.choice = RouterChoice::budget;
  engine = std::make_unique<Engine>(options, clock);
  EXPECT_GT(engine->stats().hot.bytes, 0u);
  EXPECT_LE(engine->stats().hot.bytes, options.maxmemory / 8);
  Worker worker(*engine);
  for (uint64_t i = 0; i < 20'000; ++i) put(worker, key(i), std::string(500, 'v'));
  EXPECT_LE(engine->used_memory(), options.maxmemory + (1 << 20));
  EXPECT_GT(engine->stats().evicted, 0u);
}

// A server that was begun without a cap, or with a large one, has as many bins as the options say.
TEST_F(HotStoreTest, GivesItsMemoryBackWhenTheCapIsLowered) {
  for (const RouterChoice choice : {RouterChoice::histogram, RouterChoice::budget}) {
    Options options;
    options.maxmemory_policy = EvictionPolicy::allkeys_lru;
    options.router.choice = choice;
    options.router.interval_ms = 1;
    engine = std::make_unique<Engine>(options, clock);
    const uint64_t bytes_before = engine->stats().hot.bytes;
    Worker worker(*engine);
    constexpr uint64_t keys = 2000;
    const auto put_all = [&] {
      for (uint64_t i = 0; i < keys; ++i) put(worker, key(i), key(i));
    };
    put_all();
    std::vector<std::string> names;
    // Fewer at a time, where each takes long.
    constexpr uint64_t at_once = poison::sanitized ? keys / 4 : keys;
    for (uint64_t i = 0; i < at_once; ++i)
      names.push_back(key(i % 2 == 0 ? i * (keys / at_once) : i % 8));
    Batch batch;
    const auto ask = [&] {
      batch.clear();
      for (const std::string& name : names) batch.get(name);
      worker.submit(batch);
      for (Batch::Row row = 0; row < batch.size(); ++row) {
        ASSERT_EQ(std::string_view(batch.reply(row).data, batch.reply(row).size), names[row]);
      }
    };
    // Whether it becomes so while keys are asked for.
    const auto comes = [&](const auto& condition) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
      while (!condition() && !HasFatalFailure() && std::chrono::steady_clock::now() < end) ask();
      return condition();
    };
    ASSERT_TRUE(comes([&] { return engine->stats().fast_hits > 0; }));
    for (const uint64_t cap : {uint64_t{8} << 20, uint64_t{3} << 20}) {
      engine->set_policy(EvictionPolicy::noeviction);
      engine->set_maxmemory(cap);
      ASSERT_TRUE(comes([&] { return engine->stats().hot.bytes <= cap / 8 * 5; }));
      engine->set_policy(EvictionPolicy::allkeys_lru);
      put_all();
      ask();
      EXPECT_LE(engine->used_memory(), cap);
    }
    // Which keys are hot is learned anew, by fewer bins, and by as many as before.
    uint64_t hits = engine->stats().fast_hits;
    ASSERT_TRUE(comes([&] { return engine->stats().fast_hits > hits; }));
    engine->set_maxmemory(0);
    ASSERT_TRUE(comes([&] { return engine->stats().hot.bytes >= bytes_before / 8 * 7; }));
    hits = engine->stats().fast_hits;
    ASSERT_TRUE(comes([&] { return engine->stats().fast_hits > hits; }));
  }
}

TEST_F(HotStoreTest, OptionsThatCannotBeAreRefused) {
  const auto refuses = [&](const Options& options) {
    EXPECT_THROW(Engine(options, clock), std::invalid_argument);
  };
  Options options;
  options.router.choice = RouterChoice::budget;
  for (const DeviceChoice device : {DeviceChoice::cuda, DeviceChoice::automatic}) {
    Options other = options;
    other.device = device;
    refuses(other);
  }
  options.index = IndexChoice::set;
  refuses(options);
  options.index = IndexChoice::line;
  FakeDevice device{1, uint64_t{1} << 28};
  EXPECT_THROW(Engine(options, clock, fake_root_tiers_maker(device)), std::invalid_argument);
  for (const auto break_it : {+[](RouterOptions& router) { router.bins = 0; },
                              +[](RouterOptions& router) { router.bins = (1 << 24) + 1; },
                              +[](RouterOptions& router) { router.memory = 1; },
                              +[](RouterOptions& router) { router.threshold = 2; },
                              +[](RouterOptions& router) { router.interval_ms = 0; }}) {
    Options other = options;
    break_it(other.router);
    refuses(other);
  }
}

}  // namespace
}  // namespace isotherm::hot_store_test
