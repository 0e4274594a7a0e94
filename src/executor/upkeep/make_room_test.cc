// A batch that needs room waits for another thread that moves the CLOCK's hand: that thread may
// have lost its core, and while it has the hand nobody else can evict.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "executor/upkeep/host_upkeep.h"

namespace isotherm::make_room_test {
namespace {

constexpr uint64_t value_bytes = 100'000;

Options options() {
  Options options;
  options.databases = 1;
  options.maxmemory = 20 << 20;
  options.maxmemory_policy = EvictionPolicy::allkeys_lru;
  return options;
}

TEST(MakeRoomTest, WaitsForWhoMovesTheHand) {
  HostStore store(options(), 1);
  EpochDomain::Slot* const slot = store.epochs.acquire();
  {
    HostExecutor executor(store);
    HostUpkeep upkeep(executor, *slot);
    const std::string value(value_bytes, 'v');
    for (uint64_t i = 0; i < options().maxmemory / value_bytes; ++i) {
      const std::string key = std::to_string(i);
      Batch batch;
      batch.put(key, value);
      const EpochGuard guard(store.epochs, *slot);
      executor.run(batch, 0, true);
    }
    const BatchBytes needed{.lasting = 4 * value_bytes, .at_once = 4 * value_bytes};
    ASSERT_FALSE(upkeep.has_room(needed));

    // New items count as used until the hand has passed them once.
    constexpr uint32_t all = 1000;
    store.items.sweep_clock(all, [](Location) { return true; });
    std::atomic<bool> has_hand{false};
    std::atomic<bool> lets_go{false};
    std::thread other([&] {
      store.items.sweep_clock(all, [&](Location) {
        has_hand = true;
        constexpr std::chrono::milliseconds without_core{20};
        std::this_thread::sleep_for(without_core);
        lets_go = true;
        return false;
      });
    });
    while (!has_hand) std::this_thread::yield();
    int64_t admitted = 0;
    EXPECT_TRUE(upkeep.make_room(needed, 0, admitted));
    EXPECT_TRUE(lets_go);
    EXPECT_TRUE(upkeep.has_room(needed));
    store.budget.dismiss(admitted);
    other.join();
  }
  store.epochs.release(slot);
}

// Where the cap was lowered far, the index alone may be larger: a batch waits until it has shrunk
// behind what was evicted.
TEST(MakeRoomTest, WaitsForAnIndexThatShrinks) {
  HostStore store(options(), 1);
  EpochDomain::Slot* const slot = store.epochs.acquire();
  {
    HostExecutor executor(store);
    HostUpkeep upkeep(executor, *slot);
    constexpr uint64_t keys = 150'000;
    constexpr uint64_t at_once = 1000;
    Batch batch;
    for (uint64_t i = 0; i < keys; i += at_once) {
      std::vector<std::string> names;
      for (uint64_t k = 0; k < at_once; ++k) names.push_back(std::to_string(i + k));
      batch.clear();
      for (const std::string& name : names) batch.put(name, "v");
      {
        const EpochGuard guard(store.epochs, *slot);
        executor.run(batch, 0, true);
      }
      upkeep.step(at_once, 0);
    }
    constexpr int64_t lowered = 1'500'000;
    ASSERT_GT(store.budget.index.load(), lowered);
    store.budget.set_limit(lowered);
    const BatchBytes needed{.lasting = 1000, .at_once = 1000};
    int64_t admitted = 0;
    EXPECT_TRUE(upkeep.make_room(needed, 0, admitted));
    EXPECT_TRUE(upkeep.has_room(needed));
    store.budget.dismiss(admitted);
  }
  store.epochs.release(slot);
}

// What large values have left behind is memory until its readers have gone: others of that size
// wait for it, and not once for each of them where a reader stays.
class LargeValuesTest : public ::testing::Test {
 protected:
  ~LargeValuesTest() override {
    store_.epochs.release(slot_);
    store_.epochs.release(reader_);
  }

  void put_some(HostExecutor& executor) {
    std::vector<std::string> keys;
    for (uint64_t i = 0; i < at_once; ++i) keys.push_back(std::to_string(next_++));
    Batch batch;
    for (const std::string& key : keys) batch.put(key, value_);
    const EpochGuard guard(store_.epochs, *slot_);
    executor.run(batch, 0, true);
  }
  void make_room(HostUpkeep& upkeep, uint64_t alone) {
    int64_t admitted = 0;
    EXPECT_TRUE(
        upkeep.make_room({.lasting = bytes, .at_once = bytes, .alone = alone}, 0, admitted));
    store_.budget.dismiss(admitted);
  }
  // Beyond the cap, by what a reader may still see.
  void fill(HostExecutor& executor, HostUpkeep& upkeep) {
    for (uint64_t i = 0; i < options().maxmemory / bytes; ++i) put_some(executor);
    store_.epochs.enter(*reader_);
    for (int i = 0; i < 4; ++i) {
      make_room(upkeep, 0);
      put_some(executor);
    }
    ASSERT_GT(store_.budget.used(), near);
  }

  static constexpr uint64_t at_once = 10;
  static constexpr uint64_t bytes = at_once * (value_bytes + 100);
  const uint64_t near = options().maxmemory * 17 / 16;
  const std::string value_ = std::string(value_bytes, 'v');
  HostStore store_{options(), 1};
  EpochDomain::Slot* const slot_ = store_.epochs.acquire();
  EpochDomain::Slot* const reader_ = store_.epochs.acquire();
  uint64_t next_ = 0;
};

TEST_F(LargeValuesTest, WaitForReadersOfThoseThatWent) {
  HostExecutor executor(store_);
  HostUpkeep upkeep(executor, *slot_);
  fill(executor, upkeep);
  using Clock = std::chrono::steady_clock;
  const Clock::time_point began = Clock::now();
  Clock::time_point left;
  std::thread reader([&] {
    constexpr std::chrono::milliseconds reads{5};
    std::this_thread::sleep_for(reads);
    EpochDomain::leave(*reader_);
    left = Clock::now();
  });
  make_room(upkeep, bytes);
  const uint64_t used = store_.budget.used();
  reader.join();
  // One that has lost its core is not waited for as long as that takes.
  constexpr std::chrono::milliseconds surely_waited_for{80};
  if (left - began < surely_waited_for) {
    EXPECT_LE(used, near);
  }
}

TEST_F(LargeValuesTest, WaitForAReaderThatStaysOnce) {
  HostExecutor executor(store_);
  HostUpkeep upkeep(executor, *slot_);
  fill(executor, upkeep);
  make_room(upkeep, bytes);
  EXPECT_GT(store_.budget.used(), near);
  const auto before = std::chrono::steady_clock::now();
  constexpr int more = 1000;
  for (int i = 0; i < more; ++i) make_room(upkeep, bytes);
  constexpr std::chrono::seconds far_less_than_each{50};
  EXPECT_LT(std::chrono::steady_clock::now() - before, far_less_than_each);
  EpochDomain::leave(*reader_);
}

// Where nothing can be evicted, of two that see the same room the second one is refused, also where
// the first has lost its core: what it took would stay.
TEST(MakeRoomTest, WhereNothingIsEvictedLargeValuesAreNotAdmittedForTheSameRoom) {
  Options volatile_lru = options();
  volatile_lru.maxmemory_policy = EvictionPolicy::volatile_lru;
  HostStore store(volatile_lru, 1);
  EpochDomain::Slot* const slot = store.epochs.acquire();
  {
    HostExecutor executor(store);
    HostUpkeep upkeep(executor, *slot);
    constexpr uint64_t most = 3 * (20 << 20) / 4;
    const BatchBytes needed{.lasting = most, .at_once = most, .alone = most};
    int64_t first = 0;
    EXPECT_TRUE(upkeep.make_room(needed, 0, first));
    std::thread other([&] {
      constexpr std::chrono::milliseconds stores{150};
      std::this_thread::sleep_for(stores);
      store.budget.items.fetch_add(most);
      store.budget.dismiss(first);
    });
    int64_t second = 0;
    EXPECT_FALSE(upkeep.make_room(needed, 0, second));
    EXPECT_EQ(second, 0);
    other.join();
    store.budget.items.fetch_sub(most);
  }
  store.epochs.release(slot);
}

}  // namespace
}  // namespace isotherm::make_room_test
