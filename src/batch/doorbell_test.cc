#include "batch/doorbell.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

namespace isotherm::doorbell_test {
namespace {

constexpr int64_t for_ever = std::numeric_limits<int64_t>::max();

TEST(Doorbell, SleepEndsWithItsTime) {
  Doorbell doorbell;
  int looks = 0;
  doorbell.sleep(1000, [&] { return ++looks > 1; });
  EXPECT_EQ(looks, 1);
}

TEST(Doorbell, NobodySleepsWhereThereIsWork) {
  Doorbell doorbell;
  doorbell.sleep(for_ever, [] { return true; });
  doorbell.ring();
}

// Two threads wake each other: a ring that is slept over would end the test by its timeout.
TEST(Doorbell, NoRingIsSleptOver) {
  constexpr int rounds = 20'000;
  Doorbell doorbells[2];
  std::atomic<int> turns[2] = {0, 0};
  const auto play = [&](int me) {
    for (int round = 1; round <= rounds; ++round) {
      if (me == 1) {
        while (turns[0].load() < round) {
          doorbells[1].sleep(for_ever, [&] { return turns[0].load() >= round; });
        }
      }
      turns[me].store(round);
      doorbells[1 - me].ring();
      if (me == 0) {
        while (turns[1].load() < round) {
          doorbells[0].sleep(for_ever, [&] { return turns[1].load() >= round; });
        }
      }
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  EXPECT_EQ(turns[1], rounds);
}

}  // namespace
}  // namespace isotherm::doorbell_test
