#include "base/wait_clock.h"

#include <gtest/gtest.h>

#include <thread>

namespace isotherm::wait_clock_test {
namespace {

TEST(WaitClockTest, ASteadyWaitEndsWhenItsMomentHasCome) {
  SteadyWaitClock clock;
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  const int64_t until = clock.now_ns() + 2'000'000;
  while (clock.now_ns() < until) clock.wait(lock, changed, until);
  EXPECT_TRUE(lock.owns_lock());
  EXPECT_GE(clock.now_ns(), until);
}

TEST(WaitClockTest, AManualWaitEndsWhenTheClockIsTurned) {
  ManualWaitClock clock(50);
  std::mutex mutex;
  std::condition_variable changed;
  int64_t woken = 0;
  std::thread sleeper([&] {
    std::unique_lock lock(mutex);
    while (clock.now_ns() < 100) clock.wait(lock, changed, 100);
    woken = clock.now_ns();
  });
  for (uint64_t waits = 1; waits <= 2; ++waits) {
    while (clock.waits() < waits) std::this_thread::yield();
    clock.advance(25);
  }
  sleeper.join();
  EXPECT_EQ(woken, 100);
}

TEST(WaitClockTest, AManualWaitForThePastDoesNotSleep) {
  ManualWaitClock clock(50);
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  clock.wait(lock, changed, 50);
  EXPECT_EQ(clock.waits(), 0u);
}

}  // namespace
}  // namespace isotherm::wait_clock_test
