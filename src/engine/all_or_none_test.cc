#include "engine/all_or_none.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"

namespace isotherm::all_or_none_test {
namespace {

constexpr uint64_t cap = 16 << 20;

Options capped() {
  Options options;
  options.maxmemory = cap;
  options.maxmemory_policy = EvictionPolicy::noeviction;
  return options;
}

class AllOrNone : public ::testing::Test {
 protected:
  // Puts of keys that begin with `prefix`; how many of them are stored.
  Batch::Row put_all(const std::string& prefix, const std::vector<std::string>& values) {
    std::vector<std::string> keys;
    for (size_t i = 0; i < values.size(); ++i) keys.push_back(prefix + std::to_string(i));
    Batch batch;
    all_or_none(batch, static_cast<Batch::Row>(values.size()));
    for (size_t i = 0; i < values.size(); ++i) batch.put(keys[i], values[i]);
    batch.group(0);
    worker_.submit(batch);
    Batch::Row stored = 0;
    for (Batch::Row row = 0; row < batch.size(); ++row) {
      const Status status = batch.reply(row).status;
      EXPECT_TRUE(status == Status::ok || status == Status::not_found) << row;
      stored += status == Status::ok ? 1 : 0;
    }
    return stored;
  }
  bool put(const std::string& key, const std::string& value) {
    Batch batch;
    batch.put(key, value);
    worker_.submit(batch);
    return batch.reply(0).status == Status::ok;
  }
  // With single puts, of values of this size.
  uint64_t fill(size_t bytes) {
    uint64_t count = 0;
    while (put("fill" + std::to_string(count), std::string(bytes, 'f'))) ++count;
    return count;
  }
  void erase(const std::string& key) {
    Batch batch;
    batch.erase(key);
    worker_.submit(batch);
  }
  uint64_t keys() const { return engine_.database(0).keys; }
  void expect_below_cap() const { EXPECT_LE(engine_.stats().used_memory, cap); }

  const ManualClock clock_{1000};
  Engine engine_{capped(), clock_};
  Worker worker_{engine_};
};

TEST_F(AllOrNone, StoresAllWhereThereIsRoom) {
  EXPECT_EQ(put_all("a", {"1", "2", std::string(100'000, 'x')}), 3u);
  EXPECT_EQ(keys(), 3u);
}

TEST_F(AllOrNone, StoresNothingWhereTheLastOneHasNoRoom) {
  EXPECT_EQ(put_all("a", {"1", "2", std::string(cap, 'x')}), 0u);
  EXPECT_EQ(put_all("a", {"1", std::string(cap / 3 * 2, 'x'), std::string(cap / 3 * 2, 'y')}), 0u);
  EXPECT_EQ(keys(), 0u);
  EXPECT_EQ(put_all("a", {"1", std::string(cap / 3 * 2, 'x')}), 2u);
  expect_below_cap();
}

TEST_F(AllOrNone, TakesWhatChunksHaveFreeAtTheCap) {
  constexpr size_t bytes = 1000;
  const uint64_t filled = fill(bytes);
  ASSERT_GT(filled, 1000u);
  const std::string value(bytes, 'v');
  EXPECT_EQ(put_all("a", std::vector<std::string>(50, value)), 0u);
  EXPECT_EQ(keys(), filled);
  for (uint64_t i = 0; i < 200; ++i) erase("fill" + std::to_string(i));
  while (worker_.maintain()) {
  }
  EXPECT_EQ(put_all("a", std::vector<std::string>(50, value)), 50u);
  EXPECT_EQ(put_all("b", std::vector<std::string>(1000, value)), 0u);
  EXPECT_EQ(keys(), filled - 200 + 50);
  expect_below_cap();
}

TEST_F(AllOrNone, MayBeAPartOfALargerGroup) {
  const std::string large(cap, 'x');
  Batch batch;
  batch.put("a", "1");
  all_or_none(batch, 2);
  batch.put("b", "1");
  batch.put("c", large);
  all_or_none(batch, 2);
  batch.put("d", "1");
  batch.put("a", "2");
  batch.get("a");
  batch.group(0);
  worker_.submit(batch);
  EXPECT_EQ(batch.reply(1).status, Status::not_found);
  EXPECT_EQ(batch.reply(2).status, Status::not_found);
  EXPECT_EQ(batch.reply(3).status, Status::ok);
  EXPECT_EQ(batch.reply(5).value(), "2");
  EXPECT_EQ(keys(), 2u);
}

TEST_F(AllOrNone, ANewDatabaseNeedsRoomForItsIndex) {
  ASSERT_GT(fill(1000), 1000u);
  Batch batch;
  batch.select(3);
  all_or_none(batch, 1);
  batch.put("a", "1");
  batch.group(0);
  worker_.submit(batch);
  EXPECT_EQ(batch.reply(0).status, Status::not_found);
  EXPECT_EQ(engine_.database(3).keys, 0u);
}

// Threads that take the room of one another meanwhile.
TEST_F(AllOrNone, HoldsBesideOthers) {
  constexpr Batch::Row puts = 40;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Worker worker(engine_);
      const std::string value(5000, 'v');
      for (int i = 0; i < 60; ++i) {
        std::vector<std::string> names;
        for (Batch::Row p = 0; p < puts; ++p)
          names.push_back(std::to_string(t) + "/" + std::to_string(i) + "/" + std::to_string(p));
        Batch batch;
        all_or_none(batch, puts);
        for (const std::string& name : names) batch.put(name, value);
        batch.group(0);
        worker.submit(batch);
        for (Batch::Row p = 1; p < puts; ++p)
          EXPECT_EQ(batch.reply(p).status, batch.reply(0).status);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(keys() % puts, 0u);
  EXPECT_GT(keys(), 0u);
}

}  // namespace
}  // namespace isotherm::all_or_none_test
