// Memory that fails in a call of the library, at each of its allocations in turn: the call says so
// as its header promises, and what comes behind it finds all as it was.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "isotherm/fixed_table.h"
#include "isotherm/row_table.h"
#include "isotherm/store.h"
#include "models/failing_memory.h"

namespace isotherm::calls_without_memory_test {
namespace {

// Calls `call` with memory that works so many times; whether it has failed.
bool fails_in(int64_t works, const std::function<void()>& call) {
  FailingMemory memory(works);
  EXPECT_NO_THROW(call());
  return FailingMemory::failed();
}

// Makes calls with more and more memory, until none fails; `try_one` says whether one has.
void until_none_fails(const std::function<bool(int64_t works)>& try_one) {
  int64_t tries = 0;
  while (!::testing::Test::HasFailure() && try_one(tries)) ++tries;
  EXPECT_GT(tries, 0) << "nothing allocates";
}

// By a handle that has done nothing yet, also while a batch of it is not cleared.
void expect_statuses(const std::function<Status(Handle&)>& call) {
  Store store;
  for (const bool holds : {false, true}) {
    until_none_fails([&](int64_t works) {
      Handle(store).put("key", std::string(100, 'v'));
      Handle(store).put("other", std::string(200, 'w'));
      Handle handle(store);
      Batch held;
      held.get("other");
      if (holds) handle.submit(held);
      Status status = Status::pending;
      const bool failed = fails_in(works, [&] { status = call(handle); });
      const bool refused = status == Status::out_of_memory || status == Status::retry;
      EXPECT_TRUE(status == Status::ok || (failed && refused)) << to_string(status);
      std::string value;
      EXPECT_EQ(handle.get("other", value), Status::ok);
      EXPECT_EQ(value, std::string(200, 'w'));
      held.clear();
      return failed;
    });
  }
}

TEST(CallsWithoutMemory, AGet) {
  expect_statuses([](Handle& handle) {
    std::string value;
    return handle.get("key", value);
  });
}

TEST(CallsWithoutMemory, ChangesThatShowWhatWasThere) {
  expect_statuses([](Handle& handle) {
    std::string previous;
    return handle.put("key", "new", {}, &previous);
  });
  expect_statuses([](Handle& handle) {
    std::string previous;
    return handle.erase("key", &previous);
  });
}

TEST(CallsWithoutMemory, AClearRemovesAllOrSaysThatItDoesNot) {
  until_none_fails([](int64_t works) {
    Store store;
    Handle handle(store);
    handle.put("key", "value");
    Handle other(store);
    Status status = Status::pending;
    const bool failed = fails_in(works, [&] { status = other.clear(); });
    EXPECT_EQ(store.size() == 0, status == Status::ok) << to_string(status);
    return failed;
  });
}

TEST(CallsWithoutMemory, UpkeepIsDoneLater) {
  until_none_fails([](int64_t works) {
    Store store;
    Handle handle(store);
    handle.put("key", std::string(1000, 'v'));
    handle.clear();
    const bool failed = fails_in(works, [&] { handle.maintain(); });
    for (int steps = 0; steps < 1000 && handle.maintain(); ++steps) continue;
    EXPECT_EQ(handle.put("key", "value"), Status::ok);
    return failed;
  });
}

TEST(CallsWithoutMemory, AFixedTableStopsWhereItEnds) {
  FixedTable table;
  uint64_t next = 0;
  until_none_fails([&](int64_t works) {
    FixedHandle handle(table);
    std::vector<uint64_t> keys(20'000);
    std::generate(keys.begin(), keys.end(), [&] { return next++; });
    std::vector<uint64_t> values(keys.size());
    std::vector<uint8_t> found(keys.size());
    FixedHandle::Result result;
    const bool failed = fails_in(works, [&] { result = handle.put(keys, keys); });
    EXPECT_EQ(result.status == Status::ok, result.done == keys.size());
    EXPECT_EQ(handle.get(keys, values, found), result.done);
    EXPECT_TRUE(std::equal(values.begin(), values.begin() + static_cast<ptrdiff_t>(result.done),
                           keys.begin()));
    return failed;
  });
}

TEST(CallsWithoutMemory, ARowTableRefusesWhatItHasNoRoomFor) {
  for (const RowScores scores : {RowScores::none, RowScores::given}) {
    RowTable table({.row_bytes = 16, .scores = scores});
    uint64_t next = 0;
    until_none_fails([&](int64_t works) {
      RowHandle handle(table);
      std::vector<uint64_t> keys(5'000);
      std::generate(keys.begin(), keys.end(), [&] { return next++; });
      const std::vector<char> rows(keys.size() * 16, 'r');
      std::vector<char> out(rows.size());
      std::vector<uint8_t> found(keys.size());
      RowHandle::Result result;
      const bool failed = fails_in(works, [&] { result = handle.put(keys, rows.data()); });
      EXPECT_EQ(handle.get(keys, out.data(), found), keys.size() - result.refused);
      return failed;
    });
  }
}

}  // namespace
}  // namespace isotherm::calls_without_memory_test
