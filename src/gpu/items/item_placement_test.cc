#include "gpu/items/item_placement.h"

#include <gtest/gtest.h>

namespace isotherm::item_placement_test {
namespace {

constexpr uint64_t gigabyte = uint64_t{1} << 30;

ItemPlacement some_placement() {
  ItemPlacement placement;
  placement.part_rows = 1 << 19;
  placement.segment_bytes = 8 << 20;
  return placement;
}

TEST(ItemPlacement, ClassesFromTheGivenBlockOnGoToTheHost) {
  EXPECT_EQ(ItemPlacement::class_from(0), item_classes::count);
  EXPECT_EQ(ItemPlacement::class_from(1), 0u);
  EXPECT_EQ(ItemPlacement::class_from(8), 0u);
  EXPECT_EQ(ItemPlacement::class_from(9), 1u);
  for (const uint64_t bytes : {48, 1000, 1024, 100'000}) {
    const uint32_t from = ItemPlacement::class_from(bytes);
    EXPECT_GE(item_classes::bytes_of(from), bytes);
    EXPECT_LT(item_classes::bytes_of(from - 1), bytes);
  }
  EXPECT_EQ(ItemPlacement::class_from(~uint64_t{0}), item_classes::count);
}

TEST(ItemPlacement, TheIndexIsToHoldTheItemsOfBothMemories) {
  const ItemPlacement placement = some_placement();
  const ItemMemoryUse use{100 * gigabyte, 0, 100 * gigabyte, 112};
  const uint64_t items = 200 * gigabyte / (112 + 8 + 29);
  EXPECT_GE(placement.index_to_come(use), items * 29);
  EXPECT_LT(placement.index_to_come(use), items * 29 + gigabyte / 8);
}

TEST(ItemPlacement, WhatTheIndexHasIsNotToCome) {
  const ItemPlacement placement = some_placement();
  ItemMemoryUse use{100 * gigabyte, 0, 100 * gigabyte, 112};
  const uint64_t whole = placement.index_to_come(use);
  use.index = gigabyte;
  EXPECT_EQ(placement.index_to_come(use), whole - gigabyte);
  use.index = 99 * gigabyte;
  EXPECT_EQ(placement.index_to_come(use), 0u);
}

TEST(ItemPlacement, TheIndexTakesNoMoreThanTheDeviceAndWhatItHasAhead) {
  const ItemPlacement placement = some_placement();
  const ItemMemoryUse use{10 * gigabyte, 0, 1000 * gigabyte, 48};
  EXPECT_GE(placement.index_to_come(use), 10 * gigabyte - 29);
  EXPECT_LT(placement.index_to_come(use), 10 * gigabyte + gigabyte / 8);
}

TEST(ItemPlacement, LargerBlocksNeedASmallerIndex) {
  const ItemPlacement placement = some_placement();
  ItemMemoryUse use{10 * gigabyte, 0, 10 * gigabyte, 64};
  uint64_t before = placement.index_to_come(use);
  for (use.block_bytes *= 2; use.block_bytes <= 1 << 20; use.block_bytes *= 2) {
    const uint64_t now = placement.index_to_come(use);
    EXPECT_LT(now, before);
    before = now;
  }
}

}  // namespace
}  // namespace isotherm::item_placement_test
