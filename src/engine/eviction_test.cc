// The cap and the eviction policies, seen from outside.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/eviction_policy_test.h"
#include "items/poison.h"

namespace isotherm::eviction_test {
namespace {

class EvictionTest : public EvictionPolicyTest {
 protected:
  static constexpr uint64_t cap = 24 << 20;
  // Items that fill the cap, a quarter as many where each takes long.
  static constexpr uint64_t item_bytes = poison::sanitized ? 4'000 : 1'000;
  static constexpr uint64_t few(uint64_t items) { return poison::sanitized ? items / 4 : items; }

  static Options options(EvictionPolicy policy) { return EvictionPolicyTest::options(policy, cap); }

  // Puts keys in batches; returns how many were refused.
  static uint64_t fill(Worker& worker, uint64_t from, uint64_t count, uint64_t value_bytes,
                       const std::function<int64_t(uint64_t)>& expiry_of) {
    const std::string value(value_bytes, 'v');
    uint64_t refused = 0;
    Batch batch;
    std::vector<std::string> keys(50);
    for (uint64_t i = from; i < from + count; i += keys.size()) {
      for (uint64_t j = 0; j < keys.size(); ++j) {
        keys[j] = key(i + j);
        batch.put(keys[j], value, 0, expiry_of(i + j));
      }
      worker.submit(batch);
      for (Batch::Row row = 0; row < batch.size(); ++row) {
        const Status status = batch.reply(row).status;
        EXPECT_TRUE(status == Status::ok || status == Status::out_of_memory);
        refused += status == Status::out_of_memory;
      }
      batch.clear();
      worker.maintain();
    }
    return refused;
  }
  static bool present(Worker& worker, uint64_t number) {
    const std::string name = key(number);
    Batch batch;
    batch.get(name, option::no_touch);
    worker.submit(batch);
    return batch.reply(0).status == Status::ok;
  }
  static uint64_t count_present(Worker& worker, uint64_t from, uint64_t count) {
    uint64_t found = 0;
    Batch batch;
    std::vector<std::string> names;
    for (uint64_t i = from; i < from + count; i += names.size()) {
      names.clear();
      for (uint64_t j = i; j < std::min(i + 50, from + count); ++j) names.push_back(key(j));
      for (const std::string& name : names) batch.get(name, option::no_touch);
      worker.submit(batch);
      for (Batch::Row row = 0; row < batch.size(); ++row) {
        found += batch.reply(row).status == Status::ok;
      }
      batch.clear();
    }
    return found;
  }
  static int64_t never(uint64_t) { return no_expiry; }
  static int64_t some_day(uint64_t) { return 1'000'000; }
};

TEST_P(EvictionTest, UsedMemoryStaysAtTheCap) {
  Engine engine(options(GetParam()), clock);
  Worker worker(engine);
  std::mt19937_64 random(1);
  const int rounds = poison::sanitized ? 60 : 200;
  uint64_t next = 0;
  for (int round = 0; round < rounds; ++round) {
    // Sizes shift, so that memory has to move between classes.
    const uint64_t bytes = round % 40 < 20 ? 100 + random() % 100 : 2000 + random() % 4000;
    fill(worker, next, 500, bytes, some_day);
    next += 500;
    ASSERT_LE(engine.stats().used_memory, cap + cap * 15 / 100) << round;
  }
  EXPECT_GT(engine.stats().evicted, 0u);
  EXPECT_GT(worker.count(0), 100u);
}

INSTANTIATE_TEST_SUITE_P(Policies, EvictionTest, policies_that_evict(), policy_name);

// Free items of one size become room for others, even where they are only a hundredth of all.
TEST_F(EvictionTest, ValuesOfManySizesFillTheCap) {
  constexpr uint64_t large_cap = poison::sanitized ? 32 << 20 : 64 << 20;
  constexpr uint64_t count = large_cap / 1'700;  // of which a third fits
  const auto size = [](uint64_t i) { return 1000 + i * 2'654'435'761 % 9000; };
  const std::string value(10'000, 'v');
  Engine engine(EvictionPolicyTest::options(EvictionPolicy::allkeys_random, large_cap), clock);
  Worker worker(engine);
  Batch batch;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string name = key(i);
    batch.put(name, std::string_view(value).substr(0, size(i)));
    worker.submit(batch);
    ASSERT_EQ(batch.reply(0).status, Status::ok) << i;
    batch.clear();
    worker.maintain();
  }
  uint64_t stored = 0;
  for (uint64_t i = 0; i < count; ++i) stored += present(worker, i) ? size(i) : 0;
  // More than 86 on a quiet machine; 84 where the compactor comes late.
  EXPECT_GT(stored, large_cap / 100 * 83);
  EXPECT_LE(engine.stats().used_memory, large_cap + large_cap / 100);
}

// It shrinks behind what is evicted.
TEST_P(EvictionTest, ACapThatWasLoweredBelowTheIndexRefusesNothing) {
  constexpr uint64_t keys = 100'000;
  constexpr uint64_t lowered = 2 << 20;
  Engine engine(options(GetParam()), clock);
  Worker worker(engine);
  ASSERT_EQ(fill(worker, 0, keys, 10, some_day), 0u);
  ASSERT_EQ(engine.stats().evicted, 0u);
  ASSERT_GT(engine.stats().index_bytes, lowered);
  engine.set_maxmemory(lowered);
  EXPECT_EQ(fill(worker, keys, 1'000, 10, some_day), 0u);
  EXPECT_LT(engine.stats().used_memory, 2 * lowered);
}

TEST_F(EvictionTest, NoevictionRefusesAndStaysReadable) {
  Engine engine(options(EvictionPolicy::noeviction), clock);
  Worker worker(engine);
  constexpr uint64_t count = 40'000;
  const uint64_t refused = fill(worker, 0, count, 1000, never);
  EXPECT_GT(refused, count / 4);
  EXPECT_LE(engine.stats().used_memory, cap + (1 << 20));
  EXPECT_EQ(engine.stats().evicted, 0u);
  EXPECT_EQ(worker.count(0), count - refused);
  EXPECT_EQ(count_present(worker, 0, count), count - refused);
  // Erasing is always allowed and makes room again.
  Batch batch;
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < 10'000; ++i) keys.push_back(key(i));
  for (const std::string& name : keys) batch.erase(name);
  worker.submit(batch);
  batch.clear();
  for (int i = 0; i < 2000; ++i) worker.maintain();
  EXPECT_LT(fill(worker, 100'000, 5'000, 1000, never), 100u);
}

// An index takes half a megabyte, and 64 of them four times the cap.
TEST_F(EvictionTest, DatabasesWithoutKeysGiveTheirIndexesBack) {
  constexpr uint64_t small_cap = 8 << 20;
  constexpr uint32_t databases = 64;
  for (const EvictionPolicy policy : {EvictionPolicy::allkeys_lru, EvictionPolicy::noeviction}) {
    Options small = EvictionPolicyTest::options(policy, small_cap);
    small.databases = databases;
    Engine engine(small, clock);
    Worker worker(engine);
    const auto put = [&](uint32_t database) {
      Batch batch;
      batch.select(database);
      batch.put("key", "value");
      worker.submit(batch);
      const bool stored = batch.reply(0).status == Status::ok;
      batch.clear();
      for (int i = 0; i < 100; ++i) worker.maintain();
      return stored;
    };
    uint32_t stored = 0;
    for (uint32_t i = 0; i < databases; ++i) {
      stored += put(i);
      if (policy == EvictionPolicy::noeviction) {
        EXPECT_LE(engine.stats().used_memory, small_cap);
      } else {
        EXPECT_LE(engine.stats().used_memory, small_cap + small_cap / 4);
      }
    }
    EXPECT_GE(stored, policy == EvictionPolicy::noeviction ? 10u : databases / 2);
    Batch batch;
    for (uint32_t i = 0; i < databases; ++i) {
      batch.select(i);
      batch.erase("key");
    }
    worker.submit(batch);
    batch.clear();
    for (int i = 0; i < 100; ++i) worker.maintain();
    EXPECT_LE(engine.stats().used_memory, small_cap / 2) << to_string(policy);
    EXPECT_TRUE(put(databases - 1)) << to_string(policy);
    EXPECT_EQ(worker.count(databases - 1), 1u);
  }
}

TEST_F(EvictionTest, VolatilePoliciesNeverTouchWhatHasNoExpiry) {
  for (const EvictionPolicy policy : {EvictionPolicy::volatile_lru, EvictionPolicy::volatile_ttl}) {
    Engine engine(options(policy), clock);
    Worker worker(engine);
    constexpr uint64_t lasting = few(5'000);
    constexpr uint64_t passing = few(60'000);
    ASSERT_EQ(fill(worker, 0, lasting, item_bytes, never), 0u);
    EXPECT_EQ(fill(worker, lasting, passing, item_bytes, some_day), 0u);
    EXPECT_GT(engine.stats().evicted, few(10'000));
    EXPECT_EQ(count_present(worker, 0, lasting), lasting);
    // Without anything volatile left, writes are refused.
    EXPECT_GT(fill(worker, 200'000, few(40'000), item_bytes, never), few(1'000));
    EXPECT_EQ(count_present(worker, 0, lasting), lasting);
    EXPECT_LE(engine.stats().used_memory, cap + (2 << 20));
  }
}

// Also where sparse chunks are emptied and their items find no other place.
TEST_F(EvictionTest, VolatilePoliciesLeaveItWhereSizesShift) {
  for (const EvictionPolicy policy : {EvictionPolicy::volatile_lru, EvictionPolicy::volatile_ttl}) {
    Engine engine(options(policy), clock);
    Worker worker(engine);
    std::mt19937_64 random(1);
    const auto expiry = [](uint64_t i) { return i % 20 == 0 ? no_expiry : 1'000'000; };
    uint64_t refused = 0;
    uint64_t next = 0;
    for (int round = 0; round < (poison::sanitized ? 60 : 200); ++round) {
      const uint64_t bytes = round % 40 < 20 ? 100 + random() % 100 : 2000 + random() % 4000;
      refused += fill(worker, next, 500, bytes, expiry);
      next += 500;
    }
    EXPECT_GT(engine.stats().evicted, 0u);
    uint64_t kept = 0;
    for (uint64_t i = 0; i < next; i += 20) kept += present(worker, i);
    EXPECT_EQ(refused, 0u);
    EXPECT_EQ(kept, next / 20) << to_string(policy);
  }
}

TEST_F(EvictionTest, VolatileTtlPrefersWhatExpiresSoonest) {
  Engine engine(options(EvictionPolicy::volatile_ttl), clock);
  Worker worker(engine);
  // Half of the keys expire soon, half late, in turn.
  constexpr uint64_t count = 30'000;
  fill(worker, 0, count, 1000, [](uint64_t number) { return number % 2 == 0 ? 10'000 : 900'000; });
  uint64_t soon = 0;
  uint64_t late = 0;
  for (uint64_t i = 0; i < count; i += 2) {
    soon += present(worker, i);
    late += present(worker, i + 1);
  }
  EXPECT_GT(engine.stats().evicted, 1000u);
  EXPECT_LT(soon * 2, late);
}

TEST_F(EvictionTest, LruKeepsWhatIsRead) {
  Engine engine(options(EvictionPolicy::allkeys_lru), clock);
  Worker worker(engine);
  constexpr uint64_t hot = few(2'000);
  fill(worker, 0, hot, item_bytes, never);
  std::vector<std::string> names;
  for (uint64_t i = 0; i < hot; ++i) names.push_back(key(i));
  for (uint64_t next = hot; next < few(60'000); next += few(1'000)) {
    Batch batch;
    for (const std::string& name : names) batch.get(name);
    worker.submit(batch);
    batch.clear();
    fill(worker, next, few(1'000), item_bytes, never);
  }
  EXPECT_GT(engine.stats().evicted, few(20'000));
  EXPECT_GT(count_present(worker, 0, hot), hot * 95 / 100);
}

// New keys that nobody reads pass through a part of the memory, however many they are: keys that
// were read or written again before stay, and so do some of those that came back soon after they
// had been evicted.
TEST_F(EvictionTest, NewKeysLeaveThoseThatWereUsedAgain) {
  Engine engine(options(EvictionPolicy::allkeys_lru), clock);
  Worker worker(engine);
  constexpr uint64_t some = few(1'000);
  constexpr uint64_t crowd = few(40'000);  // more than fit
  uint64_t next = 3 * some;
  const auto pass = [&] {
    fill(worker, next, crowd, item_bytes, never);
    next += crowd;
  };
  fill(worker, 0, 2 * some, item_bytes, never);
  for (uint64_t i = 0; i < some; ++i) {
    const std::string name = key(i);
    Batch batch;
    batch.get(name);
    worker.submit(batch);
  }
  fill(worker, some, some, item_bytes, never);  // again
  fill(worker, 2 * some, some, item_bytes, never);
  pass();
  pass();
  EXPECT_GT(count_present(worker, 0, some), some * 95 / 100);
  EXPECT_GT(count_present(worker, some, some), some * 95 / 100);
  EXPECT_EQ(count_present(worker, 2 * some, some), 0u);
  // All but the newest of the last crowd have gone, those before them not long ago.
  const uint64_t first = next - crowd;
  const uint64_t gone = crowd - count_present(worker, first, crowd);
  const uint64_t back = std::min(gone, some);
  fill(worker, first + gone - back, back, item_bytes, never);
  pass();
  EXPECT_GT(count_present(worker, first + gone - back, back), back / 20);
}

TEST_F(EvictionTest, ExpiryIsSweptWithoutAccess) {
  Engine engine(options(EvictionPolicy::noeviction), clock);
  Worker worker(engine);
  constexpr uint64_t count = 20'000;
  ASSERT_EQ(fill(worker, 0, count, 500,
                 [](uint64_t number) { return number % 4 == 0 ? no_expiry : 5'000; }),
            0u);
  EXPECT_EQ(engine.database(0).expires, count * 3 / 4);
  const uint64_t before = engine.stats().item_bytes;
  for (int i = 0; i < 3000; ++i) worker.maintain();
  EXPECT_EQ(worker.count(0), count);  // not before their time
  clock.advance(10'000);
  for (int i = 0; i < 6000; ++i) worker.maintain();
  EXPECT_EQ(worker.count(0), count / 4);
  EXPECT_EQ(engine.database(0).expires, 0u);
  EXPECT_EQ(engine.stats().expired, count * 3 / 4);
  EXPECT_LT(engine.stats().item_bytes, before / 2);
  EXPECT_EQ(count_present(worker, 0, count), count / 4);
}

// Statuses of a batch's rows.
std::vector<Status> run(Worker& worker, Batch& batch) {
  worker.submit(batch);
  std::vector<Status> statuses;
  for (Batch::Row row = 0; row < batch.size(); ++row) statuses.push_back(batch.reply(row).status);
  batch.clear();
  return statuses;
}

TEST_P(EvictionTest, AValueAboveTheCapIsRefusedByItself) {
  Engine engine(options(GetParam()), clock);
  Worker worker(engine);
  constexpr uint64_t count = 5'000;
  ASSERT_EQ(fill(worker, 0, count, 1000, some_day), 0u);
  const std::string half(cap / 2, 'h');
  const std::string above(cap + 1, 'a');
  Batch batch;
  batch.put("half", half, 0, some_day(0));
  ASSERT_EQ(run(worker, batch), std::vector{Status::ok});

  batch.put("one", "1", 0, some_day(0));
  batch.put("above", above, 0, some_day(0));
  batch.append("half", half);
  batch.prepend("half", half);
  batch.append("above", above);
  batch.put("two", "2", 0, some_day(0));
  constexpr Status refused = Status::out_of_memory;
  EXPECT_EQ(run(worker, batch),
            (std::vector{Status::ok, refused, refused, refused, refused, Status::ok}));

  EXPECT_EQ(engine.stats().evicted, 0u);
  EXPECT_LE(engine.stats().used_memory, cap);
  EXPECT_EQ(worker.count(0), count + 3);
  EXPECT_EQ(count_present(worker, 0, count), count);
}

TEST_F(EvictionTest, NoevictionRefusesAValueAboveTheCap) {
  Engine engine(options(EvictionPolicy::noeviction), clock);
  Worker worker(engine);
  const std::string above(cap + 1, 'a');
  Batch batch;
  batch.put("above", above);
  EXPECT_EQ(run(worker, batch), std::vector{Status::out_of_memory});
  EXPECT_LE(engine.stats().used_memory, cap);
  EXPECT_EQ(fill(worker, 0, 1000, 1000, never), 0u);
}

// As Redis has it: whether or not there would be a place for it in what is stored already.
TEST_F(EvictionTest, WhatTakesMemoryIsRefusedWhereTheCapWasLoweredBelowWhatIsStored) {
  Engine engine(options(EvictionPolicy::noeviction), clock);
  Worker worker(engine);
  const std::string value(1000, 'v');
  Batch batch;
  ASSERT_EQ(fill(worker, 0, 2000, 1000, never), 0u);
  batch.put("key", value);
  ASSERT_EQ(run(worker, batch), std::vector{Status::ok});
  engine.set_maxmemory(engine.stats().used_memory / 2);
  batch.put("key", value);
  batch.append("key", "v");
  batch.add("number", 1);
  batch.expire("key", some_day(0));
  batch.get("key");
  batch.erase("key");
  constexpr Status refused = Status::out_of_memory;
  EXPECT_EQ(run(worker, batch),
            (std::vector{refused, refused, refused, Status::ok, Status::ok, Status::ok}));
  engine.set_maxmemory(0);
  batch.put("key", value);
  EXPECT_EQ(run(worker, batch), std::vector{Status::ok});
}

// Who lets keys expire makes room: the copies that have the expiry may pass the cap a little.
TEST_F(EvictionTest, AtTheCapKeysCanBeLetExpire) {
  Engine engine(options(EvictionPolicy::noeviction), clock);
  Worker worker(engine);
  ASSERT_GT(fill(worker, 0, 30'000, 1000, never), 0u);
  Batch batch;
  std::vector<std::string> names;
  for (uint64_t i = 0; i < 100; ++i) names.push_back(key(i));
  for (const std::string& name : names) batch.expire(name, clock.now_ms() + 1000);
  EXPECT_EQ(run(worker, batch), std::vector(names.size(), Status::ok));
  clock.advance(1000);
  batch.clear();
  batch.get(names[0]);
  EXPECT_EQ(run(worker, batch), std::vector{Status::not_found});
}

// Growing a large value needs room for its copy, beside the value itself while replies may show it.
TEST_F(EvictionTest, ALargeValueGrowsAtTheCap) {
  Engine engine(options(EvictionPolicy::allkeys_lru), clock);
  Worker worker(engine);
  const std::string third(cap / 3, 't');
  Batch batch;
  batch.put("third", third, 0, some_day(0));
  ASSERT_EQ(run(worker, batch), std::vector{Status::ok});
  fill(worker, 0, 16'000, 1000, some_day);
  batch.append("third", "x");
  EXPECT_EQ(run(worker, batch), std::vector{Status::ok});
  EXPECT_LE(engine.stats().used_memory, cap + third.size() + cap * 15 / 100);
  for (int i = 0; i < 5000; ++i) worker.maintain();
  EXPECT_LE(engine.stats().used_memory, cap);
}

// They have a bound of their own.
TEST_F(EvictionTest, NothingIsEvictedForBuffersOfClients) {
  Engine engine(options(EvictionPolicy::allkeys_lru), clock);
  Worker worker(engine);
  constexpr uint64_t count = 5'000;
  ASSERT_EQ(fill(worker, 0, count, 1000, never), 0u);
  engine.add_buffer_bytes(cap);
  for (int i = 0; i < 1000; ++i) worker.maintain();
  Batch batch;
  batch.put("stored", "s");
  EXPECT_EQ(run(worker, batch), std::vector{Status::ok});
  EXPECT_EQ(count_present(worker, 0, count), count);
  EXPECT_EQ(engine.stats().evicted, 0u);
  engine.add_buffer_bytes(-static_cast<int64_t>(cap));
}

// What evicting cannot make room for is refused before the cap is far behind; the rest is stored,
// and maintenance brings the store back.
TEST_P(EvictionTest, ABatchAboveTheCapStaysNearIt) {
  Engine engine(options(GetParam()), clock);
  Worker worker(engine);
  fill(worker, 0, 16'000, 1000, some_day);
  constexpr uint64_t over = cap / 16 + (16 << 20);
  const std::string value(1 << 20, 'v');
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < (cap + over) / value.size() + 50; ++i)
    keys.push_back(key(1'000'000 + i));
  Batch batch;
  for (const std::string& name : keys) batch.put(name, value, 0, some_day(0));
  const std::vector<Status> statuses = run(worker, batch);
  EXPECT_LE(engine.stats().used_memory, cap + over);
  const auto stored = std::count(statuses.begin(), statuses.end(), Status::ok);
  EXPECT_GT(stored, static_cast<long>(cap / value.size()) / 2);
  EXPECT_EQ(stored + std::count(statuses.begin(), statuses.end(), Status::out_of_memory),
            static_cast<long>(keys.size()));
  for (int i = 0; i < 5000; ++i) worker.maintain();
  EXPECT_LE(engine.stats().used_memory, cap);
  EXPECT_EQ(fill(worker, 0, 1000, 1000, some_day), 0u);
}

}  // namespace
}  // namespace isotherm::eviction_test
