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

}  // namespace
}  // namespace isotherm::make_room_test
