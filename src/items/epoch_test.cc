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

TEST(Epoch, WhoWorksIsFoundAndHoldsMemoryBackAsAnybodyInside) {
  EpochDomain epochs;
  EpochDomain::Slot* first = epochs.acquire();
  EpochDomain::Slot* second = epochs.acquire();
  epochs.enter(*first);
  EXPECT_FALSE(EpochDomain::is_at_work(*first));
  epochs.enter_to_work(*second);
  EXPECT_TRUE(EpochDomain::is_at_work(*second));
  EpochDomain::work(*first);
  EXPECT_TRUE(EpochDomain::is_at_work(*first));
  const uint64_t retired = epochs.current();
  epochs.leave(*first);
  EXPECT_TRUE(EpochDomain::is_outside(*first));
  EXPECT_LE(epochs.advance(), retired);
  EpochDomain::rest(*second);
  EXPECT_FALSE(EpochDomain::is_at_work(*second));
  EXPECT_LE(epochs.advance(), retired);
  epochs.leave(*second);
  EXPECT_GT(epochs.advance(), retired);
}

// Each is waited for until it rests, leaves, or begins anew; nobody else is.
TEST(Epoch, WorkOfBeforeIsWaitedForAndNoLaterOne) {
  EpochDomain epochs;
  EpochDomain::Slot* slot = epochs.acquire();
  const auto pauses_until = [&](const auto& ends) {
    int pauses = 0;
    epochs.wait_for_work([&] {
      if (++pauses == 3) ends();
    });
    return pauses;
  };
  const auto nothing = [] {};
  EXPECT_EQ(pauses_until(nothing), 0);
  epochs.enter(*slot);
  EXPECT_EQ(pauses_until(nothing), 0);
  EpochDomain::work(*slot);
  EXPECT_EQ(pauses_until([&] { EpochDomain::rest(*slot); }), 3);
  epochs.enter_to_work(*slot);
  EXPECT_EQ(pauses_until([&] { epochs.enter_to_work(*slot); }), 3);
  EXPECT_EQ(pauses_until([&] { EpochDomain::work(*slot); }), 3);
  EXPECT_EQ(pauses_until([&] { epochs.leave(*slot); }), 3);
  EXPECT_EQ(pauses_until(nothing), 0);
  // Numbers come round again and touch nothing else.
  for (int i = 0; i < 70'000; ++i) epochs.enter_to_work(*slot);
  const uint64_t retired = epochs.current();
  EXPECT_LE(epochs.advance(), retired);
  EXPECT_TRUE(EpochDomain::is_at_work(*slot));
  epochs.leave(*slot);
  EXPECT_GT(epochs.advance(), retired);
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
