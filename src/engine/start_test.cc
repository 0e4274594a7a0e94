// Batches that are started without waiting for their ends: on the host, where only a gate can make
// rows wait, and with a device that stands still while the test says so.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "fake_device/gated_root_table.h"
#include "items/poison.h"
#include "models/key_latches.h"

namespace isotherm::start_test {
namespace {

using Started = Worker::Started;

constexpr uint64_t device_bytes = uint64_t{1} << 28;

class StartTest : public ::testing::Test {
 protected:
  static std::string text(const Batch& batch, Batch::Row row) {
    const Reply& reply = batch.reply(row);
    return reply.status == Status::ok ? std::string(reply.value()) : "(none)";
  }
  static void put(Worker& worker, std::string_view key, std::string_view value) {
    Batch batch;
    batch.put(key, value);
    worker.submit(batch);
    ASSERT_EQ(batch.reply(0).status, Status::ok);
  }
  // Polls until all have ended; how many were shown as ended.
  static int finish(Worker& worker) {
    int ended = 0;
    const auto count = [&](Batch&, bool end) { ended += end ? 1 : 0; };
    while (worker.poll(count) != 0) worker.wait();
    return ended;
  }

  static Options with_values() {
    Options options;
    options.gpu_values = 1 << 20;
    options.gpu_values_from = 100;
    return options;
  }
  // Stores a value that then lies on the device.
  void store_away(std::string_view key, std::string_view value) {
    Worker worker(*engine);
    put(worker, key, value);
    put(worker, "warm", "1");
    for (int i = 0; i < 50; ++i) worker.maintain();
    ASSERT_EQ(engine->stats().values.values, 1u);
  }
  // Until all rows are answered but those that wait.
  static void wait_for_answers(Worker& worker) {
    bool answered = false;
    while (!answered) {
      worker.wait();
      worker.poll([&](Batch&, bool ended) {
        EXPECT_FALSE(ended);
        answered = true;
      });
    }
  }

  void use_device(Options options = {}) {
    engine = std::make_unique<Engine>(options, clock, gated_root_tiers_maker(device, gates));
  }

  ManualClock clock{1'700'000'000'000};
  DeviceGates gates;
  FakeDevice device{7, device_bytes};
  std::unique_ptr<Engine> engine = std::make_unique<Engine>(Options{}, clock);
};

TEST_F(StartTest, OnTheHostABatchHasEndedWhenItWasStarted) {
  Worker worker(*engine, false);
  int done = 0;
  Batch batch;
  batch.on_done([](Batch&, void* count) { ++*static_cast<int*>(count); }, &done);
  batch.put("key", "value");
  batch.get("key");
  EXPECT_EQ(worker.start(batch), Started::ended);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(text(batch, 1), "value");
  EXPECT_EQ(worker.poll([](Batch&, bool) { FAIL(); }), 0u);
}

TEST_F(StartTest, RowsBehindOneThatWaitsKeepTheirOrder) {
  KeyLatches gates_of_keys{"slow"};
  AwaitedLatch& gate = gates_of_keys["slow"];
  engine->set_row_gate(&gates_of_keys);
  Worker worker(*engine, false);
  int done = 0;
  Batch batch;
  batch.on_done([](Batch&, void* count) { ++*static_cast<int*>(count); }, &done);
  batch.put("quick", "1");
  batch.put("slow", "2");
  batch.get("quick");
  batch.append("slow", "3");
  batch.get("slow");
  batch.erase("slow", option::want_previous);
  batch.get("slow");
  ASSERT_EQ(worker.start(batch), Started::under_way);
  EXPECT_EQ(gate.waiters(), 1u) << "those behind it wait for it";
  EXPECT_TRUE(batch.ready(0));
  EXPECT_EQ(text(batch, 2), "1");
  for (const Batch::Row row : {1, 3, 4, 5, 6}) EXPECT_FALSE(batch.ready(row)) << row;
  EXPECT_EQ(worker.poll([](Batch&, bool) { FAIL(); }), 1u);

  gate.open();
  EXPECT_EQ(done, 0) << "only the worker's own thread is told";
  EXPECT_EQ(finish(worker), 1);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(batch.reply(3).number, 2);
  EXPECT_EQ(text(batch, 4), "23");
  EXPECT_EQ(text(batch, 5), "23");
  EXPECT_EQ(batch.reply(6).status, Status::not_found);
}

TEST_F(StartTest, ARowMayWaitAgain) {
  KeyLatches gates_of_keys{"slow"};
  AwaitedLatch& gate = gates_of_keys["slow"];
  engine->set_row_gate(&gates_of_keys);
  Worker worker(*engine, false);
  Batch batch;
  batch.put("slow", "value");
  batch.get("slow");
  ASSERT_EQ(worker.start(batch), Started::under_way);
  gate.let_go();
  EXPECT_EQ(worker.poll([](Batch&, bool ended) { EXPECT_FALSE(ended); }), 1u);
  EXPECT_FALSE(batch.ready(0));
  gate.open();
  EXPECT_EQ(finish(worker), 1);
  EXPECT_EQ(text(batch, 1), "value");
}

TEST_F(StartTest, OtherBatchesGoOnWhileOneWaits) {
  KeyLatches gates_of_keys{"slow"};
  AwaitedLatch& gate = gates_of_keys["slow"];
  engine->set_row_gate(&gates_of_keys);
  Worker worker(*engine, false);
  Batch slow;
  slow.put("slow", "1");
  ASSERT_EQ(worker.start(slow), Started::under_way);
  for (int i = 0; i < 3; ++i) {
    Batch batch;
    batch.put("quick", std::string_view("abc").substr(i, 1));
    batch.get("quick");
    EXPECT_EQ(worker.start(batch), Started::ended);
    EXPECT_EQ(text(batch, 1), std::string(1, "abc"[i]));
  }
  Batch group;
  group.put("x", "y");
  group.group(0);
  EXPECT_EQ(worker.start(group), Started::ended);
  gate.open();
  EXPECT_EQ(finish(worker), 1);
}

TEST_F(StartTest, AGroupWaitsBeforeItTakesItsKeys) {
  KeyLatches gates_of_keys{"slow"};
  AwaitedLatch& gate = gates_of_keys["slow"];
  engine->set_row_gate(&gates_of_keys);
  std::thread other([&] {
    Worker worker(*engine);
    Batch batch;
    batch.put("slow", "1");
    batch.put("quick", "1");
    batch.group(0);
    worker.submit(batch);
    EXPECT_EQ(batch.reply(0).status, Status::ok);
  });
  // It may not have the other while it waits for its row.
  Worker worker(*engine);
  put(worker, "quick", "value");
  while (gate.waiters() == 0) put(worker, "quick", "value");
  gate.open();
  other.join();
}

// Batches of one worker that overlap for ever.
TEST_F(StartTest, BatchesThatOverlapHoldNoMemoryBackForEver) {
  Worker worker(*engine);
  const std::string value(10'000, 'v');
  constexpr int batches = 400;
  std::vector<Batch> two(2);
  for (int i = 0; i < batches; ++i) {
    Batch& batch = two[i % 2];
    batch.clear();
    batch.put("key", value);
    worker.submit(batch);
    if (i % 2 == 0) {
      Worker helper(*engine);
      helper.maintain();
    }
  }
  EXPECT_LT(engine->stats().retired_bytes, batches * value.size() / 4);
}

TEST_F(StartTest, ManyBatchesAreUnderWayOnADevice) {
  use_device();
  Worker worker(*engine, false);
  gates.rounds.close();
  std::vector<std::unique_ptr<Batch>> batches;
  std::vector<std::string> keys;
  std::atomic<int> wakes{0};
  worker.wake_by([&] { ++wakes; });
  for (uint32_t i = 0; i <= Worker::most_under_way; ++i) keys.push_back(std::to_string(i));
  for (const std::string& key : keys) {
    batches.push_back(std::make_unique<Batch>());
    batches.back()->put(key, key);
    batches.back()->get(key);
    const bool last = batches.size() == keys.size();
    ASSERT_EQ(worker.start(*batches.back()), last ? Started::retry : Started::under_way);
  }
  EXPECT_FALSE(batches.front()->ready(0));
  gates.rounds.open();
  EXPECT_EQ(finish(worker), static_cast<int>(Worker::most_under_way));
  EXPECT_GT(wakes, 0);
  for (uint32_t i = 0; i < Worker::most_under_way; ++i) EXPECT_EQ(text(*batches[i], 1), keys[i]);
  Batch& last = *batches.back();
  EXPECT_EQ(worker.start(last), Started::retry) << "the others are not cleared";
  batches.erase(batches.begin(), batches.end() - 1);
  EXPECT_EQ(worker.start(last), Started::under_way);
  worker.wait_for(last);
  EXPECT_EQ(text(last, 1), keys.back());
}

TEST_F(StartTest, AFullQueueAnswersRetryAndTellsWhenItHasRoom) {
  Options options;
  options.gpu_threads = 1;
  options.gpu_queue = 2;
  use_device(options);
  gates.rounds.close();
  Worker worker(*engine, false);
  Batch batches[4];
  for (Batch& batch : batches) batch.put("key", "value");
  // More rows than the quick path takes.
  while (batches[0].size() < 100) batches[0].put("key", "value");
  ASSERT_EQ(worker.start(batches[0]), Started::under_way);
  gates.rounds.wait_for(1);
  ASSERT_EQ(worker.start(batches[1]), Started::under_way);
  ASSERT_EQ(worker.start(batches[2]), Started::under_way);
  ASSERT_EQ(worker.start(batches[3]), Started::retry);
  EXPECT_FALSE(batches[3].ready(0));
  Worker other(*engine, false);
  Batch another;
  another.put("another", "value");
  ASSERT_EQ(other.start(another), Started::retry);
  EXPECT_EQ(engine->stats().queue_full, 2u);
  EXPECT_EQ(engine->stats().retried, 2u);
  gates.rounds.open();
  other.wait();
  other.poll([](Batch&, bool) { FAIL(); });
  EXPECT_EQ(other.start(another), Started::under_way);
  EXPECT_EQ(finish(other), 1);
  EXPECT_EQ(finish(worker), 3);
  EXPECT_EQ(engine->database(0).keys, 2u);
}

TEST_F(StartTest, RowsAreReadyWhileOthersAwaitTheirValues) {
  use_device(with_values());
  const std::string value(500, 'v');
  store_away("cold", value);
  gates.values.close();
  Worker worker(*engine, false);
  Batch batch;
  batch.get("warm");
  batch.get("cold");
  batch.put("cold", "new");
  batch.get("cold");
  ASSERT_EQ(worker.start(batch), Started::under_way);
  wait_for_answers(worker);
  EXPECT_EQ(text(batch, 0), "1");
  EXPECT_FALSE(batch.ready(1));
  EXPECT_EQ(text(batch, 3), "new");
  // More batches come through, also one that the value's batch is not cleared for.
  for (int i = 0; i < 20; ++i) {
    Batch more;
    more.get("warm");
    ASSERT_EQ(worker.start(more), Started::under_way);
    worker.wait_for(more);
    EXPECT_EQ(text(more, 0), "1");
  }
  gates.values.open();
  worker.wait_for(batch);
  EXPECT_EQ(text(batch, 1), value);
}

// A request that builds on a value runs again when that is there, and rows of its key behind it.
TEST_F(StartTest, RowsThatBuildOnAValueWaitForItWithoutARound) {
  use_device(with_values());
  const std::string value(500, 'v');
  store_away("cold", value);
  gates.values.close();
  Worker worker(*engine, false);
  Batch batch;
  batch.get("cold");
  batch.append("cold", "1");
  batch.append("cold", "2");
  batch.put("warm", "3");
  batch.get("cold");
  batch.erase("cold");
  batch.get("cold");
  ASSERT_EQ(worker.start(batch), Started::under_way);
  wait_for_answers(worker);
  EXPECT_TRUE(batch.ready(3));
  for (const Batch::Row row : {0, 1, 2, 4, 5, 6}) EXPECT_FALSE(batch.ready(row)) << row;
  // Nobody else's round waits.
  put(worker, "another", "value");
  gates.values.open();
  worker.wait_for(batch);
  EXPECT_EQ(text(batch, 0), value);
  EXPECT_EQ(batch.reply(1).number, 501);
  EXPECT_EQ(batch.reply(2).number, 502);
  EXPECT_EQ(text(batch, 4), value + "12");
  EXPECT_EQ(batch.reply(5).status, Status::ok);
  EXPECT_EQ(batch.reply(6).status, Status::not_found);
}

// Somebody changes it meanwhile: it builds on what is there then.
TEST_F(StartTest, ARowThatWaitsBuildsOnWhatIsThereInTheEnd) {
  use_device(with_values());
  store_away("cold", std::string(500, 'v'));
  gates.values.close();
  Worker worker(*engine, false);
  Batch batch;
  batch.append("cold", "1");
  ASSERT_EQ(worker.start(batch), Started::under_way);
  wait_for_answers(worker);
  put(worker, "cold", "new");
  gates.values.open();
  worker.wait_for(batch);
  batch.clear();
  batch.get("cold");
  worker.submit(batch);
  EXPECT_EQ(text(batch, 0), "new1");
}

TEST_F(StartTest, AGroupComesThroughOnADevice) {
  use_device();
  Worker worker(*engine, false);
  Worker waiting(*engine);
  for (int i = 0; i < 10; ++i) {
    Batch batch;
    batch.get("a");
    batch.guard([](Batch& guarded, Batch::Row row, void*) { EXPECT_TRUE(guarded.ready(row - 1)); });
    batch.put("a", "1");
    ASSERT_EQ(worker.start(batch), Started::under_way);
    put(waiting, "b", "2");
    worker.wait_for(batch);
    EXPECT_EQ(batch.reply(1).status, Status::ok);
  }
}

// Threads with several batches under way each, and the device lost under them.
TEST_F(StartTest, NothingIsLostWhenTheDeviceIs) {
  use_device();
  constexpr int threads = 3;
  constexpr int turns = poison::sanitized ? 30 : 100;
  constexpr int at_once = 4;
  device.lose_after(300);
  std::vector<std::thread> running;
  for (int thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      Worker worker(*engine, false);
      std::vector<std::string> keys;
      std::vector<std::unique_ptr<Batch>> batches;
      for (int i = 0; i < at_once; ++i) {
        keys.push_back(std::to_string(thread) + ":" + std::to_string(i));
        batches.push_back(std::make_unique<Batch>());
      }
      for (int turn = 1; turn <= turns; ++turn) {
        for (int i = 0; i < at_once; ++i) {
          batches[i]->add(keys[i], 1);
          while (worker.start(*batches[i]) == Started::retry) worker.wait();
        }
        for (auto& batch : batches) {
          worker.wait_for(*batch);
          EXPECT_EQ(batch->reply(0).number, turn);
          batch->clear();
        }
        worker.maintain();
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  EXPECT_FALSE(engine->stats().on_device);
}

}  // namespace
}  // namespace isotherm::start_test
