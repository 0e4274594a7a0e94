#include "batch/fifo.h"

#include <gtest/gtest.h>

namespace isotherm::fifo_test {
namespace {

TEST(Fifo, KeepsOrderAndNumbersWhileItGrows) {
  Fifo<uint64_t> fifo;
  uint64_t pushed = 0;
  uint64_t popped = 0;
  // Three in, one out, from a place in the middle of the ring on.
  for (int round = 0; round < 500; ++round) {
    for (int i = 0; i < 3; ++i, ++pushed) fifo.push(pushed * 7);
    EXPECT_EQ(fifo.front(), popped * 7);
    EXPECT_EQ(fifo.back(), (pushed - 1) * 7);
    fifo.pop();
    ++popped;
    ASSERT_EQ(fifo.begin(), popped);
    ASSERT_EQ(fifo.end(), pushed);
  }
  for (uint64_t number = popped; number != pushed; ++number) EXPECT_EQ(fifo[number], number * 7);
  while (!fifo.empty()) fifo.pop();
  EXPECT_EQ(fifo.begin(), fifo.end());
}

}  // namespace
}  // namespace isotherm::fifo_test
