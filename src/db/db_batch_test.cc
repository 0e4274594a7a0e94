#include "isotherm/db_batch.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "models/db_fixture.h"

namespace isotherm::db_batch_test {
namespace {

class DbBatchTest : public DbFixture {};

TEST_F(DbBatchTest, RequestsOfABatchOnOneKeyTakeEffectInOrder) {
  put("there", "0");
  DbBatch batch(*db_);
  for (int round = 0; round < 2; ++round) {
    const auto before = batch.get("there");
    batch.put("there", "1");
    batch.put("new", "2");
    const auto between = batch.get("there");
    batch.erase("there");
    const auto after = batch.get("there");
    const auto never = batch.erase("never");
    batch.put("there", "0");
    EXPECT_EQ(code(batch.status(before)), Code::invalid);
    EXPECT_EQ(batch.status(before).text(), "it was not run");
    ASSERT_TRUE(batch.run().ok());
    EXPECT_EQ(batch.size(), 8u);
    EXPECT_EQ(batch.value(before), "0");
    EXPECT_EQ(batch.value(between), "1");
    EXPECT_TRUE(batch.status(after).is_not_found());
    EXPECT_TRUE(batch.status(never).ok());
    batch.clear();
  }
  EXPECT_EQ(all(), "new=2 there=0 ");
}

TEST_F(DbBatchTest, OneBatchOfWritesMayBeLargerThanMemory) {
  options_.memory = 4 << 20;
  ASSERT_TRUE(open().ok());
  constexpr int count = 8'000;
  const std::string value(1250, 'v');
  std::vector<std::string> keys;
  for (int i = 0; i < count; ++i) keys.push_back(std::to_string(i));
  DbBatch batch(*db_);
  for (const std::string& key : keys) batch.put(key, value);
  // Behind the put of its key.
  const auto erased = batch.erase(keys[7]);
  ASSERT_TRUE(batch.run().ok());
  EXPECT_TRUE(batch.status(erased).ok());
  EXPECT_LE(db_->statistics().memory, 3 * options_.memory);
  batch.clear();
  std::string read;
  EXPECT_TRUE(db_->get(keys[7], read).is_not_found());
  for (int i = 8; i < count; i += 1000) {
    ASSERT_TRUE(db_->get(keys[static_cast<size_t>(i)], read).ok());
    EXPECT_EQ(read, value);
  }
}

TEST_F(DbBatchTest, BatchesOfMoreThanMemoryHolds) {
  options_.memory = 4 << 20;
  ASSERT_TRUE(open().ok());
  constexpr int count = 40;
  const std::string value(8'000, 'v');
  std::vector<std::string> keys;
  for (int i = 0; i < count * 20; ++i) keys.push_back(std::to_string(i));
  {
    DbBatch batch(*db_);
    for (size_t i = 0; i < keys.size(); ++i) {
      batch.put(keys[i], value);
      if (i % 50 != 49) continue;
      const DbStatus status = batch.run();
      ASSERT_TRUE(status.ok()) << status.text();
      batch.clear();
    }
    for (size_t i = 0; i < keys.size(); i += count) batch.get(keys[i]);
    ASSERT_TRUE(batch.run().ok());
    for (DbBatch::Row row = 0; row < batch.size(); ++row) EXPECT_EQ(batch.value(row), value);
  }
  EXPECT_LT(db_->statistics().memory, options_.memory * 4);
}

// A batch of very many writes waits once for snapshots to go, and those that read go on.
TEST_F(DbBatchTest, WhereSnapshotsKeepTheMemoryWritesAreRefusedAtOnce) {
  options_.memory = 2 << 20;
  ASSERT_TRUE(open().ok());
  // Each run has more than 16 of them, and is held as a whole then.
  const std::string value(5'000, 'v');
  std::vector<std::unique_ptr<const DbSnapshot>> snapshots;
  for (DbStatus status; status.ok();) {
    ASSERT_LT(snapshots.size(), 1'000u);
    ASSERT_TRUE(db_->snapshot(snapshots.emplace_back()).ok());
    status = db_->put("key" + std::to_string(snapshots.size()), value);
  }
  const auto run = [this](DbBatch& batch) {
    const uint64_t before = db_->statistics().waits_for_memory;
    EXPECT_EQ(code(batch.run()), Code::out_of_memory);
    EXPECT_EQ(db_->statistics().waits_for_memory, before + 1);
  };
  std::vector<std::string> keys;
  for (int i = 0; i < 200; ++i) keys.push_back(std::to_string(i) + std::string(10'000, 'k'));
  DbBatch batch(*db_);
  // Each of them several times as much as one piece of a batch may have.
  for (const std::string& key : keys) batch.put(key, value);
  run(batch);
  batch.clear();
  for (const std::string& key : keys) batch.erase(key);
  run(batch);
  for (DbBatch::Row row = 0; row < batch.size(); ++row) {
    ASSERT_EQ(code(batch.status(row)), Code::out_of_memory);
  }
  batch.clear();
  const auto first = batch.get("key1");
  const auto refused = batch.put("key1", "new");
  const auto pairs = batch.range("key1", "key10", 1);
  batch.erase("key1");
  const auto again = batch.get("key1");
  const auto absent = batch.get(keys[0]);
  run(batch);
  EXPECT_EQ(code(batch.status(refused)), Code::out_of_memory);
  EXPECT_TRUE(batch.value(first) == value && batch.value(again) == value);
  EXPECT_TRUE(batch.status(absent).is_not_found());
  ASSERT_EQ(batch.pairs(pairs).size(), 1u);
  EXPECT_TRUE((*batch.pairs(pairs).begin()).value == value);
}

}  // namespace
}  // namespace isotherm::db_batch_test
