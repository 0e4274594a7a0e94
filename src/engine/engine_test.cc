// What an engine promises beside the answers: limits, the gate, replies that stay, memory that
// comes back.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "items/poison.h"

namespace isotherm::engine_test {
namespace {

class EngineTest : public ::testing::Test {
 protected:
  static std::string key(uint64_t number) { return "key:" + std::to_string(number); }

  // Puts `count` keys from `from` on, each with a value of so many bytes.
  static void fill(Worker& worker, uint64_t from, uint64_t count, uint64_t value_bytes) {
    const std::string value(value_bytes, 'v');
    Batch batch;
    std::vector<std::string> keys(100);
    for (uint64_t i = from; i < from + count; i += keys.size()) {
      for (uint64_t j = 0; j < keys.size() && i + j < from + count; ++j) {
        keys[j] = key(i + j);
        batch.put(keys[j], value);
      }
      worker.submit(batch);
      for (Batch::Row row = 0; row < batch.size(); ++row) {
        ASSERT_EQ(batch.reply(row).status, Status::ok);
      }
      batch.clear();
      worker.maintain();
    }
  }
  static Status put(Worker& worker, std::string_view key, std::string_view value) {
    Batch batch;
    batch.put(key, value);
    worker.submit(batch);
    const Status status = batch.reply(0).status;
    batch.clear();
    return status;
  }

  ManualClock clock{1000};
};

TEST_F(EngineTest, RefusesOptionsOutOfRange) {
  for (const uint32_t databases : {0u, 16'385u}) {
    Options options;
    options.databases = databases;
    EXPECT_THROW(Engine(options, clock), std::invalid_argument);
  }
  Options options;
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1} << 32}) {
    options.max_value_bytes = bytes;
    EXPECT_THROW(Engine(options, clock), std::invalid_argument);
  }
  std::array<Options, 4> of_no_name;
  of_no_name[0].maxmemory_policy = static_cast<EvictionPolicy>(99);
  of_no_name[1].device = static_cast<DeviceChoice>(99);
  of_no_name[2].index = static_cast<IndexChoice>(99);
  of_no_name[3].router.choice = static_cast<RouterChoice>(99);
  for (const Options& one : of_no_name) EXPECT_THROW(Engine(one, clock), std::invalid_argument);
  options.max_value_bytes -= 1;
  options.databases = 16'384;
  EXPECT_NO_THROW(Engine(options, clock));
  Options with_values;
  with_values.gpu_values = 1 << 20;
  EXPECT_THROW(Engine(with_values, clock), std::invalid_argument);
}

TEST_F(EngineTest, ADatabaseOutOfRangeIsInvalid) {
  Options options;
  options.databases = 2;
  Engine engine(options, clock);
  Worker worker(engine);
  Batch batch;
  batch.get("key");
  batch.select(2);
  batch.put("key", "value");
  bool done = false;
  batch.on_done([](Batch&, void* context) { *static_cast<bool*>(context) = true; }, &done);
  worker.submit(batch);
  EXPECT_EQ(batch.reply(0).status, Status::invalid);
  EXPECT_EQ(batch.reply(1).status, Status::invalid);
  EXPECT_TRUE(done);
  batch.clear();
  EXPECT_EQ(worker.count(0), 0u);
}

TEST_F(EngineTest, GroupsAndFlushesMayRunWhileRepliesAreHeld) {
  Engine engine({}, clock);
  Worker worker(engine);
  Batch held;
  held.put("key", "old");
  held.get("key");
  worker.submit(held);
  Batch group;
  group.put("key", "value");
  group.group(0);
  worker.submit(group);
  EXPECT_EQ(group.reply(0).status, Status::ok);
  worker.flush_all();
  worker.maintain();
  EXPECT_EQ(held.reply(1).value(), "old");
  held.clear();
  group.clear();
  EXPECT_EQ(worker.count(0), 0u);
}

TEST_F(EngineTest, AnEmptyBatchIsDoneAtOnce) {
  Engine engine({}, clock);
  Worker worker(engine);
  Batch batch;
  int done = 0;
  batch.on_done([](Batch&, void* context) { ++*static_cast<int*>(context); }, &done);
  worker.submit(batch);
  batch.clear();
  EXPECT_EQ(done, 1);
  worker.flush_all();  // nobody has any key
}

TEST_F(EngineTest, OneBatchMayBeLarge) {
  Engine engine({}, clock);
  Worker worker(engine);
  constexpr uint64_t count = poison::sanitized ? 50'000 : 300'000;
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < count; ++i) keys.push_back(key(i));
  Batch batch;
  for (const std::string& name : keys) batch.put(name, name);
  for (const std::string& name : keys) batch.get(name);
  worker.submit(batch);
  for (uint32_t i = 0; i < count; ++i) {
    ASSERT_EQ(batch.reply(i).status, Status::ok);
    ASSERT_EQ(batch.reply(count + i).value(), keys[i]);
  }
  batch.clear();
  while (worker.maintain()) {
  }
  EXPECT_EQ(worker.count(0), count);
  EXPECT_EQ(engine.stats().requests, 2 * count);
  EXPECT_EQ(engine.stats().hits, count);
}

TEST_F(EngineTest, ACountOverThreadsAddsUp) {
  Engine engine({}, clock);
  constexpr int64_t rounds = poison::sanitized ? 2000 : 20'000;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      Worker worker(engine);
      Batch batch;
      for (int64_t j = 0; j < rounds; ++j) {
        batch.add("one", 1);
        batch.add("two", 2);
        worker.submit(batch);
        batch.clear();
        worker.maintain();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Worker worker(engine);
  Batch batch;
  batch.get("one");
  batch.get("two");
  worker.submit(batch);
  EXPECT_EQ(batch.reply(0).value(), std::to_string(3 * rounds));
  EXPECT_EQ(batch.reply(1).value(), std::to_string(6 * rounds));
}

// Groups are seen by views whole or not at all, as are flushes.
TEST_F(EngineTest, GroupsAreSeenWhole) {
  Engine engine({}, clock);
  constexpr int keys = 40;
  std::vector<std::string> names;
  for (int i = 0; i < keys; ++i) names.push_back(key(static_cast<uint64_t>(i)));
  std::atomic<bool> done{false};
  std::atomic<uint64_t> torn{0};
  std::atomic<uint64_t> reads{0};
  std::vector<std::thread> threads;
  for (int reader = 0; reader < 2; ++reader) {
    threads.emplace_back([&] {
      Worker worker(engine);
      Batch batch;
      while (!done) {
        for (const std::string& name : names) batch.get(name);
        batch.view(0);
        worker.submit(batch);
        std::set<std::string> seen;
        for (Batch::Row row = 0; row < batch.size(); ++row) {
          const Reply& reply = batch.reply(row);
          seen.insert(reply.data == nullptr ? "absent" : std::string(reply.value()));
        }
        torn += seen.size() != 1;
        ++reads;
        batch.clear();
        worker.maintain();
      }
    });
  }
  Worker worker(engine);
  Batch batch;
  for (int round = 0; round < (poison::sanitized ? 1000 : 10'000) || reads < 100; ++round) {
    if (round % 50 == 49) {
      worker.flush(0);
      continue;
    }
    const std::string value = std::to_string(round);
    for (const std::string& name : names) batch.put(name, value);
    batch.group(0);
    worker.submit(batch);
    batch.clear();
    worker.maintain();
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0u);
}

// Statistics may be read by a thread that is no worker, also while databases are flushed.
TEST_F(EngineTest, FlushWhileOthersReadAndCount) {
  Engine engine({}, clock);
  std::atomic<bool> done{false};
  std::atomic<uint64_t> wrong{0};
  std::thread watcher([&] {
    while (!done) {
      wrong += engine.database(0).keys > 2000;
      wrong += engine.stats().splits > 1000;
      std::this_thread::yield();
    }
  });
  std::thread reader([&] {
    Worker worker(engine);
    Batch batch;
    std::mt19937_64 random(1);
    while (!done) {
      const std::string name = key(random() % 2000);
      batch.get(name);
      worker.submit(batch);
      const Reply& reply = batch.reply(0);
      wrong += reply.data != nullptr && reply.value() != std::string(20, 'v');
      batch.clear();
      uint64_t cursor = 0;
      if (random() % 64 == 0) {
        do {
          cursor = worker.scan(0, cursor, 100, [&](const ScanItem& item) {
            wrong += item.key.substr(0, 4) != "key:";
          });
        } while (cursor != 0);
      }
      worker.maintain();
    }
  });
  Worker worker(engine);
  for (int round = 0; round < (poison::sanitized ? 10 : 60); ++round) {
    fill(worker, 0, 2000, 20);
    round % 2 == 0 ? worker.flush(0) : worker.flush_all();
    EXPECT_EQ(engine.database(0).keys, 0u);
    for (int i = 0; i < 40; ++i) worker.maintain();
  }
  done = true;
  watcher.join();
  reader.join();
  EXPECT_EQ(wrong, 0u);
}

TEST_F(EngineTest, VersionsGoOnOverAFlush) {
  Engine engine({}, clock);
  Worker worker(engine);
  Batch batch;
  uint64_t last = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 100; ++i) {
      batch.put("key", "value");
      worker.submit(batch);
      ASSERT_GT(batch.reply(0).version, last);
      last = batch.reply(0).version;
      batch.clear();
    }
    worker.flush(0);
  }
}

TEST_F(EngineTest, MemoryComesBackAfterAFlush) {
  Engine engine({}, clock);
  Worker worker(engine);
  fill(worker, 0, poison::sanitized ? 20'000 : 200'000, 100);
  const std::string large(1 << 20, 'L');
  for (int i = 0; i < 20; ++i)
    ASSERT_EQ(put(worker, "large" + std::to_string(i), large), Status::ok);
  const EngineStats full = engine.stats();
  worker.flush(0);
  EXPECT_EQ(worker.count(0), 0u);
  for (int i = 0; i < 20'000; ++i) worker.maintain();
  const EngineStats empty = engine.stats();
  EXPECT_EQ(empty.index_bytes, 0u);
  EXPECT_EQ(empty.retired_bytes, 0u);
  EXPECT_LT(empty.item_bytes, 5u << 20);
  EXPECT_GT(full.item_bytes, 5 * empty.item_bytes);
}

TEST_F(EngineTest, StatsCountSegmentsThatSplitAndAreJoined) {
  Engine engine({}, clock);
  Worker worker(engine);
  constexpr uint64_t keys = 40'000;
  fill(worker, 0, keys, 10);
  while (worker.maintain()) {
  }
  EXPECT_GT(engine.stats().splits, 0u);
  EXPECT_EQ(engine.stats().joins, 0u);
  for (uint64_t i = 0; i < keys; ++i) {
    Batch batch;
    const std::string name = key(i);
    batch.erase(name);
    worker.submit(batch);
    batch.clear();
    worker.maintain();
  }
  while (worker.maintain()) {
  }
  EXPECT_GT(engine.stats().joins, 0u);
}

TEST_F(EngineTest, BuffersOfClientsAreUsedMemoryAndRefuseNobody) {
  Options options;
  options.maxmemory = 16 << 20;
  Engine engine(options, clock);
  Worker worker(engine);
  EXPECT_EQ(put(worker, "a", std::string(100'000, 'v')), Status::ok);
  engine.add_buffer_bytes(16 << 20);
  EXPECT_GE(engine.stats().used_memory, options.maxmemory);
  EXPECT_EQ(engine.client_bytes(), options.maxmemory);
  EXPECT_EQ(put(worker, "b", std::string(100'000, 'v')), Status::ok);
  engine.add_buffer_bytes(-(16 << 20));
  EXPECT_EQ(engine.client_bytes(), 0u);
}

// A value that is kept stays as it is when its item is erased and reclaimed, and then counts as a
// buffer until the last who keeps it lets it go.
TEST_F(EngineTest, KeptValuesOutliveTheirItems) {
  Engine engine({}, clock);
  Worker worker(engine);
  const std::string value(200'000, 'k');
  ASSERT_EQ(put(worker, "large", value), Status::ok);
  ASSERT_EQ(put(worker, "small", "s"), Status::ok);
  Batch batch;
  batch.get("large");
  batch.get("small");
  worker.submit(batch);
  const char* const data = batch.reply(0).data;
  const uint64_t first = engine.keep(batch.reply(0));
  const uint64_t second = engine.keep(batch.reply(0));
  ASSERT_NE(first, 0u);
  ASSERT_NE(second, 0u);
  EXPECT_EQ(engine.keep(batch.reply(1)), 0u);
  batch.clear();
  ASSERT_EQ(put(worker, "large", "other"), Status::ok);
  for (int i = 0; i < 100; ++i) worker.maintain();
  EXPECT_EQ(std::string_view(data, value.size()), value);
  EXPECT_GE(engine.client_bytes(), value.size());
  EXPECT_LT(engine.client_bytes(), value.size() * 2);
  engine.let_go(first);
  EXPECT_EQ(std::string_view(data, value.size()), value);
  EXPECT_GE(engine.client_bytes(), value.size());
  engine.let_go(second);
  EXPECT_EQ(engine.client_bytes(), 0u);
}

// The bytes that replies show stay as they are until the batch is cleared, whatever other threads
// do: overwrite, erase, evict, compact.
TEST_F(EngineTest, RepliesStayUntilTheBatchIsCleared) {
  Options options;
  options.maxmemory = 6 << 20;
  options.maxmemory_policy = EvictionPolicy::allkeys_lru;
  Engine engine(options, clock);
  constexpr uint64_t keys = 6000;
  std::atomic<bool> done{false};
  std::vector<std::thread> writers;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    writers.emplace_back([&, seed] {
      Worker worker(engine);
      Batch batch;
      std::mt19937_64 random(seed);
      while (!done) {
        std::string names[20];
        std::string values[20];
        for (int i = 0; i < 20; ++i) {
          const uint64_t number = random() % keys;
          names[i] = key(number);
          // A value is its key's number, repeated; sizes shift over time, so that classes shrink.
          values[i].assign(20 + random() % 3000, static_cast<char>('a' + number % 26));
          random() % 4 == 0 ? batch.erase(names[i]) : batch.put(names[i], values[i]);
        }
        worker.submit(batch);
        batch.clear();
        worker.maintain();
      }
    });
  }
  Worker worker(engine);
  std::mt19937_64 random(9);
  uint64_t hits = 0;
  uint64_t wrong = 0;
  // Long enough to have met what it is about, however the threads take turns.
  const auto enough = [&](int round) {
    return round >= (poison::sanitized ? 60 : 300) && hits >= 1000 && engine.stats().evicted != 0;
  };
  constexpr int most_rounds = 1'000'000;
  for (int round = 0; round < most_rounds && !enough(round); ++round) {
    Batch batches[2];  // several may be held at a time
    std::vector<std::pair<const Reply*, std::string>> shown;
    std::vector<std::string> names;
    for (int i = 0; i < 100; ++i) names.push_back(key(random() % keys));
    for (int i = 0; i < 100; ++i) batches[i % 2].get(names[static_cast<size_t>(i)]);
    for (Batch& batch : batches) {
      worker.submit(batch);
      for (Batch::Row row = 0; row < batch.size(); ++row) {
        const Reply& reply = batch.reply(row);
        if (reply.data != nullptr) shown.emplace_back(&reply, std::string(reply.value()));
      }
    }
    for (int i = 0; i < 20; ++i) std::this_thread::yield();
    for (const auto& [reply, value] : shown) {
      ++hits;
      wrong += reply->value() != value;
      wrong += value.find_first_not_of(value[0]) != std::string::npos;
    }
    batches[0].clear();
    batches[1].clear();
    worker.maintain();
  }
  done = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(engine.stats().evicted, 0u);
}

TEST_F(EngineTest, ScanShowsWhatStaysWhileTheIndexGrows) {
  Engine engine({}, clock);
  Worker worker(engine);
  constexpr uint64_t staying = poison::sanitized ? 5'000 : 30'000;
  fill(worker, 0, staying, 10);
  uint64_t next = staying;
  for (int round = 0; round < 3; ++round) {
    std::set<std::string> seen;
    uint64_t cursor = 0;
    do {
      cursor = worker.scan(0, cursor, 200, [&](const ScanItem& item) {
        EXPECT_EQ(item.type, ValueType::string);
        seen.emplace(item.key);
      });
      fill(worker, next, 60, 10);
      next += 60;
    } while (cursor != 0);
    for (uint64_t i = 0; i < staying; ++i) ASSERT_EQ(seen.count(key(i)), 1u);
  }
  if (!poison::sanitized) {
    EXPECT_GT(engine.stats().splits, 0u);
  }
}

TEST_F(EngineTest, ScanLeavesOutWhatHasExpired) {
  Engine engine({}, clock);
  Worker worker(engine);
  Batch batch;
  batch.put("stays", "v");
  batch.put("goes", "v", 0, 1500);
  worker.submit(batch);
  batch.clear();
  const auto names = [&] {
    std::set<std::string> seen;
    uint64_t cursor = 0;
    do {
      cursor = worker.scan(0, cursor, 10, [&](const ScanItem& item) { seen.emplace(item.key); });
    } while (cursor != 0);
    return seen;
  };
  EXPECT_EQ(names(), (std::set<std::string>{"stays", "goes"}));
  EXPECT_EQ(engine.database(0).expires, 1u);
  clock.advance(500);
  EXPECT_EQ(names(), (std::set<std::string>{"stays"}));
}

}  // namespace
}  // namespace isotherm::engine_test
