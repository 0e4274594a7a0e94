// Writes that a policy puts off, by a clock that the test turns: the other rows of their batches
// and those of others go meanwhile, each key keeps its order in its batch, and groups do not wait.
#include "batch/write_delay.h"

#include <gtest/gtest.h>

#include <atomic>
#include <initializer_list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "fake_device/fake_root_table.h"
#include "models/pile.h"

namespace isotherm::write_delay_test {
namespace {

constexpr uint64_t device_bytes = uint64_t{1} << 28;
constexpr int64_t cycle = 100'000;
constexpr int64_t write_cycles = 4;

class WriteDelayTest : public ::testing::Test {
 protected:
  // Rounds wait for nobody, so the clock is for writes alone.
  static Options options() {
    Options options;
    options.rounds = {Scheduling::periodic, 1, cycle, write_cycles};
    options.gpu_threads = 2;
    return options;
  }

  // A batch of a worker that does not wait.
  struct Started {
    explicit Started(Engine& engine) : worker(engine, false) {}
    void start() { ASSERT_NE(worker.start(batch), Worker::Started::retry); }
    bool ended() {
      return worker.poll([](Batch&, bool) {}) == 0;
    }
    void wait_for(std::initializer_list<Batch::Row> rows) const {
      for (const Batch::Row row : rows) {
        while (!batch.ready(row)) std::this_thread::yield();
      }
    }
    std::string text(Batch::Row row) const {
      const Reply& reply = batch.reply(row);
      return reply.status == Status::ok ? std::string(reply.value()) : "(none)";
    }
    Worker worker;
    Batch batch;
  };

  // Turns the clock until the batch has ended, and then to where no line of the grid is.
  void turn_to_the_end_of(Started& one) {
    while (!one.ended()) {
      rounds_clock.advance(cycle / 10);
      std::this_thread::yield();
    }
    rounds_clock.advance(1);
  }
  void put(std::string_view key, std::string_view value) {
    Started one(*engine);
    one.batch.put(key, value);
    one.start();
    turn_to_the_end_of(one);
    ASSERT_EQ(one.batch.reply(0).status, Status::ok);
  }
  std::string get(std::string_view key) {
    Started one(*engine);
    one.batch.get(key);
    one.start();
    while (!one.ended()) std::this_thread::yield();
    return one.text(0);
  }

  ManualClock clock{1'700'000'000'000};
  ManualWaitClock rounds_clock{1};
  FakeDevice device{7, device_bytes};
  std::unique_ptr<Engine> engine =
      std::make_unique<Engine>(options(), clock, fake_root_tiers_maker(device), &rounds_clock);
};

// The policy of the test says when, and the clock is never turned.
class ToldPolicy final : public SchedulingPolicy {
 public:
  explicit ToldPolicy(std::atomic<uint64_t>& writes) : writes_(writes) {}
  BatchDecision decide(const WaitingRows& waiting) override {
    if (waiting.writes < writes_) return {0, 0, BatchRoute::bulk, BatchDecision::never};
    return {0, waiting.writes, BatchRoute::bulk, BatchDecision::never};
  }

 private:
  std::atomic<uint64_t>& writes_;
};

struct Told final : Awaited::Waiter {
  void there() override { told.fetch_add(1); }
  std::atomic<int> told{0};
};

TEST(WriteDelay, TellsAllAtOnceWhenThePolicySendsWrites) {
  std::atomic<uint64_t> wanted{3};
  ManualWaitClock clock{1};
  WriteDelay delay(std::make_unique<ToldPolicy>(wanted), clock);
  Told waiters[4];
  delay.begin(waiters[0]);
  delay.begin(waiters[1]);
  while (clock.waits() == 0) std::this_thread::yield();
  EXPECT_EQ(waiters[0].told, 0);
  EXPECT_EQ(delay.waiting(), 2u);
  delay.begin(waiters[2]);
  for (int i = 0; i < 3; ++i) {
    while (waiters[i].told == 0) std::this_thread::yield();
  }
  delay.begin(waiters[3]);
  EXPECT_EQ(delay.waiting(), 1u);
  wanted = 1;
  clock.advance(1);
  while (waiters[3].told == 0) std::this_thread::yield();
  for (const Told& waiter : waiters) EXPECT_EQ(waiter.told, 1);
}

// The clock stands still until all that was not put off is answered.
TEST_F(WriteDelayTest, RowsThatReadGoWhileThoseThatWriteWait) {
  put("old", "1");
  put("key", "before");
  Started one(*engine);
  one.batch.get("key");
  one.batch.put("key", "after");
  one.batch.get("old");
  one.batch.append("key", "wards");
  one.batch.get("key");
  one.batch.get("nothing");
  one.start();
  one.wait_for({0, 2, 5});
  EXPECT_EQ(get("key"), "before");
  for (const Batch::Row row : {1, 3, 4}) EXPECT_FALSE(one.batch.ready(row)) << row;
  EXPECT_FALSE(one.ended());
  turn_to_the_end_of(one);
  EXPECT_EQ(one.text(0), "before");
  EXPECT_EQ(one.text(2), "1");
  EXPECT_EQ(one.text(4), "afterwards");
  EXPECT_EQ(one.text(5), "(none)");
  EXPECT_EQ(get("key"), "afterwards");
}

TEST_F(WriteDelayTest, WhatGoesOfABatchGoesInOneRound) {
  put("even 0", "1");
  const RoundStats before = engine->stats().rounds;
  Started one(*engine);
  std::vector<std::string> keys;
  for (int i = 0; i < 40; ++i) keys.push_back((i % 2 == 0 ? "even " : "odd ") + std::to_string(i));
  for (int i = 0; i < 40; i += 2) {
    one.batch.get(keys[i]);
    one.batch.put(keys[i + 1], "2");
  }
  one.start();
  one.wait_for({0, 38});
  EXPECT_EQ(engine->stats().rounds.rounds, before.rounds + 1);
  EXPECT_EQ(engine->stats().rounds.rows, before.rows + 20) << "what waits is not looked up";
  turn_to_the_end_of(one);
  EXPECT_EQ(engine->stats().rounds.rounds, before.rounds + 2);
  EXPECT_EQ(engine->stats().rounds.rows, before.rows + 40);
  EXPECT_EQ(one.text(0), "1");
  EXPECT_EQ(get("odd 39"), "2");
}

TEST_F(WriteDelayTest, CallsThatOnlyReadDoNotWait) {
  const std::string_view parts[] = {"a", "b"};
  Started first(*engine);
  first.batch.call("pile", pile::push, parts);
  first.start();
  turn_to_the_end_of(first);
  Started reads(*engine);
  reads.batch.call("pile", pile::size);
  reads.batch.get("nothing");
  EXPECT_FALSE(reads.batch.writes());
  EXPECT_FALSE(reads.batch.only_gets());
  reads.start();
  while (!reads.ended()) std::this_thread::yield();
  Started mixed(*engine);
  mixed.batch.call("pile", pile::push, parts);
  mixed.batch.call("other", pile::size);
  mixed.start();
  mixed.wait_for({1});
  EXPECT_FALSE(mixed.ended());
  turn_to_the_end_of(mixed);
  EXPECT_EQ(reads.batch.reply(0).number, 2);
  EXPECT_EQ(mixed.batch.reply(0).number, 4);
  EXPECT_EQ(mixed.batch.reply(1).status, Status::not_found);
}

TEST_F(WriteDelayTest, GroupsAndFlushesDoNotWait) {
  put("key", "1");
  Started one(*engine);
  one.batch.append("key", "4");
  one.batch.get("other");
  one.start();
  one.wait_for({1});
  Worker worker(*engine);
  Batch group;
  group.append("key", "2");
  group.append("key", "3");
  group.group(0);
  worker.submit(group);
  EXPECT_EQ(get("key"), "123");
  worker.flush(0);
  EXPECT_EQ(get("key"), "(none)");
  EXPECT_FALSE(one.ended());
  turn_to_the_end_of(one);
  EXPECT_EQ(get("key"), "4");
}

// What waits when the device is lost is run on the host when its time comes, and nothing waits
// then.
TEST_F(WriteDelayTest, ALostDeviceLosesNoWriteThatWaits) {
  put("key", "1");
  Started one(*engine);
  one.batch.append("key", "2");
  one.batch.get("key");
  one.batch.get("other");
  one.start();
  one.wait_for({2});
  device.lose();
  EXPECT_EQ(get("key"), "1");
  EXPECT_FALSE(engine->stats().on_device);
  turn_to_the_end_of(one);
  EXPECT_EQ(one.text(1), "12");
  Worker worker(*engine);
  Batch batch;
  batch.append("key", "3");
  worker.submit(batch);
  EXPECT_EQ(get("key"), "123");
}

TEST_F(WriteDelayTest, NothingWaitsWhereTheStoreIsAboutToEnd) {
  Started one(*engine);
  one.batch.put("a", "1");
  one.start();
  EXPECT_FALSE(one.ended());
  engine->hurry_writes();
  while (!one.ended()) std::this_thread::yield();
  Started another(*engine);
  another.batch.put("a", "2");
  another.start();
  while (!another.ended()) std::this_thread::yield();
  EXPECT_EQ(get("a"), "2");
}

}  // namespace
}  // namespace isotherm::write_delay_test
