// A LineIndex whose memory ends: what is in it stays, what does not fit is refused.
#include <new>
#include <random>
#include <unordered_map>

#include "index/line_index_fixture.h"

namespace isotherm::line_index_memory_test {
namespace {

class LineIndexMemoryTest : public LineIndexFixture,
                            public ::testing::WithParamInterface<uint64_t> {
 protected:
  LineIndexMemoryTest() : LineIndexFixture(GetParam() * Pages::page_bytes) {}

  void put_and_check(uint64_t hash, uint64_t word) {
    const bool present = model.count(hash) != 0;
    const Updated updated = put(hash, word);
    if (updated.change == Change::no_line) {
      ASSERT_FALSE(present) << "a present entry needs no line";
      ASSERT_FALSE(find(hash).found);
      ++refused;
      return;
    }
    ASSERT_EQ(updated.change, present ? Change::replaced : Change::inserted);
    model[hash] = word;
  }
  void expect_all() {
    ASSERT_EQ(index->count(), model.size());
    for (const auto& [hash, word] : model) {
      const Found found = find(hash);
      ASSERT_TRUE(found.found && found.word == word) << std::hex << hash;
    }
  }

  std::unordered_map<uint64_t, uint64_t> model;
  uint64_t refused = 0;
};

TEST_P(LineIndexMemoryTest, NothingIsLostWhenMemoryEnds) {
  std::mt19937_64 random(GetParam());
  for (uint64_t i = 0; refused < scaled(5'000); ++i) {
    put_and_check(random() | 1, i);
    if (HasFatalFailure()) return;
    if (i % 8 == 0) index->step(static_cast<uint32_t>(random() % 16));
    if (i % 1024 == 0) let_go();
  }
  expect_all();
  // Without memory there is nothing more to do, though a split may wait.
  int steps = 0;
  while (index->step(segment_lines)) {
    let_go();
    ASSERT_LT(++steps, 10'000);
  }
  expect_all();
  // Writes to what is there go on, and what is erased makes room again.
  std::vector<uint64_t> hashes;
  for (const auto& [hash, word] : model) hashes.push_back(hash);
  for (const uint64_t hash : hashes) put_and_check(hash, ~hash);
  for (size_t i = 0; i < hashes.size(); i += 2) {
    ASSERT_EQ(erase(hashes[i]).change, Change::erased);
    model.erase(hashes[i]);
  }
  for (size_t i = 0; i < hashes.size(); i += 2) put_and_check(hashes[i], i);
  expect_all();
  EXPECT_EQ(model.size(), hashes.size());
}

INSTANTIATE_TEST_SUITE_P(Pages, LineIndexMemoryTest,
                         ::testing::ValuesIn(poison::sanitized
                                                 ? std::vector<uint64_t>{2}
                                                 : std::vector<uint64_t>{1, 2, 3, 5}));

TEST(LineIndexMemory, TheFirstSegmentMayFail) {
  Pages pages(Pages::page_bytes);
  std::vector<uint64_t> taken;
  for (uint64_t page; (page = pages.take()) != Pages::npos;) taken.push_back(page);
  MemoryBudget budget(0);
  EpochDomain epochs;
  EXPECT_THROW(LineIndex(pages, budget, epochs), std::bad_alloc);
  EXPECT_EQ(budget.index.load(), 0);
  for (const uint64_t page : taken) pages.give(page);
}

TEST(LinePool, TakesAllLinesOrNone) {
  Pages pages(Pages::page_bytes);
  MemoryBudget budget(0);
  LinePool pool(pages, budget, false);
  std::vector<Bucket*> lines;
  const auto all = static_cast<uint32_t>(pages.capacity() / sizeof(Bucket));
  EXPECT_FALSE(pool.take(all + 1, lines));
  EXPECT_TRUE(lines.empty());
  EXPECT_TRUE(pool.take(all, lines));
  EXPECT_EQ(lines.size(), all);
  EXPECT_EQ(pool.take(), nullptr);
  lines.back()->slot[3] = {1, 2};
  pool.give(lines.back());
  Bucket* again = pool.take();
  EXPECT_EQ(again, lines.back());
  EXPECT_EQ(again->slot[3], (Slot{0, 0}));
}

TEST(LinePool, ACappedPoolStaysWithinTheBudget) {
  Pages pages;
  MemoryBudget budget(segment_bytes + sizeof(Segment) + LinePool::span_bytes);
  LinePool pool(pages, budget, true);
  Bucket* segment = pool.take_segment();
  ASSERT_NE(segment, nullptr);
  EXPECT_EQ(pool.take_segment(), nullptr);
  EXPECT_NE(pool.take(), nullptr);
  std::vector<Bucket*> lines;
  EXPECT_FALSE(pool.take(LinePool::span_bytes / sizeof(Bucket), lines));
  EXPECT_EQ(budget.used(), budget.limit());
  pool.give_segment(segment);
}

}  // namespace
}  // namespace isotherm::line_index_memory_test
