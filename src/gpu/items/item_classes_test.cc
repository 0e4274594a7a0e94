#include "gpu/items/item_classes.h"

#include <gtest/gtest.h>

#include "gpu/items/device_item.h"

namespace isotherm::item_classes::item_classes_test {
namespace {

TEST(ItemClasses, TheSmallestClassThatHoldsTheBytes) {
  uint32_t before = 0;
  for (uint64_t bytes = 1; bytes < 100'000; ++bytes) {
    const uint32_t size_class = class_of(bytes);
    EXPECT_GE(bytes_of(size_class), bytes);
    if (size_class > 0) {
      EXPECT_LT(bytes_of(size_class - 1), bytes);
    }
    EXPECT_LE(size_class, before + 1);
    before = size_class;
  }
}

TEST(ItemClasses, BlocksAreWordsAndAnEighthTooLargeAtMost) {
  for (uint32_t c = 0; c < count; ++c) {
    EXPECT_EQ(bytes_of(c) % 8, 0u);
    EXPECT_EQ(class_of(bytes_of(c)), c);
    if (c > 32) {
      EXPECT_LE(bytes_of(c) - bytes_of(c - 1), bytes_of(c - 1) / 8);
    }
  }
}

TEST(ItemClasses, TheLastClassHoldsTheLargestItem) {
  const ItemShape largest{gpu::max_item_key_bytes, gpu::max_item_value_bytes, 1, 1, 1, true};
  EXPECT_EQ(class_of(largest.bytes()), count - 1);
}

}  // namespace
}  // namespace isotherm::item_classes::item_classes_test
