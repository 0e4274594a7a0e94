// Groups: rows behind guards, alone and beside other threads.
#include <gtest/gtest.h>

#include <array>
#include <charconv>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "items/poison.h"

namespace isotherm::group_test::group_test {
namespace {

int64_t number_in(const Reply& reply) {
  int64_t number = 0;
  std::from_chars(reply.data, reply.data + reply.size, number);
  return number;
}

TEST(Group, AGuardSeesTheRowsBeforeItAndChangesThoseBehindIt) {
  const ManualClock clock{1000};
  Engine engine({}, clock);
  Worker worker(engine);
  Batch batch;
  batch.put("a", "1");
  batch.get("a");
  std::vector<Batch::Row> called;
  batch.guard(
      [](Batch& guarded, Batch::Row row, void* context) {
        static_cast<std::vector<Batch::Row>*>(context)->push_back(row);
        EXPECT_EQ(guarded.reply(1).value(), "1");
        guarded.columns().value[row] = guarded.reply(1).value();
        guarded.cancel(row + 1, row + 2);
      },
      &called);
  batch.put("b", "");
  batch.erase("a");
  batch.get("b");
  batch.get("a");
  EXPECT_TRUE(batch.has_groups());
  worker.submit(batch);
  EXPECT_EQ(called, std::vector<Batch::Row>{2});
  EXPECT_EQ(batch.reply(2).status, Status::ok);
  EXPECT_EQ(batch.reply(3).status, Status::not_found);
  EXPECT_EQ(batch.reply(4).value(), "1");
  EXPECT_EQ(batch.reply(5).value(), "1");
  batch.clear();
  EXPECT_FALSE(batch.has_groups());
  EXPECT_TRUE(batch.guards().empty());
}

TEST(Group, GuardsMayFollowOneAnotherAndStandAtBothEnds) {
  const ManualClock clock{1000};
  Engine engine({}, clock);
  Worker worker(engine);
  Batch batch;
  int calls = 0;
  const auto count = [](Batch&, Batch::Row, void* context) { ++*static_cast<int*>(context); };
  batch.guard(count, &calls);
  batch.put("a", "1");
  batch.guard(count, &calls);
  batch.guard(count, &calls);
  batch.append("a", "2");
  batch.guard(count, &calls);
  worker.submit(batch);
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(batch.reply(1).number, 2);
}

TEST(Group, UnlessUnchangedCancelsWhereAVersionIsAnother) {
  const ManualClock clock{1000};
  Engine engine({}, clock);
  Worker worker(engine);
  Batch batch;
  batch.put("a", "1");
  batch.put("b", "1");
  worker.submit(batch);
  const uint64_t versions[] = {batch.reply(0).version, batch.reply(1).version};
  batch.clear();
  // Compares three keys, of which the last is absent, and then writes two.
  const auto swap = [&](uint64_t a, uint64_t b, uint64_t absent, const char* value) {
    batch.clear();
    const std::array<uint64_t, 3> expected{a, b, absent};
    const char* const keys[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; ++i) {
      batch.note(batch.get(keys[i]), static_cast<int64_t>(expected[i]));
    }
    batch.unless_unchanged(0);
    batch.put("a", value);
    batch.put("d", value);
    batch.group(0);
    const Batch::Row behind = batch.get("a");
    worker.submit(batch);
    EXPECT_EQ(batch.reply(3).status, batch.reply(4).status);
    return std::string(batch.reply(behind).value());
  };
  EXPECT_EQ(swap(versions[0], versions[1] + 1, 0, "wrong"), "1");
  EXPECT_EQ(swap(versions[0] - 1, versions[1], 0, "wrong"), "1");
  EXPECT_EQ(swap(0, versions[1], 0, "wrong"), "1") << "it is there";
  EXPECT_EQ(swap(versions[0], versions[1], 1, "wrong"), "1") << "it is not there";
  EXPECT_EQ(batch.reply(3).status, Status::not_found) << "cancelled";
  EXPECT_EQ(swap(versions[0], versions[1], 0, "2"), "2");
  EXPECT_EQ(batch.reply(4).status, Status::ok);
  EXPECT_EQ(swap(versions[0], versions[1], 0, "wrong"), "2") << "it has another since";
}

// A guard speaks for the rows behind it, so it goes with them.
TEST(Group, AGuardBeforeACancelledRowIsNotCalled) {
  const ManualClock clock{1000};
  Engine engine({}, clock);
  Worker worker(engine);
  Batch batch;
  int calls = 0;
  const auto count = [](Batch&, Batch::Row, void* context) { ++*static_cast<int*>(context); };
  batch.get("a");
  batch.guard([](Batch& guarded, Batch::Row row, void*) { guarded.cancel(row, row + 2); });
  batch.put("a", "1");
  batch.guard(count, &calls);
  batch.put("b", "2");
  batch.guard(count, &calls);
  batch.put("c", "3");
  worker.submit(batch);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(batch.reply(2).status, Status::not_found);
  EXPECT_EQ(batch.reply(3).status, Status::ok);
}

TEST(Group, AFlushStandsBetweenTheRowsBeforeItAndThoseBehindIt) {
  const ManualClock clock{1000};
  Engine engine({}, clock);
  Worker worker(engine);
  Batch batch;
  const auto text = [&](Batch::Row row) {
    const Reply& reply = batch.reply(row);
    return reply.status == Status::ok ? std::string(reply.value()) : "(none)";
  };
  batch.select(1);
  batch.put("a", "of 1");
  batch.select(0);
  batch.put("a", "before");
  const Batch::Row before = batch.get("a");
  EXPECT_EQ(batch.flush(0, 1), before + 1);
  const Batch::Row behind = batch.get("a");
  batch.append("a", "x");
  const Batch::Row first = batch.get("a");
  batch.unless_absent(first);
  batch.put("a", "wrong");
  batch.group(first);
  const Batch::Row appended = batch.get("a");
  batch.flush(0, 1);
  const Batch::Row last = batch.get("a");
  batch.select(1);
  const Batch::Row of_another = batch.get("a");
  worker.submit(batch);
  EXPECT_EQ(text(before), "before");
  EXPECT_EQ(text(behind), "(none)");
  EXPECT_EQ(text(appended), "x");
  EXPECT_EQ(text(last), "(none)");
  EXPECT_EQ(text(of_another), "of 1");
  EXPECT_EQ(engine.database(0).keys, 0u);
}

// Threads move amounts between two accounts; whoever looks finds the same sum.
TEST(Group, OthersSeeAllOfItOrNothing) {
  constexpr int moves = poison::sanitized ? 5'000 : 20'000;
  const ManualClock clock{1000};
  Engine engine({}, clock);
  struct Move {
    std::string from;
    std::string to;
  };
  const auto move = [](Batch& batch, Batch::Row row, void* context) {
    auto& texts = *static_cast<Move*>(context);
    texts.from = std::to_string(number_in(batch.reply(row - 2)) - 1);
    texts.to = std::to_string(number_in(batch.reply(row - 1)) + 1);
    batch.columns().value[row] = texts.from;
    batch.columns().value[row + 1] = texts.to;
  };
  const auto work = [&](int number) {
    Worker worker(engine);
    Batch batch;
    Move texts;
    for (int i = 0; i < moves; ++i) {
      batch.get("a");
      batch.get("b");
      batch.view(0);
      worker.submit(batch);
      EXPECT_EQ(number_in(batch.reply(0)) + number_in(batch.reply(1)), 0);
      batch.clear();
      const bool back = number % 2 == 1;
      batch.get(back ? "b" : "a");
      batch.get(back ? "a" : "b");
      batch.guard(move, &texts);
      batch.put(back ? "b" : "a", "");
      batch.put(back ? "a" : "b", "");
      worker.submit(batch);
      batch.clear();
    }
  };
  std::vector<std::thread> threads;
  for (int number = 0; number < 3; ++number) threads.emplace_back(work, number);
  for (std::thread& thread : threads) thread.join();
  Worker worker(engine);
  Batch batch;
  batch.get("a");
  worker.submit(batch);
  EXPECT_EQ(number_in(batch.reply(0)), -moves);
}

}  // namespace
}  // namespace isotherm::group_test::group_test
