// A Db whose calls lack memory: each says so by its status, and leaves nothing behind.
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "db/statuses.h"
#include "isotherm/db_batch.h"
#include "items/worth_threads.h"
#include "models/db_fixture.h"
#include "models/failing_memory.h"

namespace isotherm::db_memory_test {
namespace {

TEST(DbStatusTest, TheLackOfMemoryIsToldWithoutMemory) {
  try {
    throw std::bad_alloc();
  } catch (...) {
    const FailingMemory failing(0);
    const DbStatus status = status_of_exception();
    const DbStatus copy = status;
    EXPECT_TRUE(copy.is(DbStatus::Code::out_of_memory));
    EXPECT_FALSE(copy.text().empty());
    EXPECT_FALSE(FailingMemory::failed());
  }
}

TEST(DbStatusTest, AReasonThatThereIsNoMemoryForIsTheLackOfIt) {
  try {
    throw std::runtime_error("a reason that is longer than what a string has in itself");
  } catch (...) {
    const FailingMemory failing(0);
    DbStatus status;
    EXPECT_NO_THROW(status = status_of_exception());
    EXPECT_TRUE(status.is(DbStatus::Code::out_of_memory));
  }
}

TEST(DbStatusTest, WhatIsTooLongIsToldWithTheMost) {
  EXPECT_EQ(status_of(Status::too_large).text(),
            "the key or the value is longer than 536870912 bytes, the most that a Db takes");
}

using DbMemoryTest = DbFixture;

TEST_F(DbMemoryTest, AChangeOfATransactionSaysSo) {
  bool failed = true;
  int64_t works = 0;
  for (; failed; ++works) {
    const auto transaction = begin({.locks = true});
    DbStatus status;
    {
      const FailingMemory failing(works);
      EXPECT_NO_THROW(status = transaction->merge("key", merge_by::append, "value"));
      failed = FailingMemory::failed();
    }
    EXPECT_EQ(code(status), failed ? Code::out_of_memory : Code::ok);
    const DbStatus found = transaction->get("key", value_);
    EXPECT_EQ(code(found), failed ? Code::not_found : Code::ok);
  }
  EXPECT_GT(works, 1);
}

// Each shows its moment, while what is changed behind them is several times the memory.
TEST_F(DbMemoryTest, WritesGoOnWhateverSnapshotsAreHeld) {
  options_.memory = 2 << 20;
  ASSERT_TRUE(open().ok());
  constexpr int apart = 8;
  constexpr int puts = 400;
  const std::string value(20'000, 'v');
  std::vector<std::unique_ptr<const DbSnapshot>> snapshots;
  uint64_t most = 0;
  for (int i = 0; i < puts; ++i) {
    if (i % apart == 0) {
      ASSERT_TRUE(db_->snapshot(snapshots.emplace_back()).ok());
    }
    put("key" + std::to_string(i % 7), value + std::to_string(i));
    most = std::max(most, db_->statistics().memory);
  }
  EXPECT_LE(most, options_.memory / 2 * 3);
  for (size_t i = 1; i < snapshots.size(); ++i) {
    const auto last = static_cast<int>(apart * i) - 1;
    const std::string key = "key" + std::to_string(last % 7);
    ASSERT_TRUE(get(*db_, key, {.snapshot = snapshots[i].get()}) == value + std::to_string(last));
  }
}

// Where so many are held of each run's time that the files are not to show them one by one. They
// end soon, while reads go on.
TEST_F(DbMemoryTest, WritesEndWhereSnapshotsKeepTheMemory) {
  options_.memory = 2 << 20;
  ASSERT_TRUE(open().ok());
  constexpr int most_puts = 3000;  // that take several times the memory
  const std::string value(4000, 'v');
  std::vector<std::unique_ptr<const DbSnapshot>> snapshots;
  DbStatus status;
  uint64_t most = 0;
  for (int i = 0; i < most_puts && status.ok(); ++i) {
    ASSERT_TRUE(db_->snapshot(snapshots.emplace_back()).ok());
    status = db_->put("key" + std::to_string(i), value);
    most = std::max(most, db_->statistics().memory);
  }
  EXPECT_LE(most, options_.memory * 2);
  EXPECT_EQ(code(status), Code::out_of_memory);
  EXPECT_EQ(status.text().substr(0, 29), "snapshots and iterators keep ");
  EXPECT_TRUE(get("key0") == value);
  EXPECT_TRUE(get(*db_, "key0", {.snapshot = snapshots.back().get()}) == value);
  EXPECT_EQ(get(*db_, "key0", {.snapshot = snapshots.front().get()}), "not found");
  DbBatch batch(*db_);
  const DbBatch::Row row = batch.put("key0", value);
  EXPECT_EQ(code(batch.run()), Code::out_of_memory);
  EXPECT_EQ(code(batch.status(row)), Code::out_of_memory);
  // Of what is erased the runs keep more.
  batch.clear();
  const DbBatch::Row erased = batch.erase("key0");
  EXPECT_EQ(code(batch.run()), Code::out_of_memory);
  EXPECT_EQ(code(batch.status(erased)), Code::out_of_memory);
  snapshots.clear();
  put("key0", "new");
  EXPECT_EQ(get("key0"), "new");
}

// Else others would run over the cap from then on.
TEST_F(DbMemoryTest, AGroupByThreadsThatLacksMemoryGivesBackWhatItWasLent) {
  db_.reset();
  options_.memory = 2 << 20;
  DbState state(options_, folder_, files_, make_sorted_);
  constexpr int checked = worth_threads(1 << 14);
  constexpr size_t value_bytes = 12 << 20;
  WritePlan::Checks checks;
  for (int i = 0; i < checked; ++i) checks.emplace("absent" + std::to_string(i), 0);
  WriteGroup first, second;
  first.put("first", std::string(value_bytes, '1'));
  second.put("second", "2");
  const WritePlan::Part parts[] = {{&first, &checks}, {&second, nullptr}};
  int64_t refused = 0;
  bool failed = true;
  for (int64_t works = 0; failed; ++works) {
    const FailingMemory failing(works);
    try {
      refused += state.write(parts, {}, 2).ok() ? 0 : 1;
    } catch (const std::bad_alloc&) {
      ++refused;
    }
    failed = FailingMemory::failed();
  }
  EXPECT_GT(refused, 0);
  Worker worker(state.engine());
  Batch batch;
  const std::string more(2 * value_bytes, 'm');  // than the cap and what writes may take beyond it
  batch.put("more", more, option::over_cap);
  worker.submit(batch);
  EXPECT_EQ(batch.reply(0).status, Status::out_of_memory);
}

TEST_F(DbMemoryTest, WhatABatchHasNotFoundIsToldWithoutMemory) {
  DbBatch batch(*db_);
  const DbBatch::Row row = batch.get("absent");
  ASSERT_TRUE(batch.run().ok());
  const FailingMemory failing(0);
  EXPECT_TRUE(batch.status(row).is_not_found());
  EXPECT_FALSE(FailingMemory::failed());
}

}  // namespace
}  // namespace isotherm::db_memory_test
