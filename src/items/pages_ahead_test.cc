#include "items/pages_ahead.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "items/pages.h"

namespace isotherm::pages_ahead_test {
namespace {

constexpr uint64_t page_bytes = PagesAhead::page_bytes;

template <class Condition>
void await(Condition condition) {
  while (!condition()) std::this_thread::yield();
}

int64_t ahead_pages(const MemoryBudget& budget) {
  return budget.ahead.load() / static_cast<int64_t>(page_bytes);
}
void await_stock(const MemoryBudget& budget) {
  await([&] { return ahead_pages(budget) == PagesAhead::most_ready; });
}

uint64_t threads_of_process() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    uint64_t count = 0;
    if (word == "Threads:" && status >> count) return count;
  }
  return 0;
}

// Makes pages 0, 1, 2, … and can be held back.
class Maker {
 public:
  uint64_t operator()() {
    await([&] { return open_.load(); });
    return next_++;
  }
  void hold() { open_ = false; }
  void release() { open_ = true; }
  uint64_t made() const { return next_; }

 private:
  std::atomic<bool> open_{true};
  std::atomic<uint64_t> next_{0};
};

class PagesAheadTest : public ::testing::Test {
 protected:
  static constexpr uint64_t enough = PagesAhead::least_pages;

  Maker maker_;
};

TEST_F(PagesAheadTest, SmallStoresHaveNoThread) {
  const uint64_t before = threads_of_process();
  MemoryBudget budget(0);
  PagesAhead pages([this] { return maker_(); }, budget);
  for (uint64_t i = 0; i < enough; ++i) EXPECT_EQ(pages.take(i), PagesAhead::npos);
  EXPECT_LE(threads_of_process(), before);
  EXPECT_EQ(budget.used(), 0u);
}

TEST_F(PagesAheadTest, KeepsAStockAndAccountsForIt) {
  std::thread([] {}).join();  // the first thread brings one of a sanitizer's own
  const uint64_t before = threads_of_process();
  MemoryBudget budget(0);
  {
    PagesAhead pages([this] { return maker_(); }, budget);
    EXPECT_EQ(pages.take(enough), PagesAhead::npos);
    for (uint64_t i = 0; i < 1000; ++i) {
      await_stock(budget);
      EXPECT_EQ(pages.take(enough), i);
    }
    await_stock(budget);
    EXPECT_EQ(pages.held(), PagesAhead::most_ready);
    EXPECT_EQ(budget.used(), PagesAhead::most_ready * page_bytes);
    EXPECT_EQ(maker_.made(), 1000 + PagesAhead::most_ready);
  }
  EXPECT_EQ(budget.used(), 0u);
  await([&] { return threads_of_process() <= before; });
}

TEST_F(PagesAheadTest, WhoAsksFasterThanItMakesGetsNone) {
  MemoryBudget budget(0);
  PagesAhead pages([this] { return maker_(); }, budget);
  pages.take(enough);
  await_stock(budget);
  maker_.hold();
  for (uint64_t i = 0; i < PagesAhead::most_ready; ++i) EXPECT_EQ(pages.take(enough), i);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(pages.take(enough), PagesAhead::npos);
  EXPECT_EQ(ahead_pages(budget), 0);
  maker_.release();
  await_stock(budget);
}

TEST_F(PagesAheadTest, EndsWhileAPageIsMade) {
  MemoryBudget budget(0);
  maker_.hold();
  std::thread later;
  {
    PagesAhead pages([this] { return maker_(); }, budget);
    pages.take(enough);
    await([&] { return pages.held() == 1; });
    later = std::thread([&] { maker_.release(); });
  }
  later.join();
  EXPECT_EQ(budget.used(), 0u);
}

TEST_F(PagesAheadTest, ALateMakerWithoutMemoryIsAskedAgain) {
  MemoryBudget budget(0);
  std::atomic<int> asked{0};
  PagesAhead pages([&] { return ++asked <= 3 ? PagesAhead::npos : maker_(); }, budget);
  await([&] {
    pages.take(enough);
    return asked > 3;
  });
  await_stock(budget);
}

TEST_F(PagesAheadTest, NearTheCapNoneIsMadeAndNoneIsKept) {
  constexpr uint64_t limit = 100 * page_bytes;
  MemoryBudget budget(limit);
  PagesAhead pages([this] { return maker_(); }, budget);
  pages.take(enough);
  await_stock(budget);
  EXPECT_EQ(pages.trim(), PagesAhead::npos);
  budget.items.fetch_add(static_cast<int64_t>(limit - 2 * page_bytes));
  EXPECT_TRUE(budget.fits(2 * page_bytes)) << "ready pages are in nobody's way";
  EXPECT_EQ(pages.trim(), 0u);
  EXPECT_EQ(pages.trim(), 1u);
  EXPECT_EQ(pages.trim(), PagesAhead::npos);
  EXPECT_EQ(budget.used(), limit);
  EXPECT_EQ(pages.take(enough), 2u);
  EXPECT_EQ(pages.take(enough), 3u);
  EXPECT_EQ(pages.take(enough), PagesAhead::npos);
  EXPECT_EQ(maker_.made(), uint64_t{PagesAhead::most_ready});
}

// Pages of an arena: in memory, zero, apart from each other, and all accounted for.
TEST(PagesAheadOfAnArena, AreReadyAndZero) {
  MemoryBudget budget(0);
  Pages pages;
  pages.fault_ahead(budget);
  std::vector<uint64_t> taken;
  while (taken.size() <= PagesAhead::least_pages) taken.push_back(pages.take());
  const auto small_page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(page_bytes / small_page);
  for (int i = 0; i < 20; ++i) {
    await_stock(budget);
    const uint64_t offset = i % 2 == 0 ? pages.take() : pages.take_span(page_bytes);
    char* page = static_cast<char*>(pages.base()) + offset;
    ASSERT_EQ(mincore(page, page_bytes, resident.data()), 0);
    EXPECT_TRUE(std::all_of(resident.begin(), resident.end(), [](auto in) { return in & 1; }));
    EXPECT_TRUE(std::all_of(page, page + page_bytes, [](char byte) { return byte == 0; }));
    if (i % 2 == 0) taken.push_back(offset);
  }
  await_stock(budget);
  EXPECT_EQ(pages.pages_taken(), taken.size() + 10);
  std::sort(taken.begin(), taken.end());
  EXPECT_EQ(std::adjacent_find(taken.begin(), taken.end()), taken.end());
  for (const uint64_t offset : taken) pages.give(offset);
  EXPECT_EQ(pages.pages_taken(), 10u);
}

}  // namespace
}  // namespace isotherm::pages_ahead_test
