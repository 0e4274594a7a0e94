// Who is told of changes, and what replies wait for (executor/commit_sink.h): of every operation
// and every way that an item can come or go, on the host and with the index on a fake device, which
// may be lost on the way.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "fake_device/gated_root_table.h"
#include "items/poison.h"
#include "models/change_log.h"
#include "models/history.h"
#include "models/pile.h"

namespace isotherm::commit_test {
namespace {

using Reason = ItemChange::Reason;
using Fate = DemotionHook::Fate;
using Started = Worker::Started;

// `lost`: the device fails after some calls, and the host takes over.
enum class Where : uint8_t { host, device, lost };

class CommitTest : public ::testing::TestWithParam<Where> {
 protected:
  void start(Options options = {}) {
    options.databases = 3;
    options.max_value_bytes = 50'000;
    engine.reset();
    if (GetParam() == Where::host) {
      engine = std::make_unique<Engine>(options, clock);
    } else {
      engine = std::make_unique<Engine>(options, clock, gated_root_tiers_maker(device, gates));
    }
    engine->set_commit_sink(&log);
    engine->set_demotion_hook(&log);
  }
  // From now on, where the case has it.
  void lose(uint64_t calls) {
    if (GetParam() == Where::lost) device.lose_after(calls);
  }
  static int rounds(int usual) {
    return usual / (GetParam() == Where::host ? 1 : 8) / (poison::sanitized ? 4 : 1);
  }

  static Status put(Worker& worker, std::string_view key, std::string_view value,
                    int64_t expiry = no_expiry) {
    Batch batch;
    batch.put(key, value, 0, expiry);
    worker.submit(batch);
    return batch.reply(0).status;
  }

  ManualClock clock{1'700'000'000'000};
  DeviceGates gates;
  FakeDevice device{7, uint64_t{1} << 28};
  ChangeLog log;
  std::unique_ptr<Engine> engine;
};

// One request of each kind on a key.
using Ask = void (*)(Batch& batch, const std::string& key, int64_t now_ms);
BitfieldStep set_byte() {
  BitfieldStep step;
  step.kind = BitfieldStep::Kind::set;
  step.bits = 8;
  step.operand = 65;
  return step;
}
// Each request has steps of its own, into which its answer is written, whichever thread answers it.
BitfieldStep* own_steps() {
  constexpr size_t at_once = 64;  // requests of a batch, and more
  thread_local std::vector<BitfieldStep> steps(at_once, set_byte());
  thread_local size_t next = 0;
  return &steps[next++ % at_once];
}
constexpr std::string_view parts[] = {"part"};

constexpr Ask states[] = {
    [](Batch&, const std::string&, int64_t) {},
    [](Batch& batch, const std::string& key, int64_t) { batch.put(key, "7"); },
    [](Batch& batch, const std::string& key, int64_t now) { batch.put(key, "x", 0, now + 50); },
    [](Batch& batch, const std::string& key, int64_t now) { batch.put(key, "12", 0, now + 1); },
    [](Batch& batch, const std::string& key, int64_t) { batch.put(key, "flags", 0, 0, 3); },
    [](Batch& batch, const std::string& key, int64_t) { batch.call(key, pile::push, parts); },
    [](Batch& batch, const std::string& key, int64_t now) {
      batch.call(key, pile::push, parts);
      batch.expire(key, now + 1, option::any_type);
    },
};

constexpr Ask asked[] = {
    [](Batch& batch, const std::string& key, int64_t) { batch.get(key); },
    [](Batch& batch, const std::string& key, int64_t) { batch.put(key, "new"); },
    [](Batch& batch, const std::string& key, int64_t) { batch.put(key, "n", option::if_absent); },
    [](Batch& batch, const std::string& key, int64_t) { batch.put(key, "n", option::if_present); },
    [](Batch& batch, const std::string& key, int64_t) {
      batch.put(key, "n", option::if_version, 0, 0, 1);
    },
    [](Batch& batch, const std::string& key, int64_t) { batch.put(key, "n", option::keep_expiry); },
    [](Batch& batch, const std::string& key, int64_t) { batch.put(key, std::string_view("n")); },
    [](Batch& batch, const std::string& key, int64_t) { batch.erase(key); },
    [](Batch& batch, const std::string& key, int64_t) { batch.erase(key, option::want_previous); },
    [](Batch& batch, const std::string& key, int64_t) { batch.add(key, 5); },
    [](Batch& batch, const std::string& key, int64_t) { batch.append(key, "a"); },
    [](Batch& batch, const std::string& key, int64_t) { batch.prepend(key, "p"); },
    [](Batch& batch, const std::string& key, int64_t now) { batch.expire(key, now + 100); },
    [](Batch& batch, const std::string& key, int64_t now) { batch.expire(key, now - 1); },
    [](Batch& batch, const std::string& key, int64_t) { batch.expire(key, no_expiry); },
    [](Batch& batch, const std::string& key, int64_t now) {
      batch.expire(key, now + 100, option::expire_if_none);
    },
    [](Batch& batch, const std::string& key, int64_t) { batch.set_range(key, 3, "r"); },
    [](Batch& batch, const std::string& key, int64_t) { batch.set_bit(key, 9, true); },
    [](Batch& batch, const std::string& key, int64_t) {
      batch.bitfield(key, {own_steps(), 1});
    },
    [](Batch& batch, const std::string& key, int64_t) { batch.add_float(key, "0.5"); },
    [](Batch& batch, const std::string& key, int64_t) {
      batch.cancel(batch.get(key), batch.size());
    },
    [](Batch& batch, const std::string& key, int64_t) { batch.call(key, pile::size); },
    [](Batch& batch, const std::string& key, int64_t) { batch.call(key, pile::push, parts); },
    [](Batch& batch, const std::string& key, int64_t) { batch.call(key, pile::push_there, parts); },
    [](Batch& batch, const std::string& key, int64_t) { batch.call(key, pile::pop); },
    [](Batch& batch, const std::string& key, int64_t) { batch.call(key, pile::refuse); },
    [](Batch& batch, const std::string& key, int64_t now) {
      batch.expire(key, now + 100, option::any_type);
    },
};

// Each change has a version of its own, also where the reply shows an older one.
TEST_P(CommitTest, EveryOperationTellsWhatItDoesToEveryItem) {
  start();
  lose(300);
  Worker worker(*engine);
  int number = 0;
  for (const Ask state : states) {
    for (const Ask ask : asked) {
      const std::string key = "key:" + std::to_string(number++);
      Batch batch;
      state(batch, key, clock.now_ms());
      worker.submit(batch);
      batch.clear();
      clock.advance(2);
      const auto at = [&] { return log.entries().find({0, key}); };
      const bool was_there = at() != log.entries().end();
      const uint64_t version = log.version(0, key);
      const uint64_t changes = log.changes();
      ask(batch, key, clock.now_ms());
      worker.submit(batch);
      EXPECT_LE(log.changes(), changes + 1);
      const bool told = log.changes() != changes;
      EXPECT_EQ(log.version(0, key) > version, told) << "operation " << number;
      EXPECT_TRUE(told || was_there == (at() != log.entries().end()));
    }
  }
  log.compare(*engine);
  EXPECT_EQ(engine->stats().on_device, GetParam() == Where::device);
}

TEST_P(CommitTest, WhoReplaysRandomHistoriesHasTheStore) {
  Options options;
  if (GetParam() != Where::host) {
    options.gpu_values = 1 << 20;
    options.gpu_values_from = 64;
  }
  start(options);
  Worker worker(*engine);
  History history({.keys = 200, .databases = 3, .max_value_bytes = 50'000});
  const auto submit = [&](Batch& batch) { worker.submit(batch); };
  const int turns = rounds(600);
  for (int i = 0; i < turns && !HasFatalFailure(); ++i) {
    history.step(clock.now_ms(), submit);
    worker.maintain();
    if (i % 3 == 0) clock.advance(15);
    if (i == turns / 2) {
      worker.flush(1);
      history.model().clear(1);
    }
  }
  log.compare(*engine);
  if (HasFatalFailure()) return;
  // Values that lie on the device are lost with it: the log hears so, and the store goes on.
  if (GetParam() == Where::lost) device.lose_after(0);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(put(worker, "after", "x"), Status::ok);
    worker.flush_all();
    ASSERT_EQ(put(worker, "behind", std::to_string(i)), Status::ok);
    log.compare(*engine);
  }
  clock.advance(1'000'000);
  for (int i = 0; i < 100; ++i) worker.maintain();
  log.compare(*engine);
}

TEST_P(CommitTest, ValuesThatAreLostWithADeviceAreToldOf) {
  if (GetParam() != Where::lost) GTEST_SKIP();
  Options options;
  options.gpu_values = 1 << 20;
  options.gpu_values_from = 64;
  start(options);
  Worker worker(*engine);
  ASSERT_EQ(put(worker, "cold", std::string(500, 'v')), Status::ok);
  ASSERT_EQ(put(worker, "warm", "1"), Status::ok);
  for (int i = 0; i < 50; ++i) worker.maintain();
  ASSERT_EQ(engine->stats().values.values, 1u);
  const uint64_t version = log.version(0, "cold");
  device.lose_after(0);
  ASSERT_EQ(put(worker, "warm", "2"), Status::ok);
  EXPECT_EQ(log.count(Reason::lost), 1u);
  EXPECT_GT(log.version(0, "cold"), version);
  const uint64_t lost = log.version(0, "cold");
  ASSERT_EQ(put(worker, "cold", "new"), Status::ok);
  EXPECT_GT(log.version(0, "cold"), lost);
  log.compare(*engine);
}

// Requests of several threads on the same few keys, also of one batch.
TEST_P(CommitTest, ChangesOfAKeyAreToldInTheirOrder) {
  start();
  lose(200);
  constexpr int threads = 3;
  std::vector<std::thread> running;
  for (int thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      Worker worker(*engine);
      std::mt19937_64 random(thread + 1);
      const std::string keys[] = {"a", "b", "c", "d"};
      const int batches = rounds(1500);
      for (int i = 0; i < batches; ++i) {
        Batch batch;
        for (int row = 0; row < 5; ++row) {
          batch.select(static_cast<uint32_t>(random() % 2));
          asked[random() % std::size(asked)](batch, keys[random() % 4], clock.now_ms());
        }
        worker.submit(batch);
        batch.clear();
        worker.maintain();
        if (thread == 0 && i % 64 == 0) clock.advance(40);
        if (thread == 1 && i % 100 == 0) worker.flush(1);
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  log.compare(*engine);
  EXPECT_EQ(engine->stats().on_device, GetParam() == Where::device);
}

TEST_P(CommitTest, EvictionTellsWhatItDropsAndAsksBefore) {
  if (GetParam() == Where::lost) GTEST_SKIP() << "as on the host";
  const bool on_host = GetParam() == Where::host;
  for (const auto policy : {EvictionPolicy::allkeys_lru, EvictionPolicy::volatile_ttl}) {
    if (!on_host && policy == EvictionPolicy::volatile_ttl) continue;  // a round for each item
    for (const Fate fate : {Fate::dropped, Fate::taken, Fate::kept}) {
      Options options;
      options.maxmemory = 3 << 20;
      options.maxmemory_policy = policy;
      start(options);
      const auto own = std::make_unique<ChangeLog>();
      engine->set_commit_sink(own.get());
      engine->set_demotion_hook(own.get());
      // The others make room.
      own->fate = [&](const Item& item) {
        return item.key().back() % 8 == 0 ? fate : Fate::dropped;
      };
      {
        Worker worker(*engine);
        const std::string value(20'000, 'v');
        for (int i = 0; i < 400; i += 20) {
          Batch batch;
          std::vector<std::string> keys;
          for (int k = i; k < i + 20; ++k) keys.push_back("key:" + std::to_string(k));
          for (const std::string& key : keys) batch.put(key, value, 0, clock.now_ms() + 100'000);
          worker.submit(batch);
          batch.clear();
          worker.maintain();
        }
      }
      EXPECT_GT(own->count(Reason::evicted), 0u);
      EXPECT_EQ(own->count(Fate::dropped), own->count(Reason::evicted));
      EXPECT_GT(own->count(fate), 0u);
      own->compare(*engine);
      engine.reset();
    }
  }
}

class WithheldTest : public CommitTest {
 protected:
  void SetUp() override {
    start();
    if (GetParam() == Where::lost) {
      device.lose_after(0);
      Worker worker(*engine);
      ASSERT_EQ(put(worker, "first", "x"), Status::ok);
      ASSERT_FALSE(engine->stats().on_device);
    }
    log.withholds = true;
  }
  static uint32_t poll(Worker& worker, int& ended) {
    return worker.poll([&](Batch&, bool end) { ended += end ? 1 : 0; });
  }
};

TEST_P(WithheldTest, RepliesAreReadyWhenTheSinkSaysSo) {
  Worker worker(*engine, false);
  int done = 0;
  Batch first;
  first.on_done([](Batch&, void* count) { ++*static_cast<int*>(count); }, &done);
  first.put("key", "1");
  first.get("key");
  ASSERT_EQ(worker.start(first), Started::under_way);
  while (log.waiters() != 1) worker.maintain();
  // Later batches run and see what it did; their replies wait, too.
  Batch second;
  second.append("key", "2");
  second.get("key");
  ASSERT_EQ(worker.start(second), Started::under_way);
  while (log.waiters() != 2) worker.maintain();
  EXPECT_EQ(log.entries().at({0, "key"}).value, "12");
  int ended = 0;
  EXPECT_EQ(poll(worker, ended), 2u);
  for (const Batch* batch : {&first, &second}) {
    EXPECT_FALSE(batch->ready(0));
    EXPECT_FALSE(batch->ready(1));
  }
  EXPECT_EQ(done, 0);
  log.let_go();
  while (poll(worker, ended) != 0) worker.wait();
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(done, 1);
  EXPECT_TRUE(first.ready(0));
  EXPECT_EQ(first.reply(1).value(), "1");
  EXPECT_EQ(second.reply(1).value(), "12");
}

// Where too much is not safe yet no write begins beside one that waits; reads do.
TEST_P(WithheldTest, AFullSinkAnswersRetry) {
  Worker worker(*engine, false);
  Batch first;
  first.put("key", "1");
  ASSERT_EQ(worker.start(first), Started::under_way);
  while (log.waiters() != 1) worker.maintain();
  log.is_full = true;
  Batch write;
  write.put("key", "2");
  EXPECT_EQ(worker.start(write), Started::retry);
  EXPECT_FALSE(write.ready(0));
  EXPECT_EQ(engine->stats().retried, 1u);
  Batch read;
  read.get("key");
  ASSERT_EQ(worker.start(read), Started::under_way);
  while (log.waiters() != 2) worker.maintain();
  log.open();
  int ended = 0;
  while (poll(worker, ended) != 0) worker.wait();
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(read.reply(0).value(), "1");
  // Who waits for nothing begins one all the same.
  EXPECT_NE(worker.start(write), Started::retry);
  worker.wait_for(write);
  EXPECT_EQ(write.reply(0).status, Status::ok);
  EXPECT_EQ(engine->stats().retried, 1u);
}

TEST_P(WithheldTest, WhoWaitsIsToldByAnotherThread) {
  std::atomic<bool> over{false};
  std::thread syncs([&] {
    while (!over) log.let_go();
    log.open();
  });
  {
    Worker worker(*engine);
    for (int i = 0; i < rounds(400); ++i) {
      const std::string value = std::to_string(i);
      Batch batch;
      batch.put("key", value);
      batch.get("key");
      worker.submit(batch);
      ASSERT_TRUE(batch.ready(1));
      EXPECT_EQ(batch.reply(1).value(), value);
      batch.clear();
      if (i % 50 == 0) worker.flush(0);
      worker.maintain();
    }
  }
  over = true;
  syncs.join();
  log.compare(*engine);
}

// What is there at once costs no wait.
TEST_P(WithheldTest, NothingWaitsForWhatIsThere) {
  log.open();
  Worker worker(*engine);
  Batch batch;
  batch.put("key", "value");
  worker.submit(batch);
  EXPECT_TRUE(batch.ready(0));
  batch.clear();
  EXPECT_FALSE(worker.busy());
}

// Otherwise the index would not grow where some replies always wait.
TEST_P(WithheldTest, UpkeepGoesOnBesideBatchesThatWait) {
  if (GetParam() == Where::device) GTEST_SKIP() << "its crew does the work";
  Worker worker(*engine, false);
  constexpr uint32_t rows = 300;
  std::vector<std::string> keys;
  for (uint32_t i = 0; i < 120 * rows; ++i) keys.push_back(std::to_string(i));
  const uint64_t splits = engine->stats().splits;
  std::unique_ptr<Batch> before;
  for (uint32_t i = 0; i < keys.size(); i += rows) {
    auto batch = std::make_unique<Batch>();
    for (uint32_t k = i; k < i + rows; ++k) batch->put(keys[k], "v");
    ASSERT_EQ(worker.start(*batch), Started::under_way);
    if (before != nullptr) {
      log.let_go();
      worker.wait_for(*before);
      before->clear();
    }
    before = std::move(batch);
    EXPECT_TRUE(worker.busy());
    worker.maintain();
  }
  EXPECT_GT(engine->stats().splits, splits);
  log.open();
  worker.wait_for(*before);
}

// A row that waits runs again later, and its reply waits for what that did.
class OneKeyGate final : public RowGate, public Awaited {
 public:
  Awaited* awaited(const Batch::Columns& columns, Batch::Row row) override {
    return !open && columns.key[row] == "slow" ? this : nullptr;
  }
  void begin(Waiter& its) override { waiter = &its; }
  std::atomic<bool> open{false};
  std::atomic<Waiter*> waiter{nullptr};
};

TEST_P(WithheldTest, RowsThatRunAgainAreWithheldAgain) {
  OneKeyGate gate;
  engine->set_row_gate(&gate);
  Worker worker(*engine, false);
  Batch batch;
  batch.put("quick", "1");
  batch.put("slow", "2");
  batch.get("slow");
  ASSERT_EQ(worker.start(batch), Started::under_way);
  while (log.waiters() != 1 || gate.waiter == nullptr) worker.maintain();
  EXPECT_FALSE(batch.ready(0));
  log.let_go();
  int ended = 0;
  poll(worker, ended);
  EXPECT_TRUE(batch.ready(0)) << "what it did is safe";
  EXPECT_FALSE(batch.ready(1));
  gate.open = true;
  gate.waiter.load()->there();
  while (log.waiters() != 1) poll(worker, ended);
  EXPECT_EQ(log.entries().count({0, "slow"}), 1u) << "it has run";
  EXPECT_FALSE(batch.ready(1));
  log.let_go();
  while (poll(worker, ended) != 0) worker.wait();
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(batch.reply(2).value(), "2");
  batch.clear();
  engine->set_row_gate(nullptr);
}

const auto name = [](const auto& param) {
  constexpr const char* names[] = {"host", "device", "lost"};
  return std::string(names[static_cast<int>(param.param)]);
};
INSTANTIATE_TEST_SUITE_P(All, CommitTest,
                         ::testing::Values(Where::host, Where::device, Where::lost), name);
INSTANTIATE_TEST_SUITE_P(All, WithheldTest,
                         ::testing::Values(Where::host, Where::device, Where::lost), name);

}  // namespace
}  // namespace isotherm::commit_test
