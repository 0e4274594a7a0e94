// Snapshots (engine/snapshot.h) of stores whose index has a fixed size: of what is changed, erased,
// evicted or flushed while they are written.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "models/snapshot_fixture.h"

namespace isotherm::cache_snapshot_test {
namespace {

class CacheSnapshotTest : public SnapshotFixture {
 protected:
  void open(IndexChoice index, uint64_t item_bytes) {
    snapshot_.reset();
    options_.index = index;
    options_.index_item_bytes = item_bytes;
    options_.maxmemory = 64 << 20;
    options_.maxmemory_policy = EvictionPolicy::allkeys_lru;
    engine_ = std::make_unique<Engine>(options_, clock_);
    snapshot_ = std::make_unique<Snapshot>(*engine_);
  }
  static std::string key(uint64_t number) { return "key:" + std::to_string(number); }
  // Two databases of keys, of which some expire one day.
  SnapshotContent fill(Worker& worker) {
    SnapshotContent content;
    for (uint64_t i = 0; i < keys; ++i) {
      const int64_t expiry = i % 5 == 0 ? clock_.now_ms() + 1'000'000 : no_expiry;
      const auto database = static_cast<uint32_t>(i % 2);
      put(worker, database, key(i), std::to_string(i), expiry);
      content[{database, key(i)}] = {std::to_string(i), expiry};
    }
    return content;
  }

  static constexpr uint64_t keys = 2000;
  static constexpr IndexChoice kinds[] = {IndexChoice::cuckoo, IndexChoice::set};
};

TEST_F(CacheSnapshotTest, HasWhatThereWasAtItsMoment) {
  for (const IndexChoice kind : kinds) {
    open(kind, 2000);
    {
      Worker worker(*engine_);
      const SnapshotContent expected = fill(worker);
      ASSERT_NE(snapshot_->begin(worker, false), nullptr);
      for (uint64_t i = 0; i < keys; i += 2) put(worker, 0, key(i), "later");
      for (uint64_t i = 0; i < keys; ++i) put(worker, 0, "later:" + std::to_string(i), "later");
      for (uint64_t i = 1; i < keys; i += 4) {
        const std::string erased = key(i);
        const std::string changed = key(i + 2);
        Batch batch;
        batch.select(1);
        batch.erase(erased);
        batch.expire(changed, clock_.now_ms() + 77);
        worker.submit(batch);
      }
      EXPECT_EQ(rest(worker), expected) << to_string(kind);
    }
    snapshot_.reset();
  }
}

TEST_F(CacheSnapshotTest, KeepsAnIndexThatIsFlushed) {
  for (const IndexChoice kind : kinds) {
    open(kind, 2000);
    {
      Worker worker(*engine_);
      const SnapshotContent expected = fill(worker);
      ASSERT_NE(snapshot_->begin(worker, true), nullptr);
      worker.flush_all();
      fill(worker);
      for (int i = 0; i < 20; ++i) worker.maintain();
      EXPECT_EQ(rest(worker), expected) << to_string(kind);
      for (int i = 0; i < 2000; ++i) worker.maintain();
      EXPECT_EQ(engine_->database(0).keys, keys / 2);
    }
    snapshot_.reset();
  }
}

// They may be left out, as if they had gone just before.
TEST_F(CacheSnapshotTest, LeavesOutWhatTheIndexEvicts) {
  for (const IndexChoice kind : kinds) {
    open(kind, 64 << 20);
    {
      Worker worker(*engine_);
      SnapshotContent expected = fill(worker);
      ASSERT_NE(snapshot_->begin(worker, false), nullptr);
      for (uint64_t i = 0; i < 10; ++i) put(worker, 0, "later:" + std::to_string(i), "later");
      const auto content = rest(worker);
      ASSERT_TRUE(content.has_value());
      EXPECT_GT(content->size(), 10u);
      for (const auto& [name, item] : *content) EXPECT_EQ(item, expected[name]) << name.second;
    }
    snapshot_.reset();
  }
}

}  // namespace
}  // namespace isotherm::cache_snapshot_test
