#include "items/pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "base/memory_node.h"

namespace isotherm::pages_test {
namespace {

char* at(const Pages& pages, uint64_t offset) { return static_cast<char*>(pages.base()) + offset; }

bool all_zero(const char* memory, uint64_t bytes) {
  return memory[0] == 0 && std::memcmp(memory, memory + 1, bytes - 1) == 0;
}

TEST(Pages, PagesAreZeroAlignedAndLowestFirst) {
  Pages pages;
  const uint64_t first = pages.take();
  const uint64_t second = pages.take();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(at(pages, first)) % Pages::page_bytes, 0u);
  EXPECT_NE(first, second);
  EXPECT_TRUE(all_zero(at(pages, first), Pages::page_bytes));
  std::memset(at(pages, first), 7, Pages::page_bytes);
  pages.give(first);
  EXPECT_EQ(pages.pages_taken(), 1u);
  EXPECT_EQ(pages.take(), first);
  EXPECT_TRUE(all_zero(at(pages, first), Pages::page_bytes));
}

TEST(Pages, ASmallArenaEnds) {
  Pages pages(4 * Pages::page_bytes);
  ASSERT_EQ(pages.capacity(), 4 * Pages::page_bytes);
  std::vector<uint64_t> taken;
  for (int i = 0; i < 4; ++i) taken.push_back(pages.take());
  EXPECT_EQ(pages.take(), Pages::npos);
  EXPECT_EQ(pages.take_span(64 << 10), Pages::npos);
  pages.give(taken[2]);
  EXPECT_EQ(pages.take_span(64 << 10), taken[2]);
  EXPECT_EQ(pages.take(), Pages::npos);
}

TEST(Pages, SpansOfOddSizesAreRefused) {
  Pages pages;
  EXPECT_EQ(pages.take_span(0), Pages::npos);
  EXPECT_EQ(pages.take_span(32 << 10), Pages::npos);
  EXPECT_EQ(pages.take_span(96 << 10), Pages::npos);
  EXPECT_EQ(pages.take_span(4 << 20), Pages::npos);
}

TEST(Pages, PartsGoBackAndReadAsZero) {
  Pages pages;
  const uint64_t page = pages.take();
  if (!pages.divisible(page)) GTEST_SKIP() << "a page of hugetlbfs";
  std::memset(at(pages, page), 7, Pages::page_bytes);
  EXPECT_TRUE(pages.release_part(page + (64 << 10), 64 << 10));
  EXPECT_TRUE(all_zero(at(pages, page + (64 << 10)), 64 << 10));
  EXPECT_EQ(*at(pages, page), 7);
  EXPECT_EQ(*at(pages, page + (128 << 10)), 7);
  pages.restore(page);
  pages.give(page);
}

// Random spans: aligned, zero, never overlapping, and no page left when all are given.
TEST(Pages, SpansKeepApartAndMergeAgain) {
  Pages pages;
  std::mt19937_64 random(1);
  std::map<uint64_t, uint64_t> held;  // offset → bytes
  for (int i = 0; i < 3000; ++i) {
    if (held.size() < 40 && random() % 2 == 0) {
      const uint64_t bytes = (uint64_t{64} << 10) << (random() % 6);
      const uint64_t offset = pages.take_span(bytes);
      ASSERT_NE(offset, Pages::npos);
      ASSERT_EQ(offset % bytes, 0u);
      ASSERT_TRUE(all_zero(at(pages, offset), bytes));
      std::memset(at(pages, offset), 1, bytes);
      const auto next = held.lower_bound(offset);
      ASSERT_TRUE(next == held.end() || next->first >= offset + bytes);
      ASSERT_TRUE(next == held.begin() ||
                  std::prev(next)->first + std::prev(next)->second <= offset);
      held[offset] = bytes;
    } else if (!held.empty()) {
      const auto victim =
          std::next(held.begin(), static_cast<std::ptrdiff_t>(random() % held.size()));
      pages.give_span(victim->first, victim->second);
      held.erase(victim);
    }
  }
  for (const auto& [offset, bytes] : held) pages.give_span(offset, bytes);
  EXPECT_EQ(pages.pages_taken(), 0u);
}

TEST(Pages, SmallSpansShareAPage) {
  Pages pages;
  std::vector<uint64_t> spans;
  for (int i = 0; i < 32; ++i) spans.push_back(pages.take_span(64 << 10));
  EXPECT_EQ(pages.pages_taken(), 1u);
  std::sort(spans.begin(), spans.end());
  EXPECT_EQ(std::unique(spans.begin(), spans.end()), spans.end());
  for (const uint64_t span : spans) pages.give_span(span, 64 << 10);
  EXPECT_EQ(pages.pages_taken(), 0u);
}

TEST(Pages, ComeFromThePreferredNode) {
  Pages pages(64 << 20);
  if (!pages.prefer({0})) GTEST_SKIP() << "skipped: the kernel refuses policies of memory nodes";
  const MemoryPolicy preferred = MemoryPolicy::preferring({0});
  char* base = static_cast<char*>(pages.base());
  for (int i = 0; i < 3; ++i) {
    const uint64_t page = pages.take();
    const uint64_t span = pages.take_span(64 << 10);
    base[page] = 1;
    base[span] = 1;
    EXPECT_EQ(memory_policy(base + page), preferred);
    EXPECT_EQ(memory_policy(base + span), preferred);
    pages.release_part(page, 64 << 10);
    pages.give(page);
    EXPECT_EQ(memory_policy(base + page), preferred);
  }
}

TEST(Pages, ComeFromAnywhereWhereThePreferredNodeIsNotThere) {
  Pages pages(64 << 20);
  EXPECT_FALSE(pages.prefer({MemoryPolicy::most_nodes - 1}));
  EXPECT_FALSE(pages.prefer({}));
  const uint64_t page = pages.take();
  ASSERT_NE(page, Pages::npos);
  static_cast<char*>(pages.base())[page] = 1;
}

TEST(Pages, ThreadsTakeDifferentPages) {
  Pages pages;
  const auto work = [&] {
    for (int i = 0; i < 200; ++i) {
      const uint64_t page = pages.take();
      const uint64_t span = pages.take_span(512 << 10);
      ASSERT_TRUE(*at(pages, page) == 0 && *at(pages, span) == 0);
      *at(pages, page) = 1;
      *at(pages, span) = 1;
      pages.give(page);
      pages.give_span(span, 512 << 10);
    }
  };
  std::thread one(work);
  std::thread two(work);
  one.join();
  two.join();
  EXPECT_EQ(pages.pages_taken(), 0u);
}

}  // namespace
}  // namespace isotherm::pages_test
