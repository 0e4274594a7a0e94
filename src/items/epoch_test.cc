#include "items/epoch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace isotherm::epoch_test {
namespace {

TEST(Epoch, WhatWasRetiredIsFreeOnceEverybodyHasLeft) {
  EpochDomain epochs;
  EpochDomain::Slot* reader = epochs.acquire();
  epochs.enter(*reader);
  const uint64_t retired = epochs.current();
  EXPECT_LE(epochs.advance(), retired);
  EXPECT_LE(epochs.advance(), retired);
  epochs.leave(*reader);
  EXPECT_GT(epochs.advance(), retired);
  epochs.release(reader);
}

TEST(Epoch, WhoEntersLaterHoldsNothingBack) {
  EpochDomain epochs;
  EpochDomain::Slot* reader = epochs.acquire();
  const uint64_t retired = epochs.current();
  epochs.advance();
  epochs.enter(*reader);
  EXPECT_GT(epochs.advance(), retired);
  epochs.leave(*reader);
  epochs.release(reader);
}

TEST(Epoch, SlotsRunOutAndComeBack) {
  constexpr uint32_t most = 3 * EpochDomain::usual_slots;
  EpochDomain epochs(most);
  std::vector<EpochDomain::Slot*> slots;
  for (uint32_t i = 0; i < most; ++i) slots.push_back(epochs.acquire());
  EXPECT_EQ(epochs.acquire(), nullptr);
  epochs.release(slots[7]);
  EXPECT_EQ(epochs.acquire(), slots[7]);
}

TEST(Epoch, ExclusiveWaitsForThoseInside) {
  EpochDomain epochs;
  EpochDomain::Slot* reader = epochs.acquire();
  std::atomic<bool> exclusive{false};
  epochs.enter(*reader);
  std::thread other([&] {
    EpochDomain::Slot* slot = epochs.acquire();
    epochs.lock_exclusive(*slot);
    exclusive = true;
    epochs.unlock_exclusive();
    epochs.leave(*slot);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(exclusive);
  epochs.leave(*reader);
  other.join();
  EXPECT_TRUE(exclusive);
}

TEST(Epoch, OfManySlotsEachHoldsBackWhatItMaySee) {
  EpochDomain epochs(EpochDomain::max_slots);
  EpochDomain::Slot* last = nullptr;
  for (uint32_t i = 0; i <= EpochDomain::usual_slots; ++i) last = epochs.acquire();
  epochs.enter(*last);
  const uint64_t retired = epochs.current();
  EXPECT_LE(epochs.advance(), retired);
  epochs.leave(*last);
  EXPECT_GT(epochs.advance(), retired);
}

// Whoever is inside enters again though a section waits, which then waits for both slots: the
// second one may be a slot that the section had seen empty.
TEST(Epoch, WhoIsInsideMayEnterAgainThoughASectionWaits) {
  EpochDomain epochs;
  EpochDomain::Slot* first = epochs.acquire();
  EpochDomain::Slot* second = epochs.acquire();
  for (const bool earlier_slot : {false, true}) {
    EpochDomain::Slot& held = earlier_slot ? *second : *first;
    EpochDomain::Slot& more = earlier_slot ? *first : *second;
    epochs.enter(held);
    std::atomic<bool> exclusive{false};
    std::thread other([&] {
      EpochDomain::Slot* slot = epochs.acquire();
      epochs.lock_exclusive(*slot);
      exclusive = true;
      epochs.unlock_exclusive();
      epochs.leave(*slot);
      epochs.release(slot);
    });
    while (!epochs.exclusive_wanted()) std::this_thread::yield();
    EXPECT_FALSE(epochs.try_enter(more));
    epochs.enter_also(more);
    epochs.leave(held);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_FALSE(exclusive);
    epochs.leave(more);
    other.join();
    EXPECT_TRUE(exclusive);
  }
}

// What an exclusive section retires is not free while the section, or its reader afterwards, is
// inside.
TEST(Epoch, ExclusiveSectionsAreAnnouncedFromBeginningToLeave) {
  EpochDomain epochs;
  EpochDomain::Slot* slot = epochs.acquire();
  epochs.lock_exclusive(*slot);
  const uint64_t retired = epochs.current();
  EXPECT_LE(epochs.advance(), retired);
  epochs.unlock_exclusive();
  EXPECT_LE(epochs.advance(), retired);
  epochs.leave(*slot);
  EXPECT_GT(epochs.advance(), retired);
  // The gate is open again.
  epochs.enter(*slot);
  epochs.leave(*slot);
}

// Two plain counters that only exclusive sections change, together: whoever has entered sees them
// equal and unchanged. Under the thread sanitizer an overlap is a reported race as well.
TEST(Epoch, ExclusiveSectionsRunAlone) {
  EpochDomain epochs;
  uint64_t first = 0;
  uint64_t second = 0;
  std::atomic<uint64_t> torn{0};
  constexpr int rounds = 3000;
  const auto read = [&] {
    EpochDomain::Slot* slot = epochs.acquire();
    for (int i = 0; i < rounds; ++i) {
      const EpochGuard guard(epochs, *slot);
      const uint64_t before = first;
      std::this_thread::yield();
      if (before != second || before != first) ++torn;
    }
    epochs.release(slot);
  };
  const auto write = [&] {
    EpochDomain::Slot* slot = epochs.acquire();
    for (int i = 0; i < rounds / 4; ++i) {
      epochs.lock_exclusive(*slot);
      ++first;
      std::this_thread::yield();
      ++second;
      epochs.unlock_exclusive();
      epochs.leave(*slot);
    }
    epochs.release(slot);
  };
  std::vector<std::thread> threads;
  threads.emplace_back(read);
  threads.emplace_back(read);
  threads.emplace_back(write);
  threads.emplace_back(write);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0u);
  EXPECT_EQ(first, 2u * (rounds / 4));
  EXPECT_EQ(second, first);
}

// A cell is replaced and its old memory scribbled over as soon as the epoch allows; readers must
// never see the scribble.
TEST(Epoch, ReadersNeverSeeWhatIsReused) {
  EpochDomain epochs;
  constexpr uint64_t scribble = ~uint64_t{0};
  constexpr int cells = 64;
  uint64_t memory[cells] = {};
  std::atomic<uint64_t*> shared{&memory[0]};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> bad{0};
  const auto read = [&] {
    EpochDomain::Slot* slot = epochs.acquire();
    while (!stop) {
      const EpochGuard guard(epochs, *slot);
      const uint64_t* cell = shared.load(std::memory_order_acquire);
      for (int i = 0; i < 20; ++i) {
        if (*static_cast<const volatile uint64_t*>(cell) == scribble) ++bad;
      }
    }
    epochs.release(slot);
  };
  std::thread one(read);
  std::thread two(read);
  int current = 0;
  for (uint64_t round = 1; round < 5000; ++round) {
    const int next = (current + 1) % cells;
    memory[next] = round;
    shared.store(&memory[next], std::memory_order_release);
    const uint64_t retired = epochs.current();
    while (epochs.advance() <= retired) std::this_thread::yield();
    memory[current] = scribble;
    current = next;
  }
  stop = true;
  one.join();
  two.join();
  EXPECT_EQ(bad, 0u);
}

}  // namespace
}  // namespace isotherm::epoch_test
