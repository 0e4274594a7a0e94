// A store whose cold values lie on a device, a fake one: what goes there and comes back, what each
// request sees, and what happens when the device fails.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "fake_device/fake_root_table.h"
#include "items/pages.h"
#include "items/poison.h"

namespace isotherm::device_values_test {
namespace {

constexpr uint64_t device_bytes = uint64_t{1} << 28;
constexpr int64_t start_ms = 1'700'000'000'000;

class DeviceValuesTest : public ::testing::Test {
 protected:
  static Options options(uint64_t gpu_values = 8 << 20) {
    Options options;
    options.databases = 2;
    options.gpu_values = gpu_values;
    options.gpu_values_from = 100;
    return options;
  }
  void make(const Options& options) {
    worker.reset();
    engine = std::make_unique<Engine>(options, clock, fake_root_tiers_maker(device));
    worker = std::make_unique<Worker>(*engine);
  }
  DeviceValueStats values() const { return engine->stats().values; }

  static std::string key(uint64_t number) { return "key:" + std::to_string(number); }
  static std::string value(uint64_t number, uint64_t bytes = 500) {
    std::string value = "value " + std::to_string(number) + ":";
    value.resize(bytes, static_cast<char>('a' + number % 26));
    return value;
  }

  // The reply's status and value, of one row.
  struct Answer {
    Status status;
    std::string value;
    int64_t number;
    uint64_t size;
  };
  template <class Fill>
  Answer ask(Fill&& fill) {
    Batch batch;
    fill(batch);
    worker->submit(batch);
    const Reply& reply = batch.reply(batch.size() - 1);
    const std::string text = reply.data != nullptr ? std::string(reply.value()) : std::string();
    return {reply.status, text, reply.number, reply.size};
  }
  std::string get(const std::string& name) {
    const Answer answer = ask([&](Batch& batch) { batch.get(name); });
    return answer.status == Status::ok ? answer.value : "(none)";
  }
  void put(uint64_t from, uint64_t count, uint64_t bytes = 500) {
    for (uint64_t i = from; i < from + count; ++i) {
      const std::string name = key(i);
      const std::string text = value(i, bytes);
      const auto fill = [&](Batch& batch) { batch.put(name, text); };
      ASSERT_EQ(ask(fill).status, Status::ok);
    }
  }
  // In one batch; how many were refused.
  uint64_t put_many(uint64_t from, uint64_t count, uint64_t bytes) {
    std::vector<std::string> names;
    std::vector<std::string> texts;
    for (uint64_t i = from; i < from + count; ++i) {
      names.push_back(key(i));
      texts.push_back(value(i, bytes));
    }
    Batch batch;
    for (uint64_t i = 0; i < count; ++i) batch.put(names[i], texts[i]);
    worker->submit(batch);
    uint64_t refused = 0;
    for (Batch::Row row = 0; row < count; ++row) refused += batch.reply(row).status != Status::ok;
    return refused;
  }
  void maintain(int steps = 50) {
    for (int i = 0; i < steps; ++i) worker->maintain();
  }

  ManualClock clock{start_ms};
  FakeDevice device{3, device_bytes};
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Worker> worker;
};

TEST_F(DeviceValuesTest, LongValuesGoAndAreRead) {
  make(options());
  put(0, 20);
  put(20, 20, 99);
  maintain();
  EXPECT_EQ(values().values, 20u);
  EXPECT_EQ(values().bytes, 20u * 512);
  for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(get(key(i)), value(i));
  for (uint64_t i = 20; i < 40; ++i) EXPECT_EQ(get(key(i)), value(i, 99));
  EXPECT_EQ(values().fetched, 20u);
}

TEST_F(DeviceValuesTest, OneBatchReadsManyOfThemInOrderWithWrites) {
  make(options());
  put(0, 300, 1000);
  maintain();
  ASSERT_EQ(values().values, 300u);
  Batch batch;
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < 300; ++i) keys.push_back(key(i));
  for (const std::string& name : keys) batch.get(name);
  batch.put(keys[7], "new");
  batch.get(keys[7]);
  batch.get(keys[8]);
  worker->submit(batch);
  for (uint64_t i = 0; i < 300; ++i) EXPECT_EQ(batch.reply(i).value(), value(i, 1000));
  EXPECT_EQ(batch.reply(301).value(), "new");
  EXPECT_EQ(batch.reply(302).value(), value(8, 1000));
  batch.clear();
  // Each was fetched once, though one was asked for twice.
  EXPECT_EQ(values().fetched, 300u);
}

TEST_F(DeviceValuesTest, WhatIsReadTwiceComesBack) {
  make(options());
  put(0, 10);
  maintain();
  ASSERT_EQ(values().values, 10u);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(get(key(3)), value(3));
  for (int i = 0; i < 16 && values().from_device == 0; ++i) worker->maintain();
  EXPECT_EQ(values().from_device, 1u);
  const uint64_t fetched = values().fetched;
  EXPECT_EQ(get(key(3)), value(3));
  EXPECT_EQ(values().fetched, fetched);
}

TEST_F(DeviceValuesTest, SizesAndTimesNeedNoValue) {
  make(options());
  put(0, 10);
  maintain();
  const Answer answer = ask([&](Batch& batch) { batch.get("key:1", option::no_value); });
  EXPECT_EQ(answer.status, Status::ok);
  EXPECT_EQ(answer.size, 500u);
  const auto expire = [&](Batch& batch) {
    batch.expire("key:1", start_ms + 1000, option::no_value);
  };
  EXPECT_EQ(ask(expire).status, Status::ok);
  const uint64_t fetched = values().fetched;
  // It has a time now, so that can be set where it is.
  maintain();
  EXPECT_EQ(ask(expire).status, Status::ok);
  EXPECT_EQ(values().fetched, fetched);
  clock.advance(1000);
  EXPECT_EQ(get("key:1"), "(none)");
}

TEST_F(DeviceValuesTest, WritesThatShowOrNeedTheOldValueHaveIt) {
  make(options());
  put(0, 10);
  maintain();
  EXPECT_EQ(ask([&](Batch& batch) { batch.append("key:1", "!"); }).number, 501);
  EXPECT_EQ(get("key:1"), value(1) + "!");
  EXPECT_EQ(ask([&](Batch& batch) { batch.prepend("key:2", "?"); }).number, 501);
  EXPECT_EQ(get("key:2"), "?" + value(2));
  EXPECT_EQ(ask([&](Batch& batch) { batch.add("key:3", 1); }).status, Status::not_an_integer);
  EXPECT_EQ(get("key:3"), value(3));
  const auto replace = [&](Batch& batch) { batch.put("key:4", "x", option::want_previous); };
  EXPECT_EQ(ask(replace).value, value(4));
  EXPECT_EQ(get("key:4"), "x");
  const auto refused = [&](Batch& batch) {
    batch.put("key:5", "x", option::want_previous | option::if_absent);
  };
  EXPECT_EQ(ask(refused).status, Status::condition_failed);
  EXPECT_EQ(ask(refused).value, value(5));
  EXPECT_EQ(ask([&](Batch& batch) { batch.erase("key:6", option::want_previous); }).value,
            value(6));
  EXPECT_EQ(get("key:6"), "(none)");
  EXPECT_EQ(ask([&](Batch& batch) { batch.expire("key:7", start_ms + 5); }).value, value(7));
  EXPECT_EQ(get("key:7"), value(7));
}

TEST_F(DeviceValuesTest, TheirMemoryIsUsedAgain) {
  make(options(256 << 10));
  constexpr uint64_t rounds = poison::sanitized ? 12 : 40;
  for (uint64_t round = 0; round < rounds; ++round) {
    put(0, 60, 2000 + round);
    maintain(8);
  }
  // Several times what it has room for.
  EXPECT_GT(values().to_device * 2000, rounds * 50'000);
  for (uint64_t i = 0; i < 60; ++i) {
    EXPECT_EQ(get(key(i)), value(i, 2000 + rounds - 1));
    const std::string name = key(i);
    ask([&](Batch& batch) { batch.erase(name); });
  }
  EXPECT_EQ(values().values, 0u);
  EXPECT_EQ(values().bytes, 0u);
}

TEST_F(DeviceValuesTest, AFlushFreesThem) {
  make(options());
  put(0, 50);
  maintain();
  ASSERT_EQ(values().values, 50u);
  worker->flush_all();
  EXPECT_EQ(values().values, 0u);
  EXPECT_EQ(get(key(1)), "(none)");
}

// The cap holds a quarter of what is stored, and nothing is refused or evicted.
TEST_F(DeviceValuesTest, WithACapTheyGoWhenItIsReached) {
  constexpr uint64_t count = poison::sanitized ? 2'000 : 6'000;
  Options capped = options(64 << 20);
  capped.maxmemory = count * 1000;
  make(capped);
  EXPECT_EQ(put_many(0, 200, 4000), 0u);
  maintain();
  EXPECT_EQ(values().values, 0u);
  for (uint64_t i = 200; i < count; i += 100) {
    EXPECT_EQ(put_many(i, 100, 4000), 0u);
    maintain(2);
  }
  EXPECT_GT(values().values, count / 2);
  EXPECT_EQ(engine->stats().evicted, 0u);
  for (uint64_t i = 0; i < count; i += 7) ASSERT_EQ(get(key(i)), value(i, 4000));
  maintain(100);
  // But for the page that classes share.
  EXPECT_LE(engine->stats().used_memory, capped.maxmemory + Pages::page_bytes);
}

// With many threads, too, most of a small cap is for items, not for what readers keep.
TEST_F(DeviceValuesTest, ReadersOfManyThreadsKeepAPartOfTheCap) {
  Options capped = options(16 << 20);
  capped.maxmemory = 16 << 20;
  make(capped);
  for (uint64_t i = 0; i < 6000; i += 100) {
    EXPECT_EQ(put_many(i, 100, 4000), 0u);
    maintain(2);
  }
  ASSERT_GT(values().values, 1500u);
  std::vector<std::unique_ptr<Worker>> readers;
  for (uint64_t i = 0; i < 24; ++i) {
    readers.push_back(std::make_unique<Worker>(*engine));
    const std::string name = key(i);
    Batch batch;
    batch.get(name);
    readers.back()->submit(batch);
    ASSERT_EQ(batch.reply(0).value(), value(i, 4000));
  }
  EXPECT_GT(values().fetched, 20u);
  EXPECT_LE(engine->stats().buffer_bytes, capped.maxmemory / 5);
}

// Items that cannot go, being short or away already, do not make others be evicted.
TEST_F(DeviceValuesTest, NothingIsEvictedWhileValuesCanGo) {
  Options capped = options(64 << 20);
  capped.maxmemory = poison::sanitized ? 6 << 20 : 12 << 20;
  capped.maxmemory_policy = EvictionPolicy::allkeys_lru;
  make(capped);
  constexpr uint64_t count = poison::sanitized ? 28'000 : 40'000;
  for (uint64_t i = 0; i < 20'000; i += 500) EXPECT_EQ(put_many(i, 500, 20), 0u);
  for (uint64_t i = 20'000; i < count; i += 100) {
    EXPECT_EQ(put_many(i, 100, 1000), 0u);
    worker->maintain();
  }
  EXPECT_EQ(engine->stats().evicted, 0u);
  EXPECT_GT(values().values, (count - 20'000) / 4);
  EXPECT_EQ(engine->database(0).keys, count);
}

// At the cap, with nothing that could be sent or evicted: the step says that it is done.
TEST_F(DeviceValuesTest, UpkeepRestsWhereNothingCanGo) {
  for (const EvictionPolicy policy : {EvictionPolicy::noeviction, EvictionPolicy::volatile_lru}) {
    Options capped = options(8 << 20);
    capped.maxmemory = poison::sanitized ? 2 << 20 : 4 << 20;
    capped.maxmemory_policy = policy;
    make(capped);
    uint64_t refused = 0;
    for (uint64_t i = 0; refused == 0; i += 500) {
      refused += put_many(i, 500, 90);
      worker->maintain();
    }
    bool more = true;
    for (int i = 0; i < 2'000 && more; ++i) more = worker->maintain();
    EXPECT_FALSE(more);
    EXPECT_EQ(values().values, 0u);
  }
}

TEST_F(DeviceValuesTest, WhereTheyFindNoRoomTheCapHoldsAsEver) {
  for (const EvictionPolicy policy : {EvictionPolicy::noeviction, EvictionPolicy::allkeys_lru}) {
    Options capped = options(1 << 20);
    capped.maxmemory = 8 << 20;
    capped.maxmemory_policy = policy;
    make(capped);
    uint64_t refused = 0;
    for (uint64_t i = 0; i < 3'000; i += 20) {
      refused += put_many(i, 20, 4000);
      worker->maintain();
    }
    EXPECT_EQ(refused > 0, policy == EvictionPolicy::noeviction);
    EXPECT_EQ(engine->stats().evicted > 0, policy != EvictionPolicy::noeviction);
    EXPECT_GT(values().bytes, uint64_t{1} << 19);
    maintain(200);
    EXPECT_LE(engine->stats().used_memory, capped.maxmemory + (1 << 20));
  }
}

// Where the device takes some of them, and where it takes none.
TEST_F(DeviceValuesTest, LargeValuesFillTheHostBesideIt) {
  for (const uint64_t bytes : {100'000, 1'000'000}) {
    Options capped = options(16 << 20);
    capped.maxmemory = 20 << 20;
    capped.maxmemory_policy = EvictionPolicy::allkeys_lru;
    make(capped);
    const uint64_t room = capped.maxmemory / bytes;
    for (uint64_t i = 0; i < room * 2; ++i) {
      put(i, 1, bytes);
      maintain(2);
      ASSERT_EQ(get(key(i)).size(), bytes);
      if (i < room) continue;
      const uint64_t on_host = engine->database(0).keys - values().values;
      EXPECT_GE(on_host * bytes, capped.maxmemory * 75 / 100) << bytes;
    }
    EXPECT_LE(engine->stats().used_memory, capped.maxmemory + (1 << 20));
  }
}

TEST_F(DeviceValuesTest, WithTheDeviceTheyAreLostAndNothingElse) {
  for (const uint64_t left : {0, 1, 2, 5, 9, 14, 30}) {
    FakeDevice lost(left + 1, device_bytes);
    worker.reset();
    engine = std::make_unique<Engine>(options(), clock, fake_root_tiers_maker(lost));
    worker = std::make_unique<Worker>(*engine);
    put(0, 50);
    maintain();
    put(50, 50, 99);
    ASSERT_EQ(values().values, 50u);
    lost.lose_after(left);
    // Right or a miss, never anything else.
    for (uint64_t i = 0; i < 100; ++i) {
      const uint64_t bytes = i < 50 ? 500 : 99;
      worker->maintain();
      const std::string found = get(key(i));
      if (i < 50 && found == "(none)") continue;
      EXPECT_EQ(found, value(i, bytes));
    }
    EXPECT_FALSE(engine->stats().on_device);
    EXPECT_GT(values().lost, 0u);
    EXPECT_EQ(values().values, 0u);
    EXPECT_EQ(engine->database(0).keys, 100 - values().lost);
    put(0, 50);
    for (uint64_t i = 0; i < 50; ++i) EXPECT_EQ(get(key(i)), value(i));
    worker.reset();
    engine.reset();
  }
}

// What one thread does to keys of its own while the device is lost: each value that it is shown is
// right, and a key that it found missing stays so.
class LossHistory {
 public:
  LossHistory(Engine& engine, uint64_t number)
      : worker_(engine), random_(number), prefix_("thread " + std::to_string(number) + ":") {}

  // A batch of different keys.
  void step() {
    constexpr uint64_t keys = 200;
    constexpr uint64_t rows = 30;
    std::vector<std::string> names;
    std::vector<std::string> texts;
    const uint64_t first = random_() % keys;
    for (uint64_t i = 0; i < rows; ++i) {
      names.push_back(prefix_ + std::to_string((first + i) % keys));
      texts.push_back("value " + std::to_string(random_()) +
                      std::string(random_() % 600, static_cast<char>('a' + random_() % 26)));
    }
    Batch batch;
    std::vector<Op> ops;
    for (uint64_t i = 0; i < rows; ++i) ops.push_back(append(batch, names[i], texts[i]));
    worker_.submit(batch);
    for (Batch::Row row = 0; row < rows; ++row) {
      check(ops[row], names[row], texts[row], batch.reply(row));
    }
    batch.clear();
    worker_.maintain();
  }

 private:
  Op append(Batch& batch, const std::string& name, const std::string& text) {
    switch (random_() % 8) {
      case 0:
        batch.erase(name, option::want_previous);
        return Op::erase;
      case 1:
        batch.append(name, text, option::if_present);
        return Op::append;
      case 2:
      case 3:
        batch.put(name, text, option::want_previous);
        return Op::put;
      default:
        batch.get(name);
        return Op::get;
    }
  }

  void check(Op op, const std::string& name, const std::string& text, const Reply& reply) {
    const bool known = entries_.contains(name);
    if (op == Op::put) {
      ASSERT_EQ(reply.status, Status::ok);
    } else {
      ASSERT_TRUE(reply.status == Status::not_found || (reply.status == Status::ok && known));
      if (reply.status == Status::not_found) entries_.erase(name);
    }
    if (op != Op::append && reply.data != nullptr) {
      ASSERT_TRUE(known);
      ASSERT_EQ(reply.value(), entries_[name]);
    }
    if (op == Op::erase) entries_.erase(name);
    if (op == Op::put) entries_[name] = text;
    if (op == Op::append && reply.status == Status::ok) {
      entries_[name] += text;
      ASSERT_EQ(reply.number, static_cast<int64_t>(entries_[name].size()));
    }
  }

  Worker worker_;
  std::mt19937_64 random_;
  const std::string prefix_;
  std::map<std::string, std::string> entries_;
};

TEST_F(DeviceValuesTest, ThreadsAreShownNothingWrongWhenTheDeviceIsLostUnderThem) {
  constexpr uint64_t threads = 3;
  constexpr int batches = poison::sanitized ? 8 : 30;
  const std::vector<uint64_t> operations =
      poison::sanitized ? std::vector<uint64_t>{20} : std::vector<uint64_t>{0, 3, 10, 40, 100, 250};
  for (const uint64_t left : operations) {
    FakeDevice lost(left, device_bytes);
    engine = std::make_unique<Engine>(options(), clock, fake_root_tiers_maker(lost));
    std::vector<std::unique_ptr<LossHistory>> histories;
    for (uint64_t i = 0; i < threads; ++i) {
      histories.push_back(std::make_unique<LossHistory>(*engine, i + left));
    }
    const auto run_all = [&] {
      std::vector<std::thread> running;
      for (const auto& history : histories) {
        running.emplace_back([&] {
          for (int i = 0; i < batches && !HasFatalFailure(); ++i) history->step();
        });
      }
      for (std::thread& thread : running) thread.join();
    };
    run_all();
    {
      Worker idle(*engine);
      for (int i = 0; i < 50; ++i) idle.maintain();
    }
    ASSERT_GT(values().values, 0u);
    lost.lose_after(left);
    run_all();
    EXPECT_FALSE(engine->stats().on_device);
    EXPECT_GT(values().lost, 0u);
    histories.clear();
    engine.reset();
  }
}

TEST_F(DeviceValuesTest, WithoutTheMemoryThereIsNoStore) {
  EXPECT_THROW(make(options(device_bytes * 2)), std::runtime_error);
  Options wrong = options();
  wrong.gpu_values_from = 63;
  EXPECT_THROW(make(wrong), std::invalid_argument);
}

}  // namespace
}  // namespace isotherm::device_values_test
