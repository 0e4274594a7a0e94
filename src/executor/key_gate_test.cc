#include "executor/key_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/worker_pool.h"

namespace isotherm::key_gate_test {
namespace {

using Holder = KeyGate::Holder;

// Hashes whose slots, and places in filters, differ.
uint64_t hash_of(uint64_t key) { return key << 48; }

class KeyGateTest : public ::testing::Test {
 protected:
  // A group of these keys, and rows of it where the gate looks.
  static void fill(Batch& of, const std::vector<uint64_t>& keys, uint32_t database = 0) {
    of.clear();
    of.select(database);
    for (const uint64_t key : keys) {
      const Batch::Row row = of.put("key", "value");
      of.columns().hash[row] = hash_of(key);
    }
    of.group(0);
  }
  void begin(Holder& holder, const Batch& of) { gate.begin(holder, of.columns(), 0, of.size()); }
  Holder* held(uint64_t key, uint32_t database = 0) {
    return gate.held(nobody.holder, hash_of(key), database);
  }
  // Until so many have taken, or wait to.
  void await_takes(uint64_t takes) {
    while (gate.takes() < takes) std::this_thread::yield();
  }
  void await_waiting(size_t count) {
    while (gate.waiting() < count) std::this_thread::yield();
  }
  // `one` takes for `batch`, as so many have then, but waits until `end` was called.
  template <class End>
  void take_behind(uint64_t takes, End&& end) {
    taken = false;
    std::thread thread([&] {
      gate.take(one.holder, batch);
      taken = true;
    });
    await_takes(takes);
    EXPECT_FALSE(taken);
    end();
    thread.join();
    EXPECT_TRUE(taken);
    gate.give_back(one.holder);
  }

  std::atomic<bool> taken{false};
  EpochDomain epochs;
  KeyGate gate{epochs};
  GateHolder nobody{gate};
  GateHolder one{gate};
  GateHolder two{gate};
  GateHolder three{gate};
  Batch batch;
  Batch other;
  Batch third;
};

class Told final : public Awaited::Waiter {
 public:
  void there() override { ++times; }
  int times = 0;
};

TEST_F(KeyGateTest, KeysAreHeldUntilTheyAreGivenBack) {
  EXPECT_FALSE(gate.armed());
  fill(batch, {1, 2, 2, 3});
  gate.take(one.holder, batch);
  EXPECT_TRUE(gate.armed());
  for (const uint64_t key : {1, 2, 3}) {
    EXPECT_EQ(held(key), &one.holder);
    EXPECT_TRUE(gate.is_held(hash_of(key), 0));
    EXPECT_TRUE(gate.owns(one.holder, hash_of(key), 0));
    EXPECT_EQ(gate.held(one.holder, hash_of(key), 0), nullptr);
  }
  EXPECT_EQ(held(4), nullptr);
  EXPECT_EQ(held(1, 1), nullptr) << "a key of another database";
  gate.give_back(one.holder);
  for (const uint64_t key : {1, 2, 3}) EXPECT_EQ(held(key), nullptr);
}

// So many that they would have all slots.
TEST_F(KeyGateTest, AGroupOfVeryManyKeysHasThoseAndFewOthers) {
  std::mt19937_64 random(1);
  constexpr size_t many = 20'000;
  std::vector<uint64_t> hashes(many);
  const auto fill_all = [&](Batch& of) {
    for (const uint64_t hash : hashes) {
      const Batch::Row row = of.put("key", "value");
      of.columns().hash[row] = hash;
    }
    of.group(0);
  };
  for (int round = 0; round < 2; ++round) {
    for (uint64_t& hash : hashes) hash = random();
    batch.clear();
    fill_all(batch);
    if (round == 0) {
      gate.take(one.holder, batch);
    } else {
      WorkerPool pool(3);
      ASSERT_TRUE(gate.take_now(one.holder, batch, &pool));
    }
    size_t held_by_chance = 0;
    for (size_t i = 0; i < many; ++i) {
      ASSERT_EQ(gate.held(nobody.holder, hashes[i], 0), &one.holder);
      ASSERT_EQ(gate.held(one.holder, hashes[i], 0), nullptr);
      if (gate.held(nobody.holder, random(), 0) != nullptr) ++held_by_chance;
    }
    EXPECT_TRUE(gate.is_held(hashes[0], 0));
    EXPECT_TRUE(gate.owns(one.holder, hashes[0], 0));
    EXPECT_LT(held_by_chance, many / 50);
    // Groups of other keys have theirs meanwhile, in slots of its keys.
    const uint64_t free = hashes[0] ^ 1;
    other.clear();
    other.put("key", "value");
    other.columns().hash[0] = free;
    other.group(0);
    ASSERT_TRUE(gate.take_now(two.holder, other));
    EXPECT_EQ(gate.held(nobody.holder, free, 0), &two.holder);
    EXPECT_EQ(gate.held(two.holder, free, 0), nullptr);
    EXPECT_EQ(gate.held(one.holder, hashes[0], 0), nullptr);
    gate.give_back(two.holder);
    other.columns().hash[0] = hashes[7];
    EXPECT_FALSE(gate.take_now(two.holder, other));
    // Another one of very many waits, and so does it for a slot that somebody has.
    third.clear();
    fill_all(third);
    EXPECT_FALSE(gate.take_now(three.holder, third));
    gate.give_back(one.holder);
    EXPECT_EQ(gate.held(nobody.holder, hashes[0], 0), nullptr);
    ASSERT_TRUE(gate.take_now(two.holder, other));
    EXPECT_FALSE(gate.take_now(three.holder, third));
    gate.give_back(two.holder);
  }
}

TEST_F(KeyGateTest, AFlushHasAllKeysOfItsDatabases) {
  batch.flush(1, 3);
  gate.take(one.holder, batch);
  for (const uint32_t database : {1, 2}) {
    EXPECT_EQ(held(77, database), &one.holder);
    EXPECT_TRUE(gate.owns(one.holder, hash_of(77), database));
  }
  for (const uint32_t database : {0, 3}) EXPECT_EQ(held(77, database), nullptr);
  fill(other, {77}, 3);
  gate.take(two.holder, other);
  // Another key with a slot that somebody has is the flusher's still.
  EXPECT_EQ(gate.held(one.holder, hash_of(77), 2), nullptr);
  gate.give_back(two.holder);
  gate.give_back(one.holder);
  EXPECT_EQ(held(77, 1), nullptr);
}

TEST_F(KeyGateTest, WhoTakesWaitsForRowsOnItsKeysOnly) {
  fill(batch, {1, 2});
  fill(other, {3, 4});
  begin(two.holder, other);
  gate.take(one.holder, batch);
  gate.give_back(one.holder);
  KeyGate::end(two.holder);

  fill(other, {5, 2});
  begin(two.holder, other);
  take_behind(2, [&] { KeyGate::end(two.holder); });
}

TEST_F(KeyGateTest, AFlushWaitsForRowsOfItsDatabases) {
  fill(other, {1}, 1);
  begin(two.holder, other);
  batch.flush(2, 4);
  gate.take(one.holder, batch);
  gate.give_back(one.holder);
  batch.clear();
  batch.flush(0, 2);
  take_behind(2, [&] { KeyGate::end(two.holder); });
}

TEST_F(KeyGateTest, WhoTakesWaitsForWorkOnUnknownKeys) {
  EpochDomain::Slot* const slot = epochs.acquire();
  epochs.enter_to_work(*slot);
  fill(batch, {1});
  take_behind(1, [&] { EpochDomain::rest(*slot); });
  epochs.leave(*slot);
}

// Work that begins later has seen who takes, so nobody waits for a thread that begins anew again
// and again, however soon.
TEST_F(KeyGateTest, WhoTakesWaitsForNoLaterWork) {
  EpochDomain::Slot* const slot = epochs.acquire();
  epochs.enter_to_work(*slot);
  fill(batch, {1});
  take_behind(1, [&] {
    while (!taken) epochs.enter_to_work(*slot);
  });
  epochs.leave(*slot);
}

// One wants two keys of which it cannot have the first: it has none. Another that wants the second
// comes behind it, and one that wants neither passes.
TEST_F(KeyGateTest, WhoAskedFirstIsFirst) {
  GateHolder four(gate);
  fill(batch, {1});
  gate.take(one.holder, batch);
  std::vector<int> order;
  fill(other, {1, 2});
  std::thread second([&] {
    gate.take(two.holder, other);
    order.push_back(2);
    gate.give_back(two.holder);
  });
  await_waiting(1);
  EXPECT_EQ(held(2), nullptr);
  fill(third, {2});
  std::thread last([&] {
    gate.take(three.holder, third);
    order.push_back(3);
    gate.give_back(three.holder);
  });
  await_waiting(2);
  Batch fourth;
  fill(fourth, {3});
  gate.take(four.holder, fourth);
  gate.give_back(four.holder);
  EXPECT_EQ(order, std::vector<int>{});
  gate.give_back(one.holder);
  second.join();
  last.join();
  EXPECT_EQ(order, (std::vector<int>{2, 3}));
}

TEST_F(KeyGateTest, FlushesAndGroupsOfTheirDatabasesWaitForEachOther) {
  fill(batch, {1}, 2);
  gate.take(one.holder, batch);
  other.flush(0, 3);
  std::atomic<int> ended{0};
  std::thread flush([&] {
    gate.take(two.holder, other);
    EXPECT_EQ(ended++, 0);
    gate.give_back(two.holder);
  });
  await_waiting(1);
  fill(third, {9}, 1);
  std::thread group([&] {
    gate.take(three.holder, third);
    EXPECT_EQ(ended++, 1);
    gate.give_back(three.holder);
  });
  await_waiting(2);
  EXPECT_EQ(ended, 0);
  gate.give_back(one.holder);
  flush.join();
  group.join();
  EXPECT_EQ(ended, 2);
}

TEST_F(KeyGateTest, WhoWaitsIsToldWhenTheKeysAreGivenBack) {
  fill(batch, {1});
  gate.take(one.holder, batch);
  Told told;
  held(1)->begin(told);
  EXPECT_EQ(told.times, 0);
  gate.give_back(one.holder);
  EXPECT_EQ(told.times, 1);
  one.holder.begin(told);
  EXPECT_EQ(told.times, 2) << "nothing is held any more";
}

TEST_F(KeyGateTest, NobodyHasKeysBetweenGroups) {
  EXPECT_TRUE(gate.nobody_has());
  fill(batch, {1});
  fill(other, {2});
  fill(third, {2, 3});
  gate.take(one.holder, batch);
  EXPECT_FALSE(gate.nobody_has());
  gate.take(two.holder, other);
  EXPECT_FALSE(gate.take_now(three.holder, third)) << "others have some";
  gate.give_back(one.holder);
  EXPECT_FALSE(gate.nobody_has()) << "one has keys still";
  gate.give_back(two.holder);
  EXPECT_TRUE(gate.nobody_has());
}

TEST_F(KeyGateTest, LongAfterTheLastGroupTheGateIsDisarmed) {
  fill(batch, {1});
  fill(other, {2});
  gate.take(one.holder, batch);
  const auto run_rows = [&] {
    constexpr int spans = 10'000;
    for (int i = 0; i < spans; ++i) {
      begin(two.holder, other);
      KeyGate::end(two.holder);
    }
  };
  run_rows();
  EXPECT_TRUE(gate.armed()) << "somebody has a key";
  gate.give_back(one.holder);
  EXPECT_TRUE(gate.armed());
  run_rows();
  EXPECT_FALSE(gate.armed());
  gate.take(one.holder, batch);
  EXPECT_TRUE(gate.armed());
  gate.give_back(one.holder);
}

// Plain numbers that threads change in groups of overlapping keys, or as rows behind the gate:
// under the thread sanitizer an overlap is a race as well.
TEST_F(KeyGateTest, NobodyElseIsAtTheKeysOfAGroup) {
  constexpr int turns = 2000;
  constexpr uint64_t keys = 4;
  uint64_t numbers[keys] = {};
  std::atomic<uint64_t> rows{0};
  const auto work = [&](uint64_t seed) {
    GateHolder mine(gate);
    Batch rows_on;
    for (uint64_t i = 0; i < turns; ++i) {
      const uint64_t first = (seed + i) % keys;
      const uint64_t second = (first + 1 + i % (keys - 1)) % keys;
      if (i % 3 != 0) {
        fill(rows_on, {first, second});
        gate.take(mine.holder, rows_on);
        ++numbers[first];
        ++numbers[second];
        gate.give_back(mine.holder);
        continue;
      }
      // Of single rows one thread has each key; groups are what it must not meet.
      fill(rows_on, {seed});
      gate.begin(mine.holder, rows_on.columns(), 0, 1);
      if (gate.held(mine.holder, hash_of(seed), 0) == nullptr) {
        ++numbers[seed];
        rows.fetch_add(1, std::memory_order_relaxed);
      }
      KeyGate::end(mine.holder);
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 3; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  const uint64_t groups = 3 * (turns - (turns + 2) / 3);
  EXPECT_EQ(numbers[0] + numbers[1] + numbers[2] + numbers[3], 2 * groups + rows);
}

}  // namespace
}  // namespace isotherm::key_gate_test
