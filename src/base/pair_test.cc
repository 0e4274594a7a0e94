#include "base/pair.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace isotherm::pair_test {
namespace {

TEST(Pair, StoresAndLoads) {
  Pair pair{1, 2};
  EXPECT_EQ(load_pair(&pair), (Pair{1, 2}));
  store_pair(&pair, {~uint64_t{0}, 3});
  EXPECT_EQ(load_pair(&pair), (Pair{~uint64_t{0}, 3}));
}

TEST(Pair, ComparesBothWordsBeforeItExchanges) {
  Pair pair{1, 2};
  EXPECT_FALSE(compare_exchange_pair(&pair, {1, 3}, {5, 6}));
  EXPECT_FALSE(compare_exchange_pair(&pair, {3, 2}, {5, 6}));
  EXPECT_EQ(pair, (Pair{1, 2}));
  EXPECT_TRUE(compare_exchange_pair(&pair, {1, 2}, {5, 6}));
  EXPECT_EQ(pair, (Pair{5, 6}));
}

// A reader never sees half of what a writer stored.
TEST(Pair, IsReadAndWrittenAsOne) {
  Pair pair{0, ~uint64_t{0}};
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (uint64_t i = 1; i <= 500'000; ++i) {
      store_pair(&pair, {i, ~i});
    }
    done = true;
  });
  uint64_t torn = 0;
  uint64_t last = 0;
  while (!done) {
    const Pair seen = load_pair(&pair);
    torn += seen.second != ~seen.first || seen.first < last;
    last = seen.first;
  }
  writer.join();
  EXPECT_EQ(torn, 0u);
}

}  // namespace
}  // namespace isotherm::pair_test
