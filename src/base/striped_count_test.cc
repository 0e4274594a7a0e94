#include "base/striped_count.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>
#include <vector>

namespace isotherm {
namespace striped_count_test {

// `threads` at once, each of which adds 1,000 times 3 and once -1.
void add_in(int threads, StripedCount& count) {
  std::barrier all(threads);
  std::vector<std::thread> started;
  for (int i = 0; i < threads; ++i) {
    started.emplace_back([&] {
      count.add(-1);
      all.arrive_and_wait();  // all have their stripes
      for (int j = 0; j < 1'000; ++j) count.add(3);
    });
  }
  for (std::thread& thread : started) thread.join();
}

TEST(StripedCount, CountsWhatAllThreadsAdd) {
  StripedCount count;
  count.add(7);
  add_in(4, count);
  EXPECT_EQ(count.sum(), 7 + 4 * 2'999);
}

TEST(StripedCount, ThreadsBeyondTheStripesShareOne) {
  StripedCount count;
  const int threads = StripedCount::own_stripes + 10;
  add_in(threads, count);
  EXPECT_EQ(count.sum(), threads * 2'999);
}

// Numbers of threads that have ended go to later ones, which go on with the stripe as it is.
TEST(StripedCount, StripesAreUsedAgain) {
  StripedCount count;
  StripedCount other;
  for (int i = 0; i < 200; ++i) {
    std::thread([&] {
      count.add(1);
      other.add(-1);
    }).join();
  }
  EXPECT_EQ(count.sum(), 200);
  EXPECT_EQ(other.sum(), -200);
}

}  // namespace striped_count_test
}  // namespace isotherm
