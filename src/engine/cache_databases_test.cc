// Indexes of a fixed size in many databases (HostStore::make_cache).
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "engine/engine.h"

namespace isotherm::cache_databases_test {
namespace {

class CacheDatabasesTest : public ::testing::TestWithParam<IndexChoice> {
 protected:
  static constexpr uint32_t databases = 16;
  static constexpr uint64_t keys = 200;

  CacheDatabasesTest() { open(); }
  void open() {
    worker_.reset();
    Options options;
    options.maxmemory = 16 << 20;
    options.maxmemory_policy = EvictionPolicy::allkeys_lru;
    options.databases = databases;
    options.max_value_bytes = 50'000;
    options.hash_seed = 1;
    options.index = GetParam();
    options.index_item_bytes = 32;
    engine_ = std::make_unique<Engine>(options, clock_);
    worker_ = std::make_unique<Worker>(*engine_);
  }

  void fill(uint32_t database) {
    const std::string value(100, 'v');
    for (uint64_t i = 0; i < keys; ++i) {
      const std::string key = "key:" + std::to_string(i);
      Batch batch;
      batch.select(database);
      batch.put(key, value);
      worker_->submit(batch);
      EXPECT_EQ(batch.reply(0).status, Status::ok);
    }
    worker_->maintain();
    EXPECT_EQ(worker_->count(database), keys);
  }
  // Of all indexes, in entries.
  uint64_t room() const { return engine_->stats().index_room; }

  ManualClock clock_{1'700'000'000'000};
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Worker> worker_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, CacheDatabasesTest,
                         ::testing::Values(IndexChoice::cuckoo, IndexChoice::set),
                         [](const auto& its) { return std::string(to_string(its.param)); });

// However large each index could be, those of all databases leave memory for items.
TEST_P(CacheDatabasesTest, AllOfThemKeepTheirItems) {
  for (uint32_t database = 0; database < databases; ++database) fill(database);
  for (uint32_t database = 0; database < databases; ++database) {
    EXPECT_EQ(worker_->count(database), keys) << database;
  }
  EXPECT_EQ(engine_->stats().evicted, 0u);
}

// Each takes its part of what the other has left.
TEST_P(CacheDatabasesTest, TwoThatBeginAtTheSameMomentShareMemory) {
  const auto put_one = [](Worker& worker, uint32_t database) {
    Batch batch;
    batch.select(database);
    batch.put("key", "value");
    worker.submit(batch);
  };
  put_one(*worker_, 0);
  put_one(*worker_, 1);
  const uint64_t both = room();
  for (int i = 0; i < 20; ++i) {
    open();
    std::atomic<int> ready{0};
    const auto begin = [&](uint32_t database) {
      Worker worker(*engine_);
      ++ready;
      while (ready != 2) {
      }
      put_one(worker, database);
    };
    std::thread other(begin, 1);
    begin(0);
    other.join();
    ASSERT_LE(room(), both) << i;
  }
}

TEST_P(CacheDatabasesTest, AFlushLeavesADatabaseItsPart) {
  fill(0);
  for (uint32_t database = 1; database < 6; ++database) fill(database);
  const uint64_t all = room();
  const auto flush_and_fill = [&](uint32_t database) {
    Batch batch;
    batch.flush(database, database + 1);
    worker_->submit(batch);
    batch.clear();
    for (int i = 0; i < 200; ++i) worker_->maintain();
    const uint64_t left = room();
    fill(database);
    return room() - left;
  };
  const uint64_t last = flush_and_fill(5);
  EXPECT_EQ(room(), all);
  EXPECT_GT(flush_and_fill(0), 2 * last);
}

}  // namespace
}  // namespace isotherm::cache_databases_test
