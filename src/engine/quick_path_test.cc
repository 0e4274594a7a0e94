// Small batches that a network thread leads to a device in steps: it never waits, others' batches
// go with its own, what is left lying is finished, and every answer is the one that the crew's way
// would give, also when the device is lost.
#include "engine/quick_path.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "fake_device/fake_root_table.h"
#include "fake_device/gated_root_table.h"
#include "items/poison.h"
#include "models/history.h"

namespace isotherm::quick_path_test {
namespace {

using Started = Worker::Started;

constexpr uint64_t device_bytes = uint64_t{1} << 28;

// A network thread's worker: it looks after its batches as a loop does, and sleeps when it may.
class Loop {
 public:
  explicit Loop(Engine& engine) : worker(engine, false) {
    worker.wake_by([this] {
      const std::lock_guard guard(mutex_);
      woken_ = true;
      ++wakes_;
      told_.notify_one();
    });
  }
  // One turn; how many batches ended.
  int turn() {
    if (!worker.linger() && worker.rest()) {
      std::unique_lock lock(mutex_);
      told_.wait(lock, [&] { return std::exchange(woken_, false); });
    }
    int ended = 0;
    worker.poll([&](Batch&, bool end) { ended += end ? 1 : 0; });
    return ended;
  }
  // Starts it and takes turns until it has ended.
  void run(Batch& batch, int64_t now_ms) {
    while (worker.start(batch, now_ms) == Started::retry) {
    }
    while (worker.poll([](Batch&, bool) {}) != 0) turn();
  }

  int wakes() {
    const std::lock_guard guard(mutex_);
    return wakes_;
  }

  Worker worker;

 private:
  std::mutex mutex_;
  std::condition_variable told_;
  bool woken_ = false;
  int wakes_ = 0;
};

class QuickPathTest : public ::testing::Test {
 protected:
  void use_device(const Options& options = {}) {
    engine = std::make_unique<Engine>(options, clock, gated_root_tiers_maker(device, gates));
  }
  // A loop whose next batch is led in steps.
  std::unique_ptr<Loop> warm_loop() {
    auto loop = std::make_unique<Loop>(*engine);
    const uint64_t before = quick();
    while (quick() < before + 2) {
      Batch batch;
      batch.get("warm");
      loop->run(batch, clock.now_ms());
    }
    return loop;
  }
  uint64_t quick() const { return engine->stats().quick_batches; }
  static int64_t add_one(Loop& loop, std::string_view key, int64_t now_ms) {
    Batch batch;
    batch.add(key, 1);
    loop.run(batch, now_ms);
    return batch.reply(0).number;
  }

  ManualClock clock{1'700'000'000'000};
  DeviceGates gates;
  FakeDevice device{7, device_bytes};
  std::unique_ptr<Engine> engine;
};

TEST_F(QuickPathTest, AThreadIsNotHeldWhileTheDeviceStandsStill) {
  use_device();
  const auto loop = warm_loop();
  gates.rounds.close();
  Batch batch;
  batch.put("key", "value");
  batch.get("key");
  ASSERT_EQ(loop->worker.start(batch), Started::under_way);
  EXPECT_FALSE(loop->worker.rest()) << "nobody else looks after it";
  for (int i = 0; i < 3; ++i) loop->worker.poll([](Batch&, bool) { FAIL(); });
  // It looks for a while, and then it may sleep.
  while (!loop->worker.rest()) EXPECT_FALSE(loop->worker.linger());
  gates.rounds.wait_for(1);
  EXPECT_FALSE(batch.ready(0));
  // What comes now waits elsewhere.
  Batch more;
  more.get("key");
  ASSERT_EQ(loop->worker.start(more), Started::under_way);
  EXPECT_TRUE(loop->worker.rest());
  gates.rounds.open();
  for (int ended = 0; ended < 2;) ended += loop->turn();
  EXPECT_EQ(batch.reply(1).value(), "value");
}

// It has replies to write first.
TEST_F(QuickPathTest, WhoWasAnsweredLeavesTheNextRoundToWhoWaitsForIt) {
  use_device();
  const auto first = warm_loop();
  const auto second = warm_loop();
  gates.rounds.close();
  Batch one;
  Batch other;
  one.get("key");
  other.get("key");
  ASSERT_EQ(first->worker.start(one), Started::under_way);
  ASSERT_EQ(second->worker.start(other), Started::under_way);
  gates.rounds.open();
  while (first->worker.poll([](Batch&, bool) {}) != 0) {
  }
  EXPECT_FALSE(other.ready(0));
  while (second->turn() == 0) {
  }
  EXPECT_TRUE(other.ready(0));
}

TEST_F(QuickPathTest, AThreadThatLooksIsNotWoken) {
  use_device();
  const auto loop = warm_loop();
  const int before = loop->wakes();
  for (int i = 0; i < 50; ++i) {
    Batch batch;
    batch.get("key");
    ASSERT_EQ(loop->worker.start(batch), Started::under_way);
    while (!loop->worker.linger()) {
    }
    EXPECT_EQ(loop->worker.poll([](Batch&, bool ended) { EXPECT_TRUE(ended); }), 0u);
  }
  EXPECT_EQ(loop->wakes(), before);
}

TEST_F(QuickPathTest, WhatComesMeanwhileGoesTogetherAndWhoeverLooksLeads) {
  use_device();
  Loop other(*engine);
  Loop third(*engine);
  const auto loop = warm_loop();
  Loop* const loops[] = {loop.get(), &other, &third};
  gates.rounds.close();
  const uint64_t rounds = engine->stats().rounds.rounds;
  const uint64_t before = quick();
  Batch batches[3];
  for (int i = 0; i < 3; ++i) {
    batches[i].get("one");
    batches[i].get("two");
    ASSERT_EQ(loops[i]->worker.start(batches[i]), Started::under_way);
  }
  gates.rounds.open();
  // The first one's own round ends by it; then the second leads for the third, too.
  while (!loop->worker.linger()) {
  }
  while (!other.worker.linger()) {
  }
  EXPECT_TRUE(batches[2].ready(1));
  EXPECT_EQ(engine->stats().rounds.rounds, rounds + 2);
  EXPECT_EQ(quick(), before + 3);
  for (Loop* one : loops) EXPECT_EQ(one->turn(), 1);
}

// Few rows at a time bring the index to the host, many bring it back.
TEST_F(QuickPathTest, TheHostAnswersFewRowsThoughTheDeviceStandsStill) {
  Options options;
  options.rounds = {Scheduling::adaptive, 200};
  use_device(options);
  const auto loop = warm_loop();
  const auto stats = [&] { return engine->stats().root_table; };
  std::vector<std::string> keys;
  for (int i = 0; i < 150; ++i) keys.push_back(std::to_string(i));
  Batch many;
  for (const std::string& key : keys) many.put(key, key);
  loop->run(many, clock.now_ms());
  while (stats().host_entries != keys.size()) {
    Batch batch;
    batch.get("7");
    loop->run(batch, clock.now_ms());
    EXPECT_EQ(batch.reply(0).value(), "7");
  }
  gates.rounds.close();
  const uint64_t before = quick();
  Batch batch;
  batch.get("8");
  batch.add("n", 5);
  batch.put("9", "new");
  batch.erase("10");
  loop->run(batch, clock.now_ms());
  EXPECT_EQ(batch.reply(0).value(), "8");
  EXPECT_EQ(quick(), before + 1);
  EXPECT_EQ(stats().host_entries, 150u);
  EXPECT_EQ(engine->stats().rounds.switches, 0u);
  gates.rounds.open();
  while (stats().host_entries != 0) {
    Batch all;
    for (int i = 0; i < 400; ++i) all.get(keys[i % 150]);
    loop->run(all, clock.now_ms());
    EXPECT_EQ(all.reply(9).value(), "new");
    EXPECT_EQ(all.reply(10).status, Status::not_found);
  }
  EXPECT_EQ(engine->stats().rounds.switches, 1u);
}

TEST_F(QuickPathTest, WhatMayTakeLongIsTheCrews) {
  Options options;
  options.gpu_threads = 2;
  use_device(options);
  const auto loop = warm_loop();
  const uint64_t before = quick();
  std::vector<Batch> batches(3);
  while (batches[0].size() <= QuickPath::most_rows) batches[0].get("key");
  batches[1].put("key", "value");
  batches[1].group(0);
  batches[2].get("key");
  batches[2].guard([](Batch&, Batch::Row, void*) {});
  batches[2].get("key");
  for (Batch& batch : batches) {
    loop->run(batch, clock.now_ms());
    batch.clear();
  }
  EXPECT_EQ(quick(), before);
}

// After any number of steps the owner leaves it to the finisher.
TEST_F(QuickPathTest, EachStepMayBeTheFinishers) {
  use_device();
  const auto loop = warm_loop();
  for (int steps = 0; steps < 40; ++steps) {
    Batch batch;
    batch.add("n", 1);
    while (loop->worker.start(batch) == Started::retry) {
    }
    for (int i = 0; i < steps; ++i) loop->worker.poll([](Batch&, bool) {});
    loop->worker.wait_for(batch);
    ASSERT_EQ(batch.reply(0).number, steps + 1);
  }
}

// Replies of an `add` name each sum once, if no two rounds overlap.
TEST_F(QuickPathTest, SeveralLoopsShareAKey) {
  constexpr int threads = 3;
  constexpr int adds = poison::sanitized ? 60 : 300;
  use_device();
  const uint64_t before = quick();
  std::vector<std::vector<int64_t>> sums(threads);
  std::vector<std::thread> running;
  for (int thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      Loop loop(*engine);
      Batch large;
      for (int i = 0; i < adds; ++i) {
        sums[thread].push_back(add_one(loop, "n", clock.now_ms()));
        if (i % 16 != thread) continue;
        // Of the crew.
        while (large.size() <= QuickPath::most_rows) large.add("m", 1);
        loop.run(large, clock.now_ms());
        large.clear();
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  std::set<int64_t> all;
  for (const auto& some : sums) all.insert(some.begin(), some.end());
  EXPECT_EQ(all.size(), size_t{threads} * adds);
  EXPECT_EQ(*all.rbegin(), threads * adds);
  EXPECT_GT(quick(), before);
}

TEST_F(QuickPathTest, EveryAnswerEqualsTheModels) {
  constexpr uint64_t threads = 3;
  constexpr int batches = poison::sanitized ? 15 : 60;
  Options options;
  options.databases = 2;
  options.max_value_bytes = 50'000;
  options.gpu_values = 512 << 10;
  options.gpu_values_from = 64;
  FakeDevice two[] = {{3, device_bytes}, {4, device_bytes}};
  engine = std::make_unique<Engine>(options, clock, fake_root_tiers_maker({&two[0], &two[1]}));
  std::vector<std::thread> running;
  for (uint64_t thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      Loop loop(*engine);
      History::Setup setup;
      setup.seed = thread + 1;
      setup.prefix = "thread " + std::to_string(thread) + ":";
      setup.databases = options.databases;
      setup.max_value_bytes = options.max_value_bytes;
      setup.rows = 40;
      setup.keys = 200;
      History history(setup);
      const auto submit = [&](Batch& batch) { loop.run(batch, clock.now_ms()); };
      for (int i = 0; i < batches && !HasFatalFailure(); ++i) {
        history.step(clock.now_ms(), submit);
        if (i % 20 == 0) loop.worker.nudge();
      }
      history.check_all(clock.now_ms(), submit);
    });
  }
  for (std::thread& thread : running) thread.join();
  EXPECT_TRUE(engine->stats().on_device);
  EXPECT_GT(quick(), 0u);
  engine.reset();
}

// Nothing is answered twice, and nobody hangs.
TEST_F(QuickPathTest, NothingIsLostWhenTheDeviceIsInAnyStep) {
  constexpr int adds = 60;
  for (uint64_t left = 0; left < (poison::sanitized ? 12 : 40); ++left) {
    FakeDevice lost(left + 1, device_bytes);
    engine = std::make_unique<Engine>(Options{}, clock, fake_root_tiers_maker(lost));
    int done = 0;
    {
      const auto loop = warm_loop();
      lost.lose_after(left);
      for (int i = 1; i <= adds; ++i) {
        Batch batch;
        batch.on_done([](Batch&, void* count) { ++*static_cast<int*>(count); }, &done);
        batch.add("n", 1);
        loop->run(batch, clock.now_ms());
        ASSERT_EQ(batch.reply(0).number, i) << left;
        ASSERT_EQ(done, i);
      }
    }
    EXPECT_FALSE(engine->stats().on_device);
    engine.reset();
  }
}

TEST_F(QuickPathTest, ThreadsLoseNothingWhenTheDeviceIsLostUnderThem) {
  constexpr int threads = 3;
  constexpr int adds = poison::sanitized ? 40 : 150;
  use_device();
  device.lose_after(400);
  std::vector<std::thread> running;
  for (int thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      Loop loop(*engine);
      const std::string own = "own " + std::to_string(thread);
      for (int i = 1; i <= adds; ++i) {
        add_one(loop, "n", clock.now_ms());
        ASSERT_EQ(add_one(loop, own, clock.now_ms()), i);
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  Loop loop(*engine);
  EXPECT_EQ(add_one(loop, "n", clock.now_ms()), threads * adds + 1);
}

// The gate, and whoever wants the device alone, come through.
TEST_F(QuickPathTest, OthersComeThroughBesideIt) {
  use_device();
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    Loop loop(*engine);
    while (!stop) add_one(loop, "n", clock.now_ms());
  });
  Worker worker(*engine);
  for (int i = 0; i < 5; ++i) {
    Batch alone;
    alone.put("key", "value");
    alone.group(0);
    worker.submit(alone);
    EXPECT_EQ(alone.reply(0).status, Status::ok);
    alone.clear();
    worker.flush(1);
    worker.scan(0, 0, 10, [](const ScanItem&) {});
    worker.maintain();
  }
  stop = true;
  busy.join();
}

// The crew does the background work: items that were replaced are used again, and others evicted.
TEST_F(QuickPathTest, MemoryIsFreedBehindIt) {
  Options options;
  options.maxmemory = 1 << 20;
  options.maxmemory_policy = EvictionPolicy::allkeys_lru;
  use_device(options);
  const auto loop = warm_loop();
  const std::string value(2000, 'v');
  const uint64_t before = quick();
  for (int i = 0; engine->stats().evicted == 0 || i < 200; ++i) {
    Batch batch;
    const std::string key = std::to_string(i);
    batch.put(key, value);
    batch.put("again", value);
    loop->run(batch, clock.now_ms());
    ASSERT_EQ(batch.reply(0).status, Status::ok);
    ASSERT_LT(i, 100'000);
  }
  EXPECT_GT(quick(), before);
  while (engine->stats().retired_bytes > 10 * value.size()) loop->worker.nudge();
}

}  // namespace
}  // namespace isotherm::quick_path_test
