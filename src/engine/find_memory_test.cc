// Batches that need far more memory than they seem to: short APPENDs to long values, each of which
// makes a new item, and calls by which objects grow. At the cap they run in smaller parts, and none
// is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "items/arriving_item.h"
#include "models/failing_memory.h"
#include "models/pile.h"
#include "tree/tree.h"

namespace isotherm::find_memory_test {
namespace {

constexpr uint64_t cap = 8 << 20;
constexpr uint64_t long_value = 900'000;
constexpr Batch::Row many = 64;

class FindMemoryTest : public ::testing::Test {
 protected:
  FindMemoryTest() {
    options_.maxmemory = cap;
    options_.maxmemory_policy = EvictionPolicy::allkeys_lru;
    options_.hash_seed = 1;
    for (Batch::Row i = 0; i < many; ++i) keys_.push_back("key:" + std::to_string(i % 6));
  }
  ~FindMemoryTest() override {
    engine_.reset();
    if (!options_.tree.empty()) std::filesystem::remove_all(options_.tree);
  }
  void open() { engine_ = std::make_unique<Engine>(options_, clock_); }
  // False: built without RocksDB.
  bool open_tree() {
    std::string path = std::filesystem::temp_directory_path() / "isotherm-tree-XXXXXX";
    options_.tree = ::mkdtemp(path.data());
    try {
      open();
      return true;
    } catch (const TreeError&) {
      return false;
    }
  }
  void put(Worker& worker, const std::string& key, const std::string& value) {
    Batch batch;
    batch.put(key, value);
    worker.submit(batch);
    ASSERT_EQ(batch.reply(0).status, Status::ok);
  }
  // Each row stores a copy.
  void prepend_to_all(Batch& batch) {
    for (const std::string& key : keys_) batch.prepend(key, "abc");
  }
  static uint64_t refused(const Batch& batch) {
    uint64_t refused = 0;
    for (Batch::Row row = 0; row < batch.size(); ++row) {
      refused += batch.reply(row).status != Status::ok;
    }
    return refused;
  }

  ManualClock clock_{1000};
  Options options_;
  std::vector<std::string> keys_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(FindMemoryTest, ManyShortAppendsToLongValuesAreNotRefused) {
  open();
  Worker worker(*engine_);
  for (Batch::Row i = 0; i < 6; ++i) put(worker, keys_[i], std::string(long_value, 'v'));
  Batch batch;
  prepend_to_all(batch);
  worker.submit(batch);
  EXPECT_EQ(refused(batch), 0u);
  batch.clear();
  worker.maintain();
  EXPECT_LE(engine_->used_memory(), cap);
}

// They are answered before memory is looked for, which takes them out of the store.
TEST_F(FindMemoryTest, WhatWasShownStaysWhenTheBatchLooksForMemory) {
  open();
  Worker worker(*engine_);
  const std::string value(long_value, 'v');
  put(worker, "short", "value");
  put(worker, "replaced", "before");
  for (Batch::Row i = 0; i < 5; ++i) put(worker, keys_[i], std::string(long_value, 'o'));
  put(worker, keys_[5], value);
  Batch batch;
  batch.get("short");
  batch.get(keys_[5]);
  batch.put("replaced", "behind", option::want_previous);
  batch.erase("short");
  prepend_to_all(batch);
  worker.submit(batch);
  EXPECT_EQ(refused(batch), 0u);
  EXPECT_EQ(batch.reply(0).value(), "value");
  EXPECT_EQ(batch.reply(1).value(), value);
  EXPECT_EQ(batch.reply(2).value(), "before");
}

// It has gone from the store by then, and whoever received it knows that the store had taken it.
TEST_F(FindMemoryTest, AnItemThatHasArrivedDoesNotStayForWhoReceivedIt) {
  open();
  Worker worker(*engine_);
  for (Batch::Row i = 0; i < 6; ++i) put(worker, keys_[i], std::string(long_value, 'v'));
  const std::string name = "arrived";
  const auto arriving = engine_->arriving(name.size(), long_value);
  ASSERT_TRUE(arriving != nullptr && arriving->usable());
  arriving->append(std::string(long_value, 'a'));
  Batch batch;
  batch.put(name, arriving->value());
  batch.columns().options[0] |= option::in_place;
  batch.erase(name);
  prepend_to_all(batch);
  worker.submit(batch);
  EXPECT_EQ(refused(batch), 0u);
  EXPECT_LT(engine_->client_bytes(), long_value);
}

// A thread that the system lets stand still within a batch keeps what that has replaced from the
// other, which is refused rows then: so there are some attempts, of which one is without.
TEST_F(FindMemoryTest, ThreadsFindMemoryBesideEachOther) {
  open();
  const auto work = [&](uint64_t& sum) {
    Worker worker(*engine_);
    for (Batch::Row i = 0; i < 6; ++i) put(worker, keys_[i], std::string(long_value, 'v'));
    for (int i = 0; i < 3; ++i) {
      Batch batch;
      prepend_to_all(batch);
      worker.submit(batch);
      sum += refused(batch);
    }
  };
  uint64_t refusals = 1;
  for (int attempt = 0; attempt < 5 && refusals != 0; ++attempt) {
    uint64_t here = 0;
    uint64_t there = 0;
    std::thread thread(work, std::ref(there));
    work(here);
    thread.join();
    refusals = here + there;
  }
  EXPECT_EQ(refusals, 0u);
}

// One that does not fit alone, of which the next rows know nothing.
TEST_F(FindMemoryTest, ARowThatCannotFitIsRefusedAlone) {
  open();
  Worker worker(*engine_);
  const std::string value(long_value, 'v');
  for (Batch::Row i = 0; i < 6; ++i) put(worker, keys_[i], value);
  const std::string above(cap, 'a');
  Batch batch;
  batch.append("key:0", above);
  prepend_to_all(batch);
  worker.submit(batch);
  EXPECT_EQ(batch.reply(0).status, Status::out_of_memory);
  EXPECT_EQ(refused(batch), 1u);
}

// What a function takes is known only behind its call.
struct Growth {
  const Engine* engine;
  uint64_t most_used = 0;
};

bool grow(Object& object, ObjectCall& call) {
  constexpr uint64_t part = 10'000;
  auto& growth = *static_cast<Growth*>(call.context);
  Pile::of(object).push(std::string(part, 'p'));
  growth.most_used = std::max(growth.most_used, growth.engine->stats().used_memory);
  return true;
}

constexpr ObjectFunction grows{
    .type = ValueType::list, .change = grow, .make = Pile::make, .grows = true};

TEST_F(FindMemoryTest, ObjectsThatGrowBeyondTheirArgumentsStayNearTheCap) {
  open();
  Worker worker(*engine_);
  std::vector<std::string> names;
  for (int i = 0; i < 300; ++i) names.push_back("object:" + std::to_string(i));
  const std::string_view argument[] = {"a"};
  Growth growth{engine_.get()};
  for (int i = 0; i < 3; ++i) {
    Batch batch;
    for (const std::string& name : names) {
      for (int calls = 0; calls < 4; ++calls) batch.call(name, grows, argument, &growth);
    }
    worker.submit(batch);
    EXPECT_EQ(refused(batch), 0u);
    batch.clear();
    worker.maintain();
  }
  EXPECT_GT(growth.most_used, cap * 3 / 4);
  EXPECT_LE(growth.most_used, cap * 9 / 8);
}

TEST_F(FindMemoryTest, ObjectsThatNobodyMayEvictStayWithinTheCap) {
  options_.maxmemory_policy = EvictionPolicy::volatile_lru;
  open();
  Worker worker(*engine_);
  const std::string_view argument[] = {"a"};
  Growth growth{engine_.get()};
  Batch batch;
  for (int i = 0; i < 1200; ++i) batch.call(keys_[i % 6], grows, argument, &growth);
  worker.submit(batch);
  EXPECT_GT(refused(batch), 0u);
  EXPECT_LT(refused(batch), 900u);
  EXPECT_LE(growth.most_used, cap * 17 / 16);
}

// Rows of the key "slow" wait until they are told.
class SlowKey final : public RowGate, public Awaited {
 public:
  Awaited* awaited(const Batch::Columns& columns, Batch::Row row) override {
    return waiter_ == nullptr && columns.key[row] == "slow" ? this : nullptr;
  }
  void begin(Waiter& waiter) override { waiter_ = &waiter; }
  void tell() { waiter_->there(); }

 private:
  Waiter* waiter_ = nullptr;
};

// Its replies cannot be copied then, and it waits within its epoch.
TEST_F(FindMemoryTest, ABatchThatHasNoMemoryToLeaveItsEpochWaitsAllTheSame) {
  if (!open_tree()) GTEST_SKIP() << "built without RocksDB";
  Worker worker(*engine_, false);
  const std::string value(cap / 32, 'v');
  for (int i = 0; i < 40; ++i) put(worker, "other:" + std::to_string(i), value);
  bool failed = true;
  int64_t works = 0;
  for (; failed && !HasFailure(); ++works) {
    put(worker, "short", "value");
    SlowKey slow;
    engine_->set_row_gate(&slow);
    Batch batch;
    batch.get("short");
    batch.put("slow", "value");
    Worker::Started started = Worker::Started::retry;
    {
      const FailingMemory failing(works);
      EXPECT_NO_THROW(started = worker.start(batch));
      failed = FailingMemory::failed();
    }
    if (started == Worker::Started::under_way) slow.tell();
    worker.wait_for(batch);
    EXPECT_TRUE(failed || batch.reply(0).value() == "value");
    engine_->set_row_gate(nullptr);
  }
  EXPECT_GT(works, 3);
}

// Calls that make objects of nothing that they are given.
TEST_F(FindMemoryTest, NewObjectsThatNobodyMayEvictStayWithinTheCap) {
  options_.maxmemory_policy = EvictionPolicy::volatile_lru;
  open();
  Worker worker(*engine_);
  Growth growth{engine_.get()};
  uint64_t sum = 0;
  for (int i = 0; i < 1200; ++i) {
    const std::string key = "object:" + std::to_string(i);
    Batch batch;
    batch.call(key, grows, {}, &growth);
    worker.submit(batch);
    sum += refused(batch);
    worker.maintain();
  }
  EXPECT_GT(sum, 0u);
  EXPECT_LT(sum, 900u);
  EXPECT_LE(growth.most_used, cap * 17 / 16);
}

// The values come from files, and batches wait for them.
TEST_F(FindMemoryTest, WithATreeToo) {
  if (!open_tree()) GTEST_SKIP() << "built without RocksDB";
  Worker worker(*engine_, false);
  const std::string value(long_value, 'v');
  put(worker, "short", "value");
  for (Batch::Row i = 0; i < 6; ++i) put(worker, keys_[i], value);
  ASSERT_TRUE(engine_->tree()->flush());
  for (int i = 0; i < 20; ++i) put(worker, "other:" + std::to_string(i), value);
  Batch shows;
  shows.get("short");
  for (const std::string& key : keys_) shows.get(key);
  Batch batch;
  prepend_to_all(batch);
  const auto begin = [&](Batch& one) {
    while (worker.start(one) == Worker::Started::retry) worker.poll([](Batch&, bool) {});
  };
  begin(shows);
  begin(batch);
  worker.wait_for(shows);
  worker.wait_for(batch);
  EXPECT_EQ(refused(batch), 0u);
  EXPECT_EQ(shows.reply(0).value(), "value");
  EXPECT_EQ(shows.reply(1).value().substr(0, long_value), value);
}

}  // namespace
}  // namespace isotherm::find_memory_test
