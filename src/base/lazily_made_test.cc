#include "base/lazily_made.h"

#include <gtest/gtest.h>

namespace isotherm::lazily_made_test {
namespace {

struct Counted {
  Counted(int& its_tries, const bool& fails) : tries(its_tries) {
    ++tries;
    if (fails) throw std::bad_alloc();
  }
  int& tries;
};

TEST(LazilyMade, IsMadeOnceAndNotTriedAgain) {
  for (const bool fails : {false, true}) {
    int tries = 0;
    int calls_before = 0;
    LazilyMade<Counted> made;
    for (int i = 0; i < 3; ++i) {
      Counted* value = made.get([&] { ++calls_before; }, tries, fails);
      EXPECT_EQ(value == nullptr, fails);
    }
    EXPECT_EQ(tries, 1);
    EXPECT_EQ(calls_before, 1);
  }
}

}  // namespace
}  // namespace isotherm::lazily_made_test
