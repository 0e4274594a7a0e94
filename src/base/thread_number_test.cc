#include "base/thread_number.h"

#include <gtest/gtest.h>

#include <barrier>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace isotherm {
namespace thread_number_test {

TEST(ThreadNumber, EachThreadHasItsOwnAndTheNextOnesUseThemAgain) {
  constexpr int at_once = 8;
  const uint32_t mine = thread_number();
  std::set<uint32_t> all;
  std::mutex mutex;
  for (int time = 0; time < 20; ++time) {
    std::barrier everybody(at_once);
    std::set<uint32_t> now;
    std::vector<std::thread> threads;
    for (int i = 0; i < at_once; ++i) {
      threads.emplace_back([&] {
        const uint32_t number = thread_number();
        everybody.arrive_and_wait();
        EXPECT_EQ(thread_number(), number);
        const std::lock_guard guard(mutex);
        now.insert(number);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(now.size(), size_t{at_once});
    EXPECT_FALSE(now.contains(mine));
    all.merge(now);
  }
  EXPECT_EQ(all.size(), size_t{at_once});
  EXPECT_EQ(thread_number(), mine);
}

TEST(ThreadNumber, APlaceIsLookedForFromTheThreadsOwnOn) {
  constexpr uint32_t places = 5;
  std::vector<uint32_t> seen;
  EXPECT_EQ(find_place(places,
                       [&](uint32_t at) {
                         seen.push_back(at);
                         return false;
                       }),
            places);
  ASSERT_EQ(seen.size(), places);
  for (uint32_t i = 0; i < places; ++i) EXPECT_EQ(seen[i], (thread_number() + i) % places);
  EXPECT_EQ(find_place(places, [&](uint32_t at) { return at == seen[3]; }), seen[3]);
}

}  // namespace thread_number_test
}  // namespace isotherm
