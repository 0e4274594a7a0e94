// Checkpoints of a Db: nobody's folder is lost by another's failure.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "models/db_fixture.h"
#include "models/failing_memory.h"

namespace isotherm::db_checkpoint_test {
namespace {

using DbCheckpointTest = DbFixture;

// Who finds it there is told so, and leaves it to the other.
TEST_F(DbCheckpointTest, OfTwoIntoOneFolderOneIsThere) {
  put("key", "value");
  for (int round = 0; round < 10; ++round) {
    const std::string there = root_ + "/checkpoint" + std::to_string(round);
    std::atomic<int> made{0};
    std::atomic<int> refused{0};
    const auto make = [&] {
      const DbStatus status = db_->checkpoint(there);
      made += status.ok() ? 1 : 0;
      refused += status.is(Code::invalid) ? 1 : 0;
    };
    std::thread other(make);
    make();
    other.join();
    ASSERT_EQ(made, 1);
    ASSERT_EQ(refused, 1);
    std::unique_ptr<Db> copy;
    ASSERT_TRUE(Db::open(options_, there, copy).ok());
    EXPECT_EQ(get(*copy, "key"), "value");
  }
}

TEST_F(DbCheckpointTest, ASnapshotIsOfItsOwnDbAlone) {
  put("key", "value");
  const std::string there = root_ + "/checkpoint";
  ASSERT_TRUE(db_->checkpoint(there).ok());
  std::unique_ptr<Db> copy;
  ASSERT_TRUE(Db::open(options_, there, copy).ok());
  std::unique_ptr<const DbSnapshot> snapshot;
  ASSERT_TRUE(db_->snapshot(snapshot).ok());
  std::string value;
  EXPECT_TRUE(db_->get("key", value, {snapshot.get()}).ok());
  EXPECT_TRUE(copy->get("key", value, {snapshot.get()}).is(Code::invalid));
  std::vector<std::string> values;
  EXPECT_TRUE(copy->multi_get({"key"}, values, {snapshot.get()}).front().is(Code::invalid));
  Db::Pairs pairs;
  EXPECT_TRUE(copy->range("", "", 1, pairs, {snapshot.get()}).is(Code::invalid));
  std::unique_ptr<DbIterator> iterator;
  DbRange range;
  range.snapshot = snapshot.get();
  EXPECT_TRUE(copy->iterate(range, iterator).is(Code::invalid));
}

TEST_F(DbCheckpointTest, ACheckpointThatFailsLeavesNoFolder) {
  put("key", "value");
  const std::string there = root_ + "/checkpoint";
  bool failed = true;
  int64_t works = 0;
  for (; failed; ++works) {
    DbStatus status;
    {
      const FailingMemory failing(works);
      status = db_->checkpoint(there);
      failed = FailingMemory::failed();
    }
    if (status.ok()) break;
    ASSERT_FALSE(std::filesystem::exists(there)) << works;
  }
  EXPECT_GT(works, 1);
  std::unique_ptr<Db> copy;
  ASSERT_TRUE(Db::open(options_, there, copy).ok());
  EXPECT_EQ(get(*copy, "key"), "value");
}

}  // namespace
}  // namespace isotherm::db_checkpoint_test
