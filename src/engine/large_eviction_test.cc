// Eviction of large values: it frees what is needed and no more, the last value stored goes last,
// and what is on its way (buffers, copies, values that readers still hold) evicts nothing.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/eviction_policy_test.h"
#include "executor/commit_sink.h"
#include "items/arriving_item.h"
#include "items/item_store.h"
#include "items/meta_request.h"
#include "items/poison.h"

namespace isotherm::large_eviction_test {
namespace {

constexpr uint64_t cap = 20 << 20;
constexpr int64_t some_day = 1'000'000;

// A client, as the server sees one: the value lies in a buffer until its reply was written.
class Client {
 public:
  explicit Client(Engine& engine) : engine_(engine), worker_(engine) {}

  Status put(const std::string& name, const std::string& value) {
    const auto fill = [&](Batch& batch) { batch.put(name, value, 0, expiry_++); };
    return run(value.size(), fill);
  }
  Status append(const std::string& name, const std::string& value) {
    return run(value.size(), [&](Batch& batch) { batch.append(name, value); });
  }
  bool has(const std::string& name) {
    Batch batch;
    batch.get(name, option::no_touch);
    worker_.submit(batch);
    return batch.reply(0).status == Status::ok;
  }
  uint64_t count() { return worker_.count(0).value(); }
  void maintain() { worker_.maintain(); }

 private:
  template <class Fill>
  Status run(uint64_t bytes, Fill&& fill) {
    engine_.add_buffer_bytes(static_cast<int64_t>(bytes));
    worker_.maintain();  // it came in several turns
    Batch batch;
    fill(batch);
    worker_.submit(batch);
    const Status status = batch.reply(0).status;
    batch.clear();
    engine_.add_buffer_bytes(-static_cast<int64_t>(bytes));
    worker_.maintain();
    return status;
  }

  Engine& engine_;
  Worker worker_;
  int64_t expiry_ = some_day;  // each later than the one before
};

class LargeEvictionTest : public EvictionPolicyTest {
 protected:
  static Options options(EvictionPolicy policy, uint64_t maxmemory = cap) {
    return EvictionPolicyTest::options(policy, maxmemory);
  }

  // Stores so many values, of which the first fill the store; the mean share of the cap that they
  // take afterwards.
  double fill(Client& client, uint64_t bytes, uint64_t count, bool newest_stays) {
    const std::string value(bytes, 'v');
    const uint64_t room = cap / bytes + 1;
    double sum = 0;
    for (uint64_t i = 0; i < room + count; ++i) {
      const std::string name = key(next_++);
      EXPECT_EQ(client.put(name, value), Status::ok) << bytes;
      EXPECT_TRUE(!newest_stays || client.has(name)) << bytes;
      if (i >= room) sum += static_cast<double>(client.count() * bytes) / cap;
    }
    return sum / static_cast<double>(count);
  }

  uint64_t next_ = 0;
};

TEST_P(LargeEvictionTest, TheStoreIsFullWhateverTheSize) {
  const bool newest_stays = GetParam() != EvictionPolicy::allkeys_random;
  for (const uint64_t bytes : {40'000, 100'000, 200'000, 1'000'000}) {
    Engine engine(options(GetParam()), clock);
    Client client(engine);
    const double share = fill(client, bytes, poison::sanitized ? 40 : 150, newest_stays);
    EXPECT_GE(share, bytes < 1'000'000 ? 0.9 : 0.85) << bytes;
    EXPECT_LE(engine.stats().used_memory, cap) << bytes;
  }
}

// By chance, too, whoever is evicted for it.
TEST_P(LargeEvictionTest, ALargeValueAmongSmallOnesIsThereWhenItWasStored) {
  Engine engine(options(GetParam()), clock);
  Client client(engine);
  fill(client, 1000, 1, false);
  const std::string value(1'000'000, 'v');
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(client.put(key(next_), value), Status::ok);
    EXPECT_TRUE(client.has(key(next_++))) << i;
  }
}

// Those who do background work may be busy, and clients fast.
TEST_P(LargeEvictionTest, ValuesThatArrivedInTheirPlaceWaitForRoomToo) {
  Engine engine(options(GetParam()), clock);
  Worker worker(engine);
  const std::string value(1'000'000, 'v');
  for (uint64_t i = 0; i < 150; ++i) {
    const std::string name = key(i);
    const auto arriving = engine.arriving(name.size(), value.size());
    ASSERT_TRUE(arriving != nullptr && arriving->usable());
    arriving->append(value);
    Batch batch;
    batch.put(name, arriving->value(), 0, some_day + static_cast<int64_t>(i));
    batch.columns().options[0] |= option::in_place;
    worker.submit(batch);
    EXPECT_EQ(batch.reply(0).status, Status::ok);
    batch.clear();
    EXPECT_LE(engine.stats().used_memory, cap + 3 * value.size()) << i;
  }
}

// Those of a snapshot, or of a journal that is written anew, look at all items.
TEST_P(LargeEvictionTest, LooksAtLargeValuesEvictNothing) {
  Engine engine(options(GetParam()), clock);
  Client client(engine);
  fill(client, 1'000'000, 1, true);
  const uint64_t count = client.count();
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < next_; ++i) keys.push_back(key(i));
  std::vector<MetaRequest> looks(keys.size(), MetaRequest{.kind = MetaRequest::Kind::look});
  Batch batch;
  for (size_t i = 0; i < keys.size(); ++i) batch.meta(keys[i], {}, looks[i]);
  Worker worker(engine);
  worker.submit(batch);
  EXPECT_EQ(client.count(), count);
  const auto found = [&](Batch::Row row) { return batch.reply(row).status == Status::ok; };
  uint64_t shown = 0;
  for (Batch::Row row = 0; row < batch.size(); ++row) shown += found(row) ? 1 : 0;
  EXPECT_EQ(shown, count);
}

// A journal whose disk takes long has the batch wait; others do not wait for what that reads.
class SlowSink final : public CommitSink, public Awaited {
 public:
  Begun begins(const Batch& /*batch*/) override { return {.token = 1, .withholds = true}; }
  void changed(const ItemChange& /*change*/) override {}
  void flushed(uint32_t /*database*/, uint64_t /*version*/, uint64_t /*token*/) override {}
  Awaited* ends(uint64_t /*token*/) override {
    return std::exchange(waits_, false) ? this : nullptr;
  }
  void begin(Waiter& waiter) override { waiter_ = &waiter; }
  void let_go() { waiter_->there(); }

 private:
  bool waits_ = true;
  Waiter* waiter_ = nullptr;
};

TEST_P(LargeEvictionTest, ABatchThatWaitsForTheDiskHoldsNothingBack) {
  Engine engine(options(GetParam()), clock);
  SlowSink sink;
  engine.set_commit_sink(&sink);
  {
    Client client(engine);
    Worker waiting(engine, false);
    Batch batch;
    batch.put("first", "value");
    ASSERT_EQ(waiting.start(batch), Worker::Started::under_way);
    const std::string value(1'000'000, 'v');
    for (int i = 0; i < 40; ++i) {
      ASSERT_EQ(client.put(key(next_++), value), Status::ok);
      ASSERT_LE(engine.stats().item_bytes, cap + 2 * value.size()) << i;
    }
    sink.let_go();
    waiting.wait_for(batch);
    EXPECT_EQ(batch.reply(0).status, Status::ok);
  }
  engine.set_commit_sink(nullptr);
}

// Of a value that may change the reply shows the size alone, so the value is not kept for it.
TEST_P(LargeEvictionTest, WhatABatchThatWaitsForTheDiskSaysOfMemoryNeedsNoItem) {
  Engine engine(options(GetParam()), clock);
  Client client(engine);
  const std::string value(1'000'000, 'v');
  ASSERT_EQ(client.put("large", value), Status::ok);
  ASSERT_EQ(client.append("large", "1"), Status::ok);
  SlowSink sink;
  engine.set_commit_sink(&sink);
  {
    Worker waiting(engine, false);
    Batch batch;
    batch.put("first", "value");
    const Batch::Row row = batch.get("large", option::no_value | option::with_bytes);
    ASSERT_EQ(waiting.start(batch), Worker::Started::under_way);
    const uint64_t bytes = ItemStore::footprint(batch.reply(row).location);
    const uint64_t before = engine.stats().item_bytes;
    ASSERT_EQ(client.put("large", "small"), Status::ok);
    client.maintain();
    EXPECT_LT(engine.stats().item_bytes + value.size(), before) << "it is kept";
    sink.let_go();
    waiting.wait_for(batch);
    EXPECT_EQ(batch.reply(row).data, nullptr);
    EXPECT_EQ(batch.reply(row).size, value.size() + 1);
    EXPECT_EQ(batch.reply(row).number, static_cast<int64_t>(bytes));
  }
  engine.set_commit_sink(nullptr);
}

TEST_P(LargeEvictionTest, OneValueOfNearlyHalfTheCapStays) {
  Engine engine(options(GetParam()), clock);
  Client client(engine);
  fill(client, 100'000, 1, false);
  const std::string value(9'000'000, 'v');
  for (uint64_t i = 0; i < (poison::sanitized ? 5 : 12); ++i) {
    ASSERT_EQ(client.put(key(next_), value), Status::ok);
    EXPECT_TRUE(client.has(key(next_++)));
  }
  // Larger ones, of which only one fits, and then small ones again.
  const std::string huge(12'000'000, 'h');
  for (uint64_t i = 0; i < 6; ++i) ASSERT_EQ(client.put(key(next_++), huge), Status::ok);
  if (GetParam() != EvictionPolicy::allkeys_random) {
    EXPECT_GE(fill(client, 1'000'000, 30, false), 0.85);
  }
}

TEST_P(LargeEvictionTest, AppendGrowsAValueAmongOthers) {
  Engine engine(options(GetParam()), clock);
  Client client(engine);
  fill(client, 100'000, 1, false);
  // At random it may be chosen itself.
  const bool stays = GetParam() != EvictionPolicy::allkeys_random;
  constexpr uint64_t last = poison::sanitized ? 30 : 90;
  const std::string part(9'000'000 / last, 'p');
  ASSERT_EQ(client.put("growing", part), Status::ok);
  for (uint64_t parts = 2; parts <= last; ++parts) {
    ASSERT_EQ(client.append("growing", part), Status::ok);
    EXPECT_TRUE(!stays || (client.count() - 1) * 100'000 + parts * part.size() >= cap * 85 / 100)
        << parts;
    // The copy is above the cap, until what it replaces is gone.
    EXPECT_LE(engine.stats().used_memory, cap) << parts;
  }
}

// A value that takes another's place needs no other room.
TEST_P(LargeEvictionTest, OverwritingEvictsNothing) {
  Engine engine(options(GetParam()), clock);
  Client client(engine);
  const std::string value(1'000'000, 'v');
  constexpr uint64_t count = 19;
  for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(client.put(key(i), value), Status::ok);
  for (uint64_t i = 0; i < 5 * count; ++i) ASSERT_EQ(client.put(key(i % count), value), Status::ok);
  EXPECT_EQ(engine.stats().evicted, 0u);
  EXPECT_EQ(client.count(), count);
}

INSTANTIATE_TEST_SUITE_P(Policies, LargeEvictionTest, policies_that_evict(), policy_name);

// Where all others were read, the newest is not the first that nobody has read yet.
TEST_F(LargeEvictionTest, WhatWasStoredLastGoesLast) {
  Engine engine(options(EvictionPolicy::allkeys_lru), clock);
  Client client(engine);
  Worker reader(engine);
  const std::string value(200'000, 'v');
  for (uint64_t i = 0; i < 500; ++i) {
    ASSERT_EQ(client.put(key(i), value), Status::ok);
    ASSERT_TRUE(client.has(key(i))) << i;
    const std::string name = key(i);
    Batch batch;
    batch.get(name);
    reader.submit(batch);
  }
}

// Small values that were there first go first.
TEST_F(LargeEvictionTest, LargeOnesTakeTheirTurnAmongSmallOnes) {
  Engine engine(options(EvictionPolicy::allkeys_lru), clock);
  Client client(engine);
  const std::string small(1'000, 's');
  const std::string large(200'000, 'l');
  for (uint64_t i = 0; i < 10; ++i) ASSERT_EQ(client.put(key(i), large), Status::ok);
  for (uint64_t i = 10; i < 16'000; ++i) ASSERT_EQ(client.put(key(i), small), Status::ok);
  EXPECT_GT(engine.stats().evicted, 0u);
  for (uint64_t i = 0; i < 30; ++i) ASSERT_EQ(client.put("new " + key(i), large), Status::ok);
  for (uint64_t i = 0; i < 30; ++i) EXPECT_TRUE(client.has("new " + key(i))) << i;
  EXPECT_GT(client.count(), 8'000u);
}

// What one thread retired, another one frees.
TEST_F(LargeEvictionTest, AnIdleThreadHoldsNothingBack) {
  Engine engine(options(EvictionPolicy::allkeys_lru), clock);
  Client client(engine);
  Worker other(engine);
  const std::string third(cap / 3, 't');
  for (uint64_t i = 0; i < 2; ++i) ASSERT_EQ(client.put(key(i), third), Status::ok);
  {
    Batch batch;
    batch.erase("key:0");
    batch.erase("key:1");
    other.submit(batch);
  }
  EXPECT_GT(engine.stats().used_memory, cap / 2);
  client.maintain();
  EXPECT_LT(engine.stats().used_memory, cap / 4);
}

void run_threads(uint64_t threads, const std::function<void(uint64_t)>& work) {
  std::vector<std::thread> running;
  for (uint64_t thread = 0; thread < threads; ++thread) running.emplace_back(work, thread);
  for (std::thread& thread : running) thread.join();
}

TEST_F(LargeEvictionTest, ThreadsFillTheStoreTogether) {
  constexpr uint64_t threads = 4;
  constexpr uint64_t bytes = 100'000;
  Engine engine(options(EvictionPolicy::allkeys_lru), clock);
  std::atomic<uint64_t> lost{0};
  run_threads(threads, [&](uint64_t thread) {
    Client client(engine);
    const std::string value(bytes, 'v');
    for (uint64_t i = 0; i < 300; ++i) {
      const std::string name = std::to_string(thread) + key(i);
      EXPECT_EQ(client.put(name, value), Status::ok);
      lost += !client.has(name);
    }
  });
  // One that waits for its core may come too late to see its value.
  EXPECT_LE(lost, threads * 300 / 50);
  Client client(engine);
  EXPECT_GE(client.count() * bytes, cap * 85 / 100);
}

// Sizes that shift upward while several threads write as fast as they can: none is refused, and the
// cap is not left far behind.
TEST_F(LargeEvictionTest, SizesMayShiftAtFullSpeed) {
  constexpr uint64_t threads = 4;
  constexpr uint64_t rows = 256;
  constexpr uint64_t shift_cap = 2 * cap;
  Engine engine(options(EvictionPolicy::allkeys_lru, shift_cap), clock);
  std::atomic<uint64_t> refused{0};
  std::atomic<uint64_t> most_used{0};
  const auto write = [&](uint64_t bytes, uint64_t count) {
    run_threads(threads, [&](uint64_t thread) {
      Worker worker(engine);
      const std::string value(bytes, 'v');
      std::vector<std::string> names(rows);
      Batch batch;
      for (uint64_t i = 0; i < count / threads; i += rows) {
        for (uint64_t row = 0; row < rows; ++row) {
          names[row] = std::to_string(bytes) + ":" + std::to_string(thread) + key(i + row);
          batch.put(names[row], value);
        }
        worker.submit(batch);
        for (Batch::Row row = 0; row < rows; ++row)
          refused += batch.reply(row).status != Status::ok;
        batch.clear();
        worker.maintain();
        const uint64_t used = engine.stats().used_memory;
        for (uint64_t seen = most_used;
             used > seen && !most_used.compare_exchange_weak(seen, used);)
          ;
      }
    });
  };
  write(40, poison::sanitized ? 60'000 : 400'000);
  write(900, poison::sanitized ? 30'000 : 200'000);
  EXPECT_EQ(refused, 0u);
  // Threads that wait for a core keep memory from being used again.
  EXPECT_LE(most_used, shift_cap * 140 / 100);
}

}  // namespace
}  // namespace isotherm::large_eviction_test
