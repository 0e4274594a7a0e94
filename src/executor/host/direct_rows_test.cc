#include "executor/host/direct_rows.h"

#include <gtest/gtest.h>

namespace isotherm {
namespace {

constexpr size_t many = 100'000;

TEST(DirectRows, MemoryIsSkippedWhereItMissesManyAndLookedIntoNowAndThen) {
  DirectRows rows;
  EXPECT_FALSE(rows.skips_memory());
  rows.note_look(many, many / 5);
  EXPECT_FALSE(rows.skips_memory());
  rows.note_look(many, many / 3);
  int looks = 0;
  for (int i = 0; i < 1000; ++i) looks += rows.skips_memory() ? 0 : 1;
  EXPECT_GT(looks, 0);
  EXPECT_LT(looks, 50);
  rows.note_look(many, many / 5);
  EXPECT_FALSE(rows.skips_memory());
}

TEST(DirectRows, MemoryIsNotSkippedForAWhileWhereTheBackingLeavesMuchToIt) {
  DirectRows rows;
  rows.note_look(many, many);
  ASSERT_TRUE(rows.skips_memory());
  rows.note_skip(many, many / 10);
  EXPECT_TRUE(rows.skips_memory());
  rows.note_skip(many, many / 2);
  int looks = 0;
  for (; !rows.skips_memory() && looks < 1000; ++looks) rows.note_look(many, many);
  EXPECT_GT(looks, 10);
  EXPECT_LT(looks, 1000);
}

}  // namespace
}  // namespace isotherm
