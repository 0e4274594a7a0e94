#include "db/key_locks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace isotherm::key_locks_test {
namespace {

using Outcome = KeyLocks::Outcome;
constexpr int64_t for_ever = -1;

TEST(KeyLocksTest, AKeyHasOneOwner) {
  KeyLocks locks;
  KeyLocks::Owner one;
  KeyLocks::Owner other;
  EXPECT_EQ(locks.take(one, "a", 0), Outcome::taken);
  EXPECT_EQ(locks.take(one, "a", 0), Outcome::taken);
  EXPECT_EQ(locks.take(other, "b", 0), Outcome::taken);
  EXPECT_EQ(locks.take(other, "a", 0), Outcome::timed_out);
  EXPECT_EQ(locks.take(other, "a", 1), Outcome::timed_out);
  locks.give_back(one);
  EXPECT_EQ(locks.take(other, "a", 0), Outcome::taken);
  EXPECT_EQ(locks.size(), 2u);
  locks.give_back(other);
  EXPECT_EQ(locks.size(), 0u);
}

TEST(KeyLocksTest, ATimeoutMayBeLongerThanTheClockCounts) {
  for (const int64_t timeout :
       {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max() / 1'000'000}) {
    KeyLocks locks;
    KeyLocks::Owner one;
    KeyLocks::Owner other;
    ASSERT_EQ(locks.take(one, "a", 0), Outcome::taken);
    Outcome outcome = Outcome::timed_out;
    std::thread waits([&] { outcome = locks.take(other, "a", timeout); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    locks.give_back(one);
    waits.join();
    EXPECT_EQ(outcome, Outcome::taken) << timeout;
    locks.give_back(other);
  }
}

// Three in a circle, of whom each has a key: whoever comes last is told, and the others go on.
TEST(KeyLocksTest, WhoClosesACircleIsTold) {
  KeyLocks locks;
  constexpr int count = 3;
  KeyLocks::Owner owners[count];
  for (int i = 0; i < count; ++i) {
    ASSERT_EQ(locks.take(owners[i], std::to_string(i), 0), Outcome::taken);
  }
  std::atomic<int> told{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      const Outcome outcome = locks.take(owners[i], std::to_string((i + 1) % count), for_ever);
      if (outcome == Outcome::deadlock) ++told;
      locks.give_back(owners[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(locks.size(), 0u);
}

TEST(KeyLocksTest, ThreadsHaveAKeyOneAtATime) {
  KeyLocks locks;
  int64_t sum = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        KeyLocks::Owner owner;
        ASSERT_EQ(locks.take(owner, "key", for_ever), Outcome::taken);
        ++sum;
        locks.give_back(owner);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 1200);
}

}  // namespace
}  // namespace isotherm::key_locks_test
