// Snapshots (engine/snapshot.h) while databases are flushed and items are evicted.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/snapshot.h"
#include "items/poison.h"
#include "models/snapshot_fixture.h"

namespace isotherm::snapshot_flush_test {
namespace {

using Content = SnapshotContent;
class SnapshotFlushTest : public SnapshotFixture {};

TEST_F(SnapshotFlushTest, AFlushMakesItBeginAnew) {
  Worker worker(*engine_);
  put(worker, 0, "a", "1");
  put(worker, 1, "b", "1");
  ASSERT_NE(snapshot_->begin(worker, false), nullptr);
  worker.flush(1);
  EXPECT_EQ(rest(worker), std::nullopt);
  EXPECT_EQ(whole(worker), (Content{{{0, "a"}, {"1", 0}}}));
  // A database that had nothing does not matter.
  ASSERT_NE(snapshot_->begin(worker, false), nullptr);
  put(worker, 2, "c", "1");
  worker.flush(2);
  EXPECT_EQ(rest(worker), (Content{{{0, "a"}, {"1", 0}}}));
}

// Where it is told to, it has what was there before the first of several flushes, and lets go of
// it.
TEST_F(SnapshotFlushTest, WhatIsFlushedIsKeptWhereItIsWanted) {
  Worker worker(*engine_);
  Content expected;
  const std::string value(1000, 'v');
  for (int i = 0; i < 6000; ++i) {
    const std::string key = "key" + std::to_string(i);
    put(worker, i % 2, key, value);
    expected[{i % 2, key}] = {value, no_expiry};
  }
  const uint64_t before = engine_->stats().item_bytes;
  ASSERT_NE(snapshot_->begin(worker, true), nullptr);
  ASSERT_EQ(snapshot_->step([](std::string_view) { return true; }), Snapshot::Step::more);
  snapshot_->end(worker);
  ASSERT_NE(snapshot_->begin(worker, true), nullptr);
  for (int round = 0; round < 3; ++round) {
    worker.flush_all();
    put(worker, 0, "key1", "new");
    put(worker, 1, "fresh", "new");
    for (int i = 0; i < 200; ++i) worker.maintain();
  }
  EXPECT_GE(engine_->stats().item_bytes, before);
  EXPECT_EQ(rest(worker), expected);
  for (int i = 0; i < 2000; ++i) worker.maintain();
  EXPECT_LT(engine_->stats().item_bytes, before / 2);
}

TEST_F(SnapshotFlushTest, LoopsOfFlushesDoNotKeepItFromItsEnd) {
  std::vector<std::string> keys;
  for (int i = 0; i < 300; ++i) keys.push_back("key" + std::to_string(i));
  std::atomic<bool> ends{false};
  std::atomic<int> flushes{0};
  std::thread thread([&] {
    Worker other(*engine_);
    while (!ends.load()) {
      Batch batch;  // both or none
      const Batch::Row first = batch.size();
      for (const uint32_t database : {0u, 1u}) {
        batch.select(database);
        for (const std::string& key : keys) batch.put(key, "x");
      }
      batch.group(first);
      other.submit(batch);
      other.flush_all();
      other.maintain();
      ++flushes;
    }
  });
  Worker worker(*engine_);
  for (int round = 0; round < (poison::sanitized ? 5 : 30); ++round) {
    const int before = flushes.load();
    while (flushes.load() == before) std::this_thread::yield();
    const auto content = whole(worker, true);
    ASSERT_TRUE(content);
    size_t in_first = 0;
    for (const auto& [name, value] : *content) in_first += name.first == 0;
    // FLUSHALL takes one database behind the other, but all at the moment of nobody else.
    EXPECT_TRUE(content->empty() || (content->size() == 600 && in_first == 300)) << content->size();
  }
  ends = true;
  thread.join();
}

// It goes from the file, too, or stays there, but the log does not grow by what nobody waits for.
TEST_F(SnapshotFlushTest, WhatIsEvictedTakesNoRoom) {
  snapshot_.reset();
  options_.maxmemory = 16 << 20;
  options_.maxmemory_policy = EvictionPolicy::allkeys_lru;
  engine_ = std::make_unique<Engine>(options_, clock_);
  snapshot_ = std::make_unique<Snapshot>(*engine_);
  Worker worker(*engine_);
  const std::string value(1000, 'v');
  for (int i = 0; i < 8000; ++i) put(worker, 0, "old" + std::to_string(i), value);
  ASSERT_NE(snapshot_->begin(worker, false), nullptr);
  const uint64_t before = worker.count(0).value();
  for (int i = 0; i < 8000; ++i) {
    put(worker, 0, "new" + std::to_string(i), value);
    worker.maintain();
  }
  EXPECT_LT(snapshot_->memory(), 1u << 20);
  const auto content = rest(worker);
  ASSERT_TRUE(content);
  EXPECT_LT(content->size(), before);
  for (const auto& [name, its] : *content) EXPECT_TRUE(name.second.starts_with("old"));
}

}  // namespace
}  // namespace isotherm::snapshot_flush_test
