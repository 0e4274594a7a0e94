#include "items/item_store.h"

#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "items/item_store_fixture.h"
#include "items/poison.h"

namespace isotherm::item_store_test {
namespace {

class ItemStoreTest : public ItemStoreFixture {};

struct CappedItemStoreTest : ItemStoreFixture {
  static constexpr uint64_t limit = 8 << 20;
  CappedItemStoreTest() : ItemStoreFixture(limit) {}
};

TEST_F(ItemStoreTest, EverySizeHasRoomOfItsOwn) {
  std::vector<std::pair<Location, uint64_t>> all;
  for (uint64_t bytes = 0; bytes <= 40 << 10; bytes += 97) {
    const Location location = cache->allocate(bytes);
    ASSERT_NE(location, location::none);
    EXPECT_EQ(location::kind(location),
              bytes <= size_classes::largest ? location::Kind::item : location::Kind::large);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(store->address(location)) % 16, 0u);
    EXPECT_GE(ItemStore::footprint(location), bytes);
    std::memset(store->address(location), static_cast<int>(bytes % 251), bytes);
    all.emplace_back(location, bytes);
  }
  for (const auto& [location, bytes] : all) {
    const char* memory = store->address(location);
    for (uint64_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(memory[i], static_cast<char>(bytes % 251)) << bytes;
    }
    cache->free_unpublished(location);
  }
}

// Of threads that all see the same room for a large item one alone gets it.
TEST_F(CappedItemStoreTest, LargeItemsOfSeveralThreadsStayWithinTheCap) {
  constexpr uint32_t writers = 4;
  LargeItems& large = store->large_items();
  for (int round = 0; round < 20; ++round) {
    std::atomic<uint32_t> ready{0};
    std::vector<Location> got(writers, location::none);
    std::vector<std::thread> threads;
    for (Location& its : got) {
      threads.emplace_back([&] {
        ++ready;
        while (ready.load() < writers) std::this_thread::yield();
        its = large.allocate(5 << 20, false);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(large.count(), 1u);
    EXPECT_LE(budget.claimed(), limit);
    for (const Location its : got) {
      if (its != location::none) large.free(its);
    }
  }
}

TEST_F(ItemStoreTest, ItemsOfSixtyFourBytesFillTheirChunks) {
  for (uint32_t i = 0; i < 64 * 1024; ++i) ASSERT_NE(cache->allocate(64), location::none);
  EXPECT_EQ(chunks(), 64u);
  EXPECT_EQ(budget.items.load(), 2 * int64_t{Pages::page_bytes + Chunk::per_page * sizeof(Chunk)});
}

TEST_F(ItemStoreTest, ItemsMoveInBulkAndCachesHoldLittle) {
  for (int i = 0; i < 10000; ++i) cache->free_unpublished(cache->allocate(64));
  EXPECT_EQ(chunks(), 1u);
  std::vector<Location> all;
  for (int i = 0; i < 10000; ++i) all.push_back(cache->allocate(64));
  for (const Location location : all) cache->free_unpublished(location);
  // All but four fillings went back.
  const ItemMemory memory = store->memory();
  EXPECT_LE(memory.chunks - memory.free, 4u * 256 * 64);
  // What an idle cache holds goes back as well.
  settle();
  EXPECT_EQ(chunks(), 0u);
}

TEST_F(ItemStoreTest, LiveBitsAreTheItemsOwn) {
  const Location one = put("one", 10);
  const Location two = put("two", 10);
  const Location large = put("large", 100000);
  for (const Location location : {one, two, large}) EXPECT_TRUE(store->is_live(location));
  EXPECT_TRUE(store->clear_live(one));
  EXPECT_FALSE(store->clear_live(one));
  EXPECT_TRUE(store->clear_live(large));
  EXPECT_FALSE(store->clear_live(large));
  EXPECT_TRUE(store->is_live(two));
  for (const Location location : {one, two, large}) cache->retire(location);
  EXPECT_FALSE(store->is_live(two));
}

TEST_F(ItemStoreTest, RetiredItemsWaitForReaders) {
  const Location location = put("key", 10);
  epochs.enter(*slot);
  cache->retire(location);
  EXPECT_EQ(store->retired_bytes(), ItemStore::footprint(location));
  settle();
  EXPECT_EQ(store->item(location)->key(), "key");
  std::set<Location> others;
  for (int i = 0; i < 3000; ++i) others.insert(cache->allocate(32));
  EXPECT_FALSE(others.contains(location));
  epochs.leave(*slot);
  settle();
  EXPECT_EQ(store->retired_bytes(), 0u);
  for (int i = 0; i < 3000; ++i) others.insert(cache->allocate(32));
  EXPECT_TRUE(others.contains(location));
}

TEST_F(ItemStoreTest, AnotherCacheTakesOrphansUp) {
  EpochDomain::Slot* reader = epochs.acquire();
  epochs.enter(*reader);
  Location small = location::none;
  Location large = location::none;
  {
    ItemCache other(*store);
    small = other.allocate(64);
    large = other.allocate(1 << 20);
    other.retire(small);
    other.retire(large);
  }
  settle();
  EXPECT_GT(store->retired_bytes(), uint64_t{1} << 20);
  EXPECT_EQ(store->memory().large_count, 1u);
  epochs.leave(*reader);
  epochs.release(reader);
  settle();
  EXPECT_EQ(store->retired_bytes(), 0u);
  EXPECT_EQ(store->memory().large_count, 0u);
}

TEST_F(ItemStoreTest, ReclaimIsBounded) {
  std::vector<Location> all;
  for (int i = 0; i < 1000; ++i) all.push_back(put("key", 10));
  for (const Location location : all) cache->retire(location);
  EXPECT_TRUE(cache->reclaim(200));
  EXPECT_EQ(store->retired_bytes(), 800u * 32);
  EXPECT_TRUE(cache->reclaim(50));  // an eighth
  EXPECT_EQ(store->retired_bytes(), 700u * 32);
  EXPECT_TRUE(cache->reclaim(5));  // an eighth would be long for whoever waits behind it
  EXPECT_EQ(store->retired_bytes(), 680u * 32);
  EXPECT_FALSE(cache->reclaim(1000));
  EXPECT_EQ(store->retired_bytes(), 0u);
}

TEST_F(ItemStoreTest, LargeItemsAreFreedInSteps) {
  constexpr uint64_t many = 64;
  std::vector<Location> all;
  for (uint64_t i = 0; i < many; ++i) all.push_back(put("key", 50'000));
  for (const Location location : all) cache->retire(location);
  EXPECT_TRUE(cache->reclaim(1));  // about an eighth
  const uint64_t left = store->memory().large_count;
  EXPECT_LT(left, many);
  EXPECT_GT(left, many / 2);
  settle();
  EXPECT_EQ(store->memory().large_count, 0u);
}

TEST_F(ItemStoreTest, CollisionNodesRetireToo) {
  const Location location =
      location::as(location::Kind::collision, cache->allocate(CollisionNode::bytes(2)));
  cache->retire(location);
  settle();
  EXPECT_EQ(store->retired_bytes(), 0u);
  EXPECT_EQ(location::kind(cache->allocate(CollisionNode::bytes(2))), location::Kind::item);
}

TEST_F(CappedItemStoreTest, AtTheCapThereIsNothingUnlessForced) {
  std::vector<Location> all;
  for (;;) {
    const Location location = cache->allocate(1000);
    if (location == location::none) break;
    all.push_back(location);
  }
  EXPECT_LE(budget.used(), limit);
  EXPECT_GT(all.size(), 7500u);
  EXPECT_EQ(cache->allocate(100 << 10), location::none);
  EXPECT_EQ(cache->allocate(2000), location::none);
  EXPECT_NE(cache->allocate(1000, true), location::none);
  EXPECT_GT(budget.used(), limit);
  for (const Location location : all) cache->free_unpublished(location);
  settle();
  EXPECT_LE(budget.used(), limit);
  EXPECT_NE(cache->allocate(100 << 10), location::none);
}

TEST_F(CappedItemStoreTest, OtherStacksAreGivenBeforeGivingUp) {
  std::vector<Location> small;
  while (true) {
    const Location location = cache->allocate(64);
    if (location == location::none) break;
    small.push_back(location);
  }
  // One chunk's worth in the stack at most; given back, it makes room for another class.
  for (size_t i = 0; i < 1024; ++i) {
    cache->free_unpublished(small.back());
    small.pop_back();
  }
  EXPECT_NE(cache->allocate(5000), location::none);
}

// Threads that had items of many sizes, and rest, leave the memory to others.
TEST_F(CappedItemStoreTest, FreeItemsOfManyThreadsTakeASmallShare) {
  constexpr size_t threads = 64;
  std::vector<std::unique_ptr<ItemCache>> others;
  for (size_t i = 0; i < threads; ++i) others.push_back(std::make_unique<ItemCache>(*store));
  for (const auto& other : others) {
    other->reclaim();
    for (uint64_t bytes = 64; bytes < 8000; bytes = bytes * 5 / 4) {
      std::vector<Location> some;
      for (int i = 0; i < 20; ++i) some.push_back(other->allocate(bytes));
      for (const Location location : some) {
        if (location != location::none) other->free_unpublished(location);
      }
    }
  }
  uint64_t mine = 0;
  while (cache->allocate(1000) != location::none) mine += 1000;
  EXPECT_GT(mine, limit * 3 / 4);
}

// What a thread that sleeps has retired is freed by those that are awake.
TEST_F(ItemStoreTest, WhatASleepingThreadHasRetiredIsForOthers) {
  ItemCache other(*store);
  const Location location = put("key", 10);
  epochs.enter(*slot);
  cache->retire(location);
  const uint64_t bytes = store->retired_bytes();
  cache->leave_retired();
  EXPECT_EQ(cache->retired_bytes(), 0u);
  EXPECT_EQ(store->retired_bytes(), bytes);
  other.reclaim_all();
  EXPECT_EQ(store->retired_bytes(), bytes) << "a reader holds it back";
  epochs.leave(*slot);
  other.reclaim_all();
  EXPECT_EQ(store->retired_bytes(), 0u);
}

TEST_F(CappedItemStoreTest, LargeItemsCount) {
  const Location large = cache->allocate(4 << 20);
  ASSERT_NE(large, location::none);
  EXPECT_GE(budget.used(), uint64_t{4} << 20);
  EXPECT_EQ(cache->allocate(5 << 20), location::none);
  EXPECT_EQ(cache->allocate(~uint64_t{0}), location::none);
  EXPECT_EQ(cache->allocate(~uint64_t{0} >> 1, true), location::none);
  cache->free_unpublished(large);
  EXPECT_NE(cache->allocate(5 << 20), location::none);
}

TEST_F(ItemStoreTest, MemoryFollowsTheItems) {
  std::vector<Location> all;
  for (int i = 0; i < 400000; ++i) all.push_back(put("sixteen-byte-key", 32));
  const uint64_t full = budget.used();
  for (const Location location : all) {
    cache->retire(location);
    if (location % 1024 == 0) cache->reclaim();
  }
  settle();
  EXPECT_LT(budget.used(), full / 8);
}

#if defined(ISOTHERM_POISON) && !defined(ISOTHERM_ASAN)
TEST_F(ItemStoreTest, FreedItemsArePoisoned) {
  const Location location = put("key", 100);
  const char* memory = store->address(location);
  cache->retire(location);
  settle();
  EXPECT_EQ(static_cast<unsigned char>(memory[50]), poison::pattern);
}
#endif

TEST_F(ItemStoreTest, ThreadsShareClasses) {
  const auto work = [&](uint64_t seed) {
    ItemCache own(*store);
    std::vector<Location> held;
    for (uint64_t i = 0; i < 60000; ++i) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      if (held.size() < 3000 && (seed >> 60) < 9) {
        const Location location = own.allocate(32 + (seed >> 33) % 600);
        std::memcpy(store->address(location), &location, sizeof location);
        held.push_back(location);
      } else if (!held.empty()) {
        std::swap(held[(seed >> 33) % held.size()], held.back());
        Location seen;
        std::memcpy(&seen, store->address(held.back()), sizeof seen);
        ASSERT_EQ(seen, held.back());
        own.free_unpublished(held.back());
        held.pop_back();
      }
    }
    for (const Location location : held) own.free_unpublished(location);
  };
  std::thread one(work, 1);
  std::thread two(work, 2);
  std::thread three(work, 3);
  one.join();
  two.join();
  three.join();
  EXPECT_EQ(chunks(), 0u);
}

}  // namespace
}  // namespace isotherm::item_store_test
