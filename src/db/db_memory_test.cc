// A Db whose calls lack memory: each says so by its status, and leaves nothing behind.
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "db/statuses.h"
#include "isotherm/db_batch.h"
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
