// What frees items needs no memory, and what is retired where there is none is freed all the same.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "items/item_store_fixture.h"
#include "models/failing_memory.h"

namespace isotherm::item_memory_test {
namespace {

constexpr uint64_t large_bytes = 100'000;

struct ItemMemoryTest : ItemStoreFixture {
  void retire(const std::vector<Location>& all) {
    for (const Location location : all) cache->retire(location);
  }
};

TEST(RetiredQueueTest, ToTakeOutOfItNeedsNoMemory) {
  RetiredQueue queue;
  for (uint64_t i = 0; i < 40'000; ++i) queue.push({i, i});
  {
    const FailingMemory fails(0);
    for (uint64_t i = 0; i < 40'000; ++i) ASSERT_EQ(queue.pop().epoch, i);
    EXPECT_FALSE(queue.make_room());
  }
  EXPECT_TRUE(queue.empty());
  queue.push({7, 8});
  EXPECT_EQ(queue.pop().location, 7u);
}

TEST_F(ItemMemoryTest, LargeItemsAreFreedWithoutMemory) {
  std::vector<Location> all;
  for (int i = 0; i < 100; ++i) all.push_back(put(std::to_string(i), large_bytes));
  retire(all);
  {
    const FailingMemory fails(0);
    for (int i = 0; i < 100; ++i) cache->reclaim(1 << 20);
  }
  EXPECT_EQ(store->large_items().count(), 0u);
}

TEST_F(ItemMemoryTest, ALargeItemIsRetiredWhenThereIsMemory) {
  const Location location = put("a", large_bytes);
  {
    const FailingMemory fails(0);
    cache->retire(location);
    EXPECT_TRUE(FailingMemory::failed());
  }
  EXPECT_EQ(budget.passing.load(), static_cast<int64_t>(store->retired_bytes()));
  settle();
  EXPECT_EQ(budget.passing.load(), 0);
  EXPECT_EQ(store->large_items().count(), 0u);
}

// They stay whose they are until there is some.
TEST_F(ItemMemoryTest, WhatAnEndedThreadRetiredIsTakenOverWhenThereIsMemory) {
  std::vector<Location> all;
  for (int i = 0; i < 1000; ++i) all.push_back(put(std::to_string(i), 100));
  retire(all);
  cache.reset();
  cache = std::make_unique<ItemCache>(*store);
  const uint64_t retired = store->retired_bytes();
  EXPECT_NE(retired, 0u);
  {
    const FailingMemory fails(0);
    cache->reclaim(1 << 20);
    EXPECT_TRUE(FailingMemory::failed());
  }
  EXPECT_EQ(store->retired_bytes(), retired);
  settle();
  EXPECT_EQ(store->retired_bytes(), 0u);
}

}  // namespace
}  // namespace isotherm::item_memory_test
