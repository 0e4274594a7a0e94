#include "items/chunk_pool.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace isotherm::chunk_pool_test {
namespace {

constexpr int64_t chunk_bytes = Chunk::bytes;
constexpr int64_t page_cost = Pages::page_bytes + Chunk::per_page * sizeof(Chunk);

TEST(ChunkPool, APageIsCountedWholeAndGivenBack) {
  Pages pages;
  MemoryBudget budget(0);
  {
    ChunkPool pool(pages, budget);
    const uint32_t number = pool.take(3, false);
    EXPECT_EQ(pool.chunk(number).size_class(), 3);
    EXPECT_EQ(budget.items.load(), page_cost);
    EXPECT_EQ(pool.stock(), Chunk::per_page - 1);
    EXPECT_EQ(pool.in_classes(number / Chunk::per_page), 1u << (number % Chunk::per_page));
    pool.chunk(number).leave();
    pool.give(number);
    EXPECT_EQ(pool.stock(), Chunk::per_page);
    EXPECT_FALSE(pool.trim());  // a page may stay in stock
  }
  EXPECT_EQ(budget.items.load(), 0);
  EXPECT_EQ(pages.pages_taken(), 0u);
}

TEST(ChunkPool, ChunksAreDistinctAndLowestFirst) {
  Pages pages;
  MemoryBudget budget(0);
  ChunkPool pool(pages, budget);
  std::set<uint32_t> numbers;
  for (uint32_t i = 0; i < 100; ++i) numbers.insert(pool.take(0, false));
  EXPECT_EQ(numbers.size(), 100u);
  EXPECT_EQ(*numbers.rbegin() - *numbers.begin(), 99u);
  EXPECT_EQ(pool.chunks_in_classes(), 100u);
}

TEST(ChunkPool, FreePagesGoBackAboveTheStock) {
  Pages pages;
  MemoryBudget budget(0);
  ChunkPool pool(pages, budget);
  std::vector<uint32_t> numbers;
  for (uint32_t i = 0; i < 10 * Chunk::per_page; ++i) numbers.push_back(pool.take(0, false));
  EXPECT_EQ(budget.items.load(), 10 * page_cost);
  for (const uint32_t number : numbers) {
    pool.chunk(number).leave();
    pool.give(number);
  }
  while (pool.trim()) {
  }
  EXPECT_EQ(budget.items.load(), page_cost);
  EXPECT_EQ(pages.pages_taken(), 1u);
}

TEST(ChunkPool, ScatteredChunksGoBackOneByOne) {
  Pages pages;
  MemoryBudget budget(0);
  ChunkPool pool(pages, budget);
  std::vector<uint32_t> numbers;
  for (uint32_t i = 0; i < 10 * Chunk::per_page; ++i) numbers.push_back(pool.take(0, false));
  if (!pages.divisible(0)) GTEST_SKIP() << "pages of hugetlbfs";
  // One chunk of each page stays.
  for (const uint32_t number : numbers) {
    if (number % Chunk::per_page == 5) continue;
    pool.chunk(number).leave();
    pool.give(number);
  }
  while (pool.trim()) {
  }
  EXPECT_EQ(pool.stock(), Chunk::per_page);
  EXPECT_EQ(budget.items.load(), 10 * (page_cost - static_cast<int64_t>(Pages::page_bytes)) +
                                     (10 + Chunk::per_page) * chunk_bytes);
  // They serve again, and count again.
  std::vector<uint32_t> again;
  for (uint32_t i = 0; i < 10 * (Chunk::per_page - 1); ++i) again.push_back(pool.take(1, false));
  EXPECT_EQ(budget.items.load(), 10 * page_cost);
  EXPECT_EQ(pages.pages_taken(), 10u);
}

TEST(ChunkPool, TheCapHoldsToTheChunk) {
  Pages pages;
  constexpr uint64_t limit = 5 << 20;
  MemoryBudget budget(limit);
  ChunkPool pool(pages, budget);
  uint32_t taken = 0;
  while (pool.take(0, false) != Chunk::none) ++taken;
  EXPECT_LE(budget.used(), limit);
  EXPECT_GT(budget.used() + Chunk::bytes, limit);
  EXPECT_GE(taken, 75u);
  EXPECT_TRUE(pool.exhausted());
  EXPECT_NE(pool.take(0, true), Chunk::none);
  EXPECT_GT(budget.used(), limit);
}

TEST(ChunkPool, ATinyCapStillHoldsSomething) {
  Pages pages;
  MemoryBudget budget(256 << 10);
  ChunkPool pool(pages, budget);
  EXPECT_NE(pool.take(0, false), Chunk::none);
  EXPECT_LE(budget.used(), 256u << 10);
}

TEST(ChunkPool, AFullArenaIsNoMemory) {
  Pages pages(Pages::page_bytes);
  MemoryBudget budget(0);
  ChunkPool pool(pages, budget);
  for (uint32_t i = 0; i < Chunk::per_page; ++i) EXPECT_NE(pool.take(0, false), Chunk::none);
  EXPECT_EQ(pool.take(0, false), Chunk::none);
  EXPECT_EQ(pool.take(0, true), Chunk::none);
}

}  // namespace
}  // namespace isotherm::chunk_pool_test
