// Groups that stand still while a test says so: who waits for their keys, and who does not.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "fake_device/gated_root_table.h"
#include "models/held_keys.h"
#include "models/key_latches.h"

namespace isotherm::group_wait_test {
namespace {

using Started = Worker::Started;

// With the index on a device, whose crew is one thread, or on the host.
class GroupWaitTest : public ::testing::TestWithParam<bool> {
 protected:
  GroupWaitTest() {
    Options options;
    options.gpu_threads = 1;
    engine = GetParam()
                 ? std::make_unique<Engine>(options, clock, gated_root_tiers_maker(device, gates))
                 : std::make_unique<Engine>(options, clock);
  }

  static std::string text(const Batch& batch, Batch::Row row) {
    const Reply& reply = batch.reply(row);
    return reply.status == Status::ok ? std::string(reply.value()) : "(none)";
  }
  std::string look(const std::string& key) {
    Worker worker(*engine);
    Batch batch;
    batch.get(key);
    worker.submit(batch);
    return text(batch, 0);
  }
  void put(const std::string& key, const std::string& value) {
    Worker worker(*engine);
    Batch batch;
    batch.put(key, value);
    worker.submit(batch);
  }
  // Begins, and returns when those rows are ready, which others are not.
  static void start(Worker& worker, Batch& batch, const std::vector<Batch::Row>& ready) {
    ASSERT_EQ(worker.start(batch), Started::under_way);
    const auto are_ready = [&] {
      return std::all_of(ready.begin(), ready.end(), [&](auto row) { return batch.ready(row); });
    };
    while (!are_ready()) {
      worker.poll([](Batch&, bool) {});
      std::this_thread::yield();
    }
    for (Batch::Row row = 0; row < batch.size(); ++row) {
      const bool expected = std::find(ready.begin(), ready.end(), row) != ready.end();
      EXPECT_EQ(batch.ready(row), expected) << row;
    }
  }

  ManualClock clock{1'700'000'000'000};
  DeviceGates gates;
  FakeDevice device{7, uint64_t{1} << 28};
  std::unique_ptr<Engine> engine;
};

TEST_P(GroupWaitTest, RowsOnOtherKeysGoOnWhileAGuardWaits) {
  HeldKeys held(*engine, {"a", "b"});
  put("x", "1");
  EXPECT_EQ(look("x"), "1");
  Worker worker(*engine, false);
  Batch batch;
  batch.put("x", "2");
  batch.get("a");
  batch.get("x");
  batch.append("b", "er");
  start(worker, batch, {0, 2});
  EXPECT_EQ(text(batch, 2), "2");
  held.let_go();
  worker.wait_for(batch);
  EXPECT_EQ(text(batch, 1), "new");
  EXPECT_EQ(batch.reply(3).number, 5);
}

TEST_P(GroupWaitTest, NoGetIsAnsweredAtOnceWhileAGroupIsUnderWay) {
  put("a", "old");
  put("x", "1");
  Worker worker(*engine, false);
  std::string value;
  uint64_t version = 0;
  EXPECT_EQ(worker.get_at_once(0, "x", value, version), !GetParam());
  HeldKeys held(*engine, {"a"});
  EXPECT_FALSE(worker.get_at_once(0, "x", value, version));
  EXPECT_FALSE(worker.get_at_once(0, "a", value, version));
}

TEST_P(GroupWaitTest, AGroupWaitsWithWhatIsOnItsKeysAndKeepsNoThread) {
  HeldKeys held(*engine, {"a"});
  Worker worker(*engine, false);
  Batch batch;
  int calls = 0;
  batch.append("x", "1");
  const Batch::Row first = batch.get("a");
  batch.guard([](Batch&, Batch::Row, void* count) { ++*static_cast<int*>(count); }, &calls, first);
  batch.put("b", "2");
  batch.group(first);
  batch.append("x", "2");
  batch.append("b", "3");
  batch.get("a");
  batch.get("b");
  start(worker, batch, {0, 3});
  EXPECT_EQ(calls, 0);
  // Neither this thread nor one of the crew is kept.
  Batch other;
  other.put("y", "1");
  other.group(0);
  other.get("x");
  if (worker.start(other) == Started::under_way) worker.wait_for(other);
  EXPECT_EQ(text(other, 1), "12");
  EXPECT_EQ(look("b"), "(none)");
  held.let_go();
  worker.wait_for(batch);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(text(batch, 1), "new");
  EXPECT_EQ(batch.reply(4).number, 2);
  EXPECT_EQ(text(batch, 5), "new");
  EXPECT_EQ(text(batch, 6), "23");
  EXPECT_EQ(look("x"), "12") << "no row ran twice";
}

TEST_P(GroupWaitTest, WhoAskedFirstIsFirst) {
  HeldKeys held(*engine, {"a"});
  Worker worker(*engine, false);
  std::array<Batch, 4> batches;
  for (size_t i = 0; i < batches.size(); ++i) {
    batches[i].append("a", std::string_view("1234").substr(i, 1));
    batches[i].put(std::string_view("wxyz").substr(i, 1), "1");
    batches[i].group(0);
    ASSERT_EQ(worker.start(batches[i]), Started::under_way);
    // A crew of one takes one after the other.
    Batch behind;
    behind.get("nothing");
    if (worker.start(behind) == Started::under_way) worker.wait_for(behind);
  }
  held.let_go();
  for (Batch& batch : batches) worker.wait_for(batch);
  EXPECT_EQ(look("a"), "new1234");
}

// Of two groups one always waits and gets the key as soon as the other gives it back.
TEST_P(GroupWaitTest, ARowGetsItsTurnBesideGroupsWithoutEnd) {
  HeldKeys held(*engine, {"a"});
  Worker rows(*engine, false);
  Batch row;
  row.append("a", "!");
  ASSERT_EQ(rows.start(row), Started::under_way);
  Worker others(*engine, false);
  std::array<Batch, 2> groups;
  const auto begin = [&](Batch& group) {
    group.clear();
    group.put("a", "new");
    group.group(0);
    return others.start(group);
  };
  for (Batch& group : groups) ASSERT_EQ(begin(group), Started::under_way);
  held.let_go();
  int turns = 0;
  bool ended = false;
  while (!ended && turns < 1000) {
    rows.poll([&](Batch&, bool its_end) { ended |= its_end; });
    std::vector<Batch*> over;
    others.poll([&](Batch& group, bool its_end) {
      if (its_end) over.push_back(&group);
    });
    for (Batch* group : over) {
      do ++turns;
      while (begin(*group) == Started::ended);
    }
    std::this_thread::yield();
  }
  EXPECT_TRUE(ended);
  EXPECT_EQ(row.reply(0).number, 4);
  for (Batch& group : groups) others.wait_for(group);
}

TEST_P(GroupWaitTest, AFlushWaitsForGroupsAndTheyForIt) {
  HeldKeys held(*engine, {"a"});
  put("x", "1");
  Worker worker(*engine, false);
  Batch flush;
  flush.put("before", "1");
  flush.flush(0, 1);
  flush.put("behind", "1");
  start(worker, flush, {});
  EXPECT_EQ(look("x"), "1");
  held.let_go();
  worker.wait_for(flush);
  for (const char* key : {"a", "x", "before"}) EXPECT_EQ(look(key), "(none)") << key;
  EXPECT_EQ(look("behind"), "1");
}

TEST_P(GroupWaitTest, AViewSeesAGroupWholeAndOthersDoNotWait) {
  put("c", "old");
  HeldKeys held(*engine, {"a", "b"});
  Worker worker(*engine, false);
  Batch batch;
  const Batch::Row first = batch.get("c");
  batch.get("a");
  batch.view(first);
  batch.get("x");
  start(worker, batch, {2});
  held.let_go();
  worker.wait_for(batch);
  EXPECT_EQ(text(batch, 0), "old");
  EXPECT_EQ(text(batch, 1), "new");
}

// A view of a batch whose own group waits comes with it.
TEST_P(GroupWaitTest, AViewBesideAGroupThatWaits) {
  HeldKeys held(*engine, {"a"});
  Worker worker(*engine, false);
  Batch batch;
  batch.put("a", "mine");
  batch.put("b", "mine");
  batch.group(0);
  batch.get("b");
  batch.get("c");
  batch.view(2);
  batch.get("x");
  start(worker, batch, {4});
  held.let_go();
  worker.wait_for(batch);
  EXPECT_EQ(text(batch, 2), "mine");
  EXPECT_EQ(text(batch, 3), "(none)");
}

// What it counts would be there before it.
TEST_P(GroupWaitTest, NoRowRunsEarlyWhereAGuardLooksAtAllRows) {
  HeldKeys held(*engine, {"a"});
  Worker worker(*engine, false);
  Batch batch;
  batch.put("x", "1");
  const Batch::Row first = batch.get("a");
  Batch::Row answered = 0;
  batch.guard(
      [](Batch& its, Batch::Row, void* count) {
        for (Batch::Row row = 0; row < its.size(); ++row) {
          *static_cast<Batch::Row*>(count) += its.answered(row) ? 1 : 0;
        }
      },
      &answered);
  batch.put("b", "2");
  batch.group(first);
  batch.put("y", "1");
  start(worker, batch, {});
  held.let_go();
  worker.wait_for(batch);
  EXPECT_EQ(answered, 2U);
  EXPECT_EQ(look("y"), "1");
}

// Groups behind a view of their keys are whole, also where others have the view's other keys.
TEST_P(GroupWaitTest, AGroupBehindAViewOfItsKeysWaitsWithIt) {
  put("a", "1");
  HeldKeys held(*engine, {"c"});
  Worker worker(*engine, false);
  Batch batch;
  batch.get("a");
  batch.get("c");
  batch.view(0);
  // a is renamed b.
  const Batch::Row get = batch.get("a");
  batch.guard([](Batch& its, Batch::Row row, void*) {
    if (its.reply(row - 1).status != Status::ok) return its.cancel(row, row + 2);
    its.columns().value[row] = its.reply(row - 1).value();
  });
  batch.put("b", {});
  batch.erase("a");
  batch.group(get);
  start(worker, batch, {});
  held.let_go();
  worker.wait_for(batch);
  EXPECT_EQ(text(batch, 0), "1");
  EXPECT_EQ(text(batch, 1), "new");
  EXPECT_EQ(text(batch, get), "1");
  EXPECT_EQ(look("a"), "(none)");
  EXPECT_EQ(look("b"), "1");
}

TEST_P(GroupWaitTest, AGroupOnAKeyThatWaitsKeepsNoThread) {
  KeyLatches latches{"slow"};
  engine->set_row_gate(&latches);
  {
    Worker worker(*engine, false);
    Batch batch;
    batch.put("slow", "1");
    batch.put("b", "1");
    batch.group(0);
    batch.put("x", "1");
    start(worker, batch, {2});
    Batch other;
    other.put("b", "2");
    other.group(0);
    if (worker.start(other) == Started::under_way) worker.wait_for(other);
    latches["slow"].open();
    worker.wait_for(batch);
    EXPECT_EQ(look("b"), "1");
  }
  engine->set_row_gate(nullptr);
}

// Threads with several groups under way each, of which many wait for others.
TEST_P(GroupWaitTest, AmountsMoveWholeBetweenAccounts) {
  const size_t moves = GetParam() ? 120 : 3000;
  constexpr int threads = 3;
  constexpr size_t at_once = 4;
  const std::array<std::string, 5> accounts{"a", "b", "c", "d", "e"};
  struct Move {
    Batch batch;
    std::string from, to;
    bool under_way = false;
  };
  const auto number_in = [](const Reply& reply) {
    int64_t number = 0;
    if (reply.data != nullptr) std::from_chars(reply.data, reply.data + reply.size, number);
    return number;
  };
  const auto work = [&](size_t thread) {
    Worker worker(*engine, false);
    std::array<Move, at_once> all;
    for (size_t i = 0; i < moves; ++i) {
      Move& move = all[i % at_once];
      if (move.under_way) worker.wait_for(move.batch);
      move.batch.clear();
      const std::string& from = accounts[(i + thread) % accounts.size()];
      const std::string& to = accounts[(i * 3 + 1 + thread) % accounts.size()];
      const Batch::Row first = move.batch.get(from);
      move.batch.get(to);
      move.batch.guard(
          [](Batch& guarded, Batch::Row row, void* context) {
            Move& its = *static_cast<Move*>(context);
            int64_t left = 0, right = 0;
            const Reply& a = guarded.reply(row - 2);
            const Reply& b = guarded.reply(row - 1);
            if (a.data != nullptr) std::from_chars(a.data, a.data + a.size, left);
            if (b.data != nullptr) std::from_chars(b.data, b.data + b.size, right);
            its.from = std::to_string(left - 1);
            its.to = std::to_string(right + 1);
            guarded.columns().value[row] = its.from;
            guarded.columns().value[row + 1] = its.to;
          },
          &move);
      move.batch.put(from, "");
      move.batch.put(to, "");
      move.batch.group(first);
      if (from == to) {
        move.batch.clear();
        move.batch.add("none", 1);
      }
      move.batch.add("count", 1);
      Started started;
      while ((started = worker.start(move.batch)) == Started::retry) worker.wait();
      move.under_way = started == Started::under_way;
      if (i % 8 != 0) continue;
      Batch view;
      for (const std::string& account : accounts) view.get(account);
      view.view(0);
      worker.submit(view);
      int64_t sum = 0;
      for (Batch::Row row = 0; row < view.size(); ++row) sum += number_in(view.reply(row));
      EXPECT_EQ(sum, 0);
    }
    for (Move& move : all) {
      if (move.under_way) worker.wait_for(move.batch);
    }
  };
  std::vector<std::thread> running;
  for (size_t thread = 0; thread < threads; ++thread) running.emplace_back(work, thread);
  for (std::thread& thread : running) thread.join();
  EXPECT_EQ(look("count"), std::to_string(moves * threads));
}

INSTANTIATE_TEST_SUITE_P(All, GroupWaitTest, ::testing::Bool(), [](const auto& param) {
  return std::string(param.param ? "device" : "host");
});

// ---- What a group holds stays where it is ----

TEST(HeldItemTest, ExpirySparesThem) {
  ManualClock clock{1000};
  Engine engine({}, clock);
  Worker worker(engine);
  Batch batch;
  batch.put("held", "1", 0, 2000);
  batch.put("free", "1", 0, 2000);
  worker.submit(batch);
  batch.clear();
  HeldKeys held(engine, {"held"});
  clock.advance(5000);
  for (int i = 0; i < 2000 && engine.database(0).keys != 1; ++i) worker.maintain();
  for (int i = 0; i < 100; ++i) worker.maintain();
  EXPECT_EQ(engine.database(0).keys, 1u);
  held.let_go();
  EXPECT_TRUE(held.found(0)) << "at its time it is there";
}

// The cap sinks below what is stored, and most keys have to go.
TEST(HeldItemTest, EvictionSparesThem) {
  const ManualClock clock{1000};
  Options options;
  options.maxmemory = 64 << 20;
  options.maxmemory_policy = EvictionPolicy::allkeys_random;
  Engine engine(options, clock);
  Worker worker(engine);
  const std::string value(4000, 'v');
  constexpr size_t count = 4000;
  constexpr size_t held_count = 20;
  std::vector<std::string> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back(std::to_string(i));
  Batch batch;
  for (const std::string& key : keys) batch.put(key, value);
  worker.submit(batch);
  batch.clear();
  HeldKeys held(engine, {keys.begin(), keys.begin() + held_count});
  engine.set_maxmemory(8 << 20);
  for (int i = 0; i < 5000 && engine.stats().evicted < count / 2; ++i) worker.maintain();
  EXPECT_GE(engine.stats().evicted, count / 2) << "what is not held goes";
  held.let_go();
  for (size_t i = 0; i < held_count; ++i) EXPECT_TRUE(held.found(i)) << i;
}

}  // namespace
}  // namespace isotherm::group_wait_test
