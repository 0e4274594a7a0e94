// Growth of a LineIndex: bounded steps, scans and drains in the middle of it, memory that comes
// back.
#include <cmath>
#include <random>
#include <unordered_map>
#include <unordered_set>

#include "index/line_index_fixture.h"

namespace isotherm::line_index_growth_test {
namespace {

class LineIndexGrowthTest : public LineIndexFixture {
 protected:
  // Fills a segment until it wants to split.
  void fill_to_split(uint64_t seed) {
    std::mt19937_64 random(seed);
    while (!index->wants_step()) put_new(random() | 1);
  }
  void put_new(uint64_t hash) {
    if (put(hash, ~hash).change == Change::inserted) hashes.push_back(hash);
  }
  // Lines of the first segment that are MOVED.
  uint32_t moved_lines(const Bucket* lines) const {
    uint32_t moved = 0;
    for (uint64_t i = 0; i < segment_lines; ++i) {
      const uint64_t hash = i << (64 - segment_line_bits);
      moved += mark::is_moved(lines[i].slot[Bucket::last], hash);
    }
    return moved;
  }
  std::unordered_multiset<uint64_t> drain(uint32_t lines) {
    std::unordered_multiset<uint64_t> words;
    bool more = true;
    while (more) {
      uint64_t visited = 0;
      more = index->drain(lines, [&](uint64_t word) {
        words.insert(word);
        ++visited;
      });
    }
    return words;
  }
  void expect_all_drained(const std::unordered_multiset<uint64_t>& words) {
    EXPECT_EQ(words.size(), hashes.size());
    for (const uint64_t hash : hashes) ASSERT_EQ(words.count(~hash), 1u);
  }

  std::vector<uint64_t> hashes;
};

TEST_F(LineIndexGrowthTest, AStepMovesNoMoreLinesThanAsked) {
  const Bucket* first = index->view().home(0);
  fill_to_split(1);
  std::mt19937_64 random(2);
  uint32_t moved = 0;
  while (index->splits() == 0) {
    const auto most = static_cast<uint32_t>(random() % 100);
    EXPECT_TRUE(index->step(most));
    const uint32_t now = moved_lines(first);
    EXPECT_LE(now - moved, most);
    moved = now;
    for (int i = 0; i < 10; ++i) {
      const uint64_t hash = hashes[random() % hashes.size()];
      ASSERT_EQ(find(hash).word, ~hash);
    }
  }
  EXPECT_EQ(moved, segment_lines);
}

// Each line is moved once, so the number of MOVED marks set by a step is the number of lines it
// copied.
TEST_F(LineIndexGrowthTest, FromEmptyToAMillionNoStepCopiesMore) {
  constexpr uint32_t bound = 64;
  std::mt19937_64 random(3);
  const uint64_t entries = scaled(1'000'000);
  uint64_t steps_in_split = 0;
  uint64_t splits = 0;
  for (uint64_t i = 0; i < entries; ++i) {
    put_new(random() | 1);
    if (i % 128 != 0 || !index->wants_step()) continue;
    index->step(bound);
    ++steps_in_split;
    if (index->splits() != splits) {
      EXPECT_EQ(index->splits(), splits + 1);
      // A step also frees what has retired, so some move nothing.
      EXPECT_GE(steps_in_split, segment_lines / bound);
      splits = index->splits();
      steps_in_split = 0;
    }
    if (i % 1024 == 0) let_go();
  }
  grow();
  EXPECT_GT(splits, poison::sanitized ? 1u : 30u);
  EXPECT_EQ(index->count(), hashes.size());
  for (const uint64_t hash : hashes) ASSERT_EQ(find(hash).word, ~hash);
}

TEST_F(LineIndexGrowthTest, ScanShowsEveryStayingKeyWhileTheIndexGrows) {
  std::mt19937_64 random(4);
  for (uint64_t i = 0; i < scaled(100'000); ++i) put_new(random() | 1);
  const std::vector<uint64_t> staying = hashes;
  for (int round = 0; round < 5; ++round) {
    std::unordered_set<uint64_t> seen;
    uint64_t cursor = 0;
    do {
      cursor = index->scan(cursor, [&](uint64_t hash, uint64_t word) {
        ASSERT_EQ(word, ~hash);
        seen.insert(hash);
      });
      if (random() % 4 == 0) index->step(static_cast<uint32_t>(random() % 200));
      for (int i = 0; i < 2; ++i) put_new(random() | 1);
      if (random() % 8 == 0) let_go();
    } while (cursor != 0);
    for (const uint64_t hash : staying) ASSERT_EQ(seen.count(hash), 1u);
  }
  EXPECT_GE(index->splits(), 1u);
}

TEST_F(LineIndexGrowthTest, ScanOfAnIndexAtRestShowsEachKeyOnce) {
  std::mt19937_64 random(5);
  for (uint64_t i = 0; i < 50'000; ++i) put_new(random() | 1);
  grow();
  std::unordered_map<uint64_t, int> seen;
  uint64_t last = 0;
  uint64_t cursor = 0;
  do {
    const uint64_t next = index->scan(cursor, [&](uint64_t hash, uint64_t) {
      ++seen[hash];
      EXPECT_GE(hash, cursor);
      last = hash;
    });
    EXPECT_TRUE(next == 0 || next > cursor);
    EXPECT_TRUE(next == 0 || last < next);
    cursor = next;
  } while (cursor != 0);
  EXPECT_EQ(seen.size(), hashes.size());
  for (const auto& [hash, times] : seen) ASSERT_EQ(times, 1);
}

TEST_F(LineIndexGrowthTest, ScanTakesAnyCursor) {
  std::mt19937_64 random(6);
  for (uint64_t i = 0; i < 30'000; ++i) put_new(random() | 1);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t cursor = i == 0 ? ~uint64_t{0} : random();
    const uint64_t next = index->scan(cursor, [](uint64_t, uint64_t) {});
    EXPECT_TRUE(next == 0 || next > cursor);
  }
}

TEST_F(LineIndexGrowthTest, DrainShowsEveryEntryOnce) {
  std::mt19937_64 random(7);
  for (uint64_t i = 0; i < scaled(200'000); ++i) put_new(random() | 1);
  grow();
  expect_all_drained(drain(100));
}

TEST_F(LineIndexGrowthTest, DrainInTheMiddleOfASplitShowsEveryEntryOnce) {
  std::mt19937_64 random(8);
  fill_to_split(9);
  index->step(segment_lines / 3);
  for (int i = 0; i < 2000; ++i) put_new(random() | 1);
  expect_all_drained(drain(1000));
}

TEST_F(LineIndexGrowthTest, WhatRetiredWaitsForReaders) {
  fill_to_split(10);
  const Bucket* first = index->view().home(0);
  grow();
  ASSERT_EQ(index->splits(), 1u);
  const int64_t held = budget.index.load();
  EXPECT_EQ(moved_lines(first), segment_lines);  // still there
  let_go();
  grow();
  EXPECT_EQ(budget.index.load(), held - static_cast<int64_t>(segment_bytes + sizeof(Segment)));
}

TEST_F(LineIndexGrowthTest, ErasedEntriesLeaveNoTraceInTheCount) {
  fill_to_split(11);
  for (const uint64_t hash : hashes) ASSERT_EQ(erase(hash).change, Change::erased);
  grow();
  EXPECT_EQ(index->count(), 0u);
  for (const uint64_t hash : hashes) ASSERT_FALSE(find(hash).found);
}

// Bytes of lines per entry stay in a narrow range at any number of entries.
TEST_F(LineIndexGrowthTest, MemoryPerEntryIsEven) {
  if (poison::sanitized) GTEST_SKIP() << "too slow here, and about numbers only";
  std::mt19937_64 random(12);
  double least = 1e9;
  double most = 0;
  for (uint64_t i = 1; i <= 4'000'000; ++i) {
    put(random() | 1, i);
    if (i % 64 == 0) index->step(64);
    if (i % 1024 == 0) let_go();
    if (i >= 2'000'000 && i % 100'000 == 0) {
      const double bytes = static_cast<double>(budget.index.load()) / static_cast<double>(i);
      least = std::min(least, bytes);
      most = std::max(most, bytes);
    }
  }
  EXPECT_GT(least, 16);
  EXPECT_LT(most, 32);
  EXPECT_LT(most / least, 1.25);
}

}  // namespace
}  // namespace isotherm::line_index_growth_test
