// A LineIndex that shrinks: siblings are joined in bounded steps, memory comes back, and nothing is
// lost or shown wrong in the middle of it.
#include <algorithm>
#include <random>
#include <unordered_map>
#include <unordered_set>

#include "index/line_index_fixture.h"

namespace isotherm::line_index_shrink_test {
namespace {

class LineIndexShrinkTest : public LineIndexFixture {
 protected:
  explicit LineIndexShrinkTest(uint64_t reserve_bytes = 0) : LineIndexFixture(reserve_bytes) {}

  void put_new(uint64_t hash) {
    if (put(hash, ~hash).change == Change::inserted) hashes.push_back(hash);
  }
  // Entries of random hashes, with all growth they ask for.
  void fill(uint64_t entries, uint64_t seed) {
    std::mt19937_64 random(seed);
    for (uint64_t i = 0; i < entries; ++i) {
      put_new(random() | 1);
      if (i % 64 == 0) index->step(64);
      if (i % 1024 == 0) let_go();
    }
    settle();
  }
  // Until there is one split, which is done; then there are two segments.
  void fill_two_segments(uint64_t seed) {
    std::mt19937_64 random(seed);
    while (!index->wants_step()) put_new(random() | 1);
    settle();
    ASSERT_EQ(index->splits(), 1u);
  }
  // Everything that wants to grow, shrink or be freed.
  void settle() {
    do {
      let_go();
      grow();
    } while (index->wants_step());
  }
  void erase_last() {
    ASSERT_EQ(erase(hashes.back()).change, Change::erased);
    hashes.pop_back();
  }
  void erase_to(size_t left) {
    while (hashes.size() > left) erase_last();
  }
  // Erases until a join has begun, and its first line is moved.
  void erase_to_join() {
    const uint64_t moved = index->lines_moved();
    while (index->lines_moved() == moved) {
      erase_last();
      index->step(1);
    }
  }
  void expect_all() {
    ASSERT_EQ(index->count(), hashes.size());
    for (const uint64_t hash : hashes) {
      const Found found = find(hash);
      ASSERT_TRUE(found.found && found.word == ~hash);
    }
  }

  std::vector<uint64_t> hashes;
};

TEST_F(LineIndexShrinkTest, MemoryReturnsNearItsStart) {
  const int64_t start = budget.index.load();
  fill(scaled(1'000'000), 1);
  const uint64_t splits = index->splits();
  ASSERT_GT(splits, poison::sanitized ? 1u : 30u);
  const int64_t full = budget.index.load();
  uint64_t erased = 0;
  while (hashes.size() > 1000) {
    erase_last();
    if (++erased % 64 == 0) index->step(64);
    if (erased % 1024 == 0) let_go();
  }
  settle();
  EXPECT_EQ(index->joins(), splits);  // one segment again
  expect_all();
  EXPECT_LE(budget.index.load(), start + int64_t{2 * LinePool::span_bytes});
  EXPECT_LE(pages.pages_taken(), 3u);
  EXPECT_GT(full, 3 * start);
  // And grows again.
  fill(scaled(400'000), 2);
  EXPECT_GT(index->splits(), splits);
  expect_all();
}

TEST_F(LineIndexShrinkTest, AStepMovesNoMoreLinesThanAsked) {
  fill_two_segments(3);
  erase_to_join();
  std::mt19937_64 random(4);
  uint64_t before = index->lines_moved();
  while (index->joins() == 0) {
    const auto most = static_cast<uint32_t>(random() % 100);
    EXPECT_TRUE(index->step(most));
    EXPECT_LE(index->lines_moved() - before, most);
    before = index->lines_moved();
    for (int i = 0; i < 10; ++i) {
      const uint64_t hash = hashes[random() % hashes.size()];
      ASSERT_EQ(find(hash).word, ~hash);
    }
    put_new(random() | 1);
    erase_last();
  }
  EXPECT_EQ(before, 2 * segment_lines);
  expect_all();
}

TEST_F(LineIndexShrinkTest, LinesOfBothChildrenLeadToTheParent) {
  fill_two_segments(5);
  const Bucket* low = index->view().home(0);
  const Bucket* high = index->view().home(~uint64_t{0}) - (segment_lines - 1);
  erase_to_join();
  grow();
  ASSERT_EQ(index->joins(), 1u);
  for (uint64_t i = 0; i < segment_lines; ++i) {
    const uint64_t below = i << (63 - segment_line_bits);
    for (const uint64_t hash : {below, below | mark::top_bit}) {
      const Slot last = (hash == below ? low : high)[i].slot[Bucket::last];
      ASSERT_TRUE(mark::is_moved(last, hash) && mark::is_joined(last));
      ASSERT_EQ(mark::moved_target(last, hash), index->view().home(hash));
    }
  }
}

// Half of what was there just after a split may come and go, and no line moves.
TEST_F(LineIndexShrinkTest, SplitsAndJoinsDoNotFlap) {
  fill_two_segments(6);
  std::mt19937_64 random(7);
  const size_t full = hashes.size();
  const uint64_t moved = index->lines_moved();
  for (int round = 0; round < 5; ++round) {
    erase_to(full / 2);
    settle();
    while (hashes.size() < full) put_new(random() | 1);
    settle();
  }
  EXPECT_EQ(index->lines_moved(), moved);
  EXPECT_EQ(index->joins(), 0u);
}

TEST_F(LineIndexShrinkTest, TheSiblingThatEmptiesLastAsks) {
  for (const bool high_first : {false, true}) {
    hashes.clear();
    std::mt19937_64 random(8);
    while (!index->wants_step()) put_new(random() | 1);
    settle();
    const uint64_t joins = index->joins();
    std::sort(hashes.begin(), hashes.end());
    if (high_first) std::reverse(hashes.begin(), hashes.end());
    const size_t half = hashes.size() / 2;
    for (size_t i = 0; i < half - half / 50; ++i) erase(hashes[i]);
    settle();
    EXPECT_EQ(index->joins(), joins);  // the other half is too much for one segment to take
    for (size_t i = half + half / 50; i < hashes.size(); ++i) erase(hashes[i]);
    settle();
    EXPECT_EQ(index->joins(), joins + 1);
    for (const uint64_t hash : hashes) erase(hash);
    EXPECT_EQ(index->count(), 0u);
  }
}

TEST_F(LineIndexShrinkTest, ScanShowsEveryStayingKeyWhileTheIndexShrinks) {
  fill(scaled(300'000), 9);
  std::mt19937_64 random(10);
  const std::vector<uint64_t> staying(hashes.begin(), hashes.begin() + 3000);
  const uint64_t splits = index->splits();
  while (index->joins() < splits) {
    std::unordered_set<uint64_t> seen;
    uint64_t cursor = 0;
    do {
      cursor = index->scan(cursor, [&](uint64_t hash, uint64_t word) {
        ASSERT_EQ(word, ~hash);
        seen.insert(hash);
      });
      if (random() % 4 == 0) index->step(static_cast<uint32_t>(random() % 200));
      for (int i = 0; i < 4 && hashes.size() > staying.size(); ++i) erase_last();
      if (random() % 8 == 0) let_go();
    } while (cursor != 0);
    for (const uint64_t hash : staying) ASSERT_EQ(seen.count(hash), 1u);
  }
}

TEST_F(LineIndexShrinkTest, DrainInTheMiddleOfAJoinShowsEveryEntryOnce) {
  fill_two_segments(11);
  erase_to_join();
  index->step(segment_lines / 3);
  std::mt19937_64 random(12);
  for (int i = 0; i < 2000; ++i) put_new(random() | 1);
  EXPECT_EQ(index->count(), hashes.size());
  std::unordered_multiset<uint64_t> words;
  while (index->drain(100, [&](uint64_t word) { words.insert(word); })) {
  }
  EXPECT_EQ(words.size(), hashes.size());
  for (const uint64_t hash : hashes) ASSERT_EQ(words.count(~hash), 1u);
}

TEST_F(LineIndexShrinkTest, VersionsOfAKeyGrowOverJoins) {
  std::unordered_map<uint64_t, uint64_t> versions;
  std::mt19937_64 random(13);
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < scaled(400'000); ++i) keys.push_back(random() | 1);
  const auto write = [&](uint64_t hash, Action action) {
    uint64_t version = 0;
    index->update<TilePlain>(hash, [&](bool, uint64_t, Segment& segment) {
      version = segment.next_version();
      return Decision{action, 1};
    });
    ASSERT_GT(version, versions[hash]);
    versions[hash] = version;
  };
  for (int round = 0; round < 3; ++round) {
    for (const Action action : {Action::store, Action::erase}) {
      for (size_t i = 0; i < keys.size(); ++i) {
        write(keys[i], action);
        if (HasFatalFailure()) return;
        if (i % 32 == 0) index->step(32);
        if (i % 1024 == 0) let_go();
      }
    }
  }
  EXPECT_GE(index->joins(), 3u);  // one a round at least
  uint64_t last = 0;
  for (const auto& [hash, version] : versions) last = std::max(last, version);
  EXPECT_GE(index->last_version(), last);
}

// Phases in which most writes insert, and phases in which most erase.
TEST_F(LineIndexShrinkTest, RandomOperationsEqualAMapThroughSplitsAndJoins) {
  constexpr uint64_t part = poison::sanitized ? 1 : 2;  // of as many as scaled leaves
  std::mt19937_64 random(14);
  std::unordered_map<uint64_t, uint64_t> model;
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < scaled(400'000) / part; ++i) keys.push_back(random() | 1);
  for (uint64_t i = 0; i < scaled(4'000'000) / part; ++i) {
    const uint64_t hash = keys[random() % keys.size()];
    const bool growing = i / (scaled(1'000'000) / part) % 2 == 0;
    const Found found = find(hash);
    const auto at = model.find(hash);
    ASSERT_EQ(found.found, at != model.end());
    if (found.found) {
      ASSERT_EQ(found.word, at->second);
    }
    if (random() % 16 < (growing ? 15 : 1)) {
      put(hash, i);
      model[hash] = i;
    } else {
      ASSERT_EQ(erase(hash).change == Change::erased, model.erase(hash) == 1);
    }
    if (random() % 16 == 0) index->step(static_cast<uint32_t>(random() % 16));
    if (i % 1024 == 0) let_go();
    if (i % 65'536 == 0) {
      ASSERT_EQ(index->count(), model.size());
    }
  }
  EXPECT_EQ(index->count(), model.size());
  EXPECT_GT(index->joins(), 0u);
}

class LineIndexShrinkMemoryTest : public LineIndexShrinkTest {
 protected:
  LineIndexShrinkMemoryTest() : LineIndexShrinkTest(2 * Pages::page_bytes) {}
  ~LineIndexShrinkMemoryTest() override { give_all(); }

  void take_all() {
    for (uint64_t at; (at = pages.take_span(LinePool::span_bytes)) != Pages::npos;) {
      taken.push_back(at);
    }
  }
  void give_all() {
    for (const uint64_t at : taken) pages.give_span(at, LinePool::span_bytes);
    taken.clear();
  }

  std::vector<uint64_t> taken;
};

TEST_F(LineIndexShrinkMemoryTest, AJoinBeginsWhenThereIsMemoryForIt) {
  fill_two_segments(15);
  take_all();
  erase_to(100);
  EXPECT_TRUE(index->wants_step());
  while (index->step(segment_lines)) let_go();
  EXPECT_EQ(index->joins(), 0u);
  expect_all();
  give_all();
  settle();
  EXPECT_EQ(index->joins(), 1u);
  expect_all();
}

TEST_F(LineIndexShrinkMemoryTest, AJoinThatFindsNoOverflowLineGoesOnLater) {
  fill_two_segments(16);
  erase_to_join();
  // A chain behind a line that has not moved, until memory ends.
  take_all();
  const uint64_t line = mark::top_bit | uint64_t{99} << (63 - segment_line_bits);
  for (uint64_t i = 1;; ++i) {
    const Updated updated = put(line | i, ~(line | i));
    if (updated.change == Change::no_line) break;
    hashes.push_back(line | i);
  }
  while (index->step(segment_lines)) let_go();
  EXPECT_EQ(index->joins(), 0u);
  EXPECT_GT(index->lines_moved(), segment_lines);
  EXPECT_LT(index->lines_moved(), 2 * segment_lines);
  expect_all();
  // What lies on either side of the stop can be written.
  const std::vector<uint64_t> all = hashes;
  for (const uint64_t hash : all) ASSERT_EQ(put(hash, ~hash).change, Change::replaced);
  give_all();
  settle();
  EXPECT_GE(index->joins(), 1u);
  expect_all();
}

TEST_F(LineIndexShrinkTest, AnIndexMadeForManyEntriesFillsWithoutSplitsAndShrinks) {
  constexpr uint64_t entries = 200'000;
  index = std::make_unique<LineIndex>(pages, budget, epochs, 0, false, entries);
  std::mt19937_64 random(31);
  for (uint64_t i = 0; i < entries; ++i) put_new(random() | 1);
  index->check_loads();
  settle();
  // Only segments that got more than their share by chance.
  EXPECT_LE(index->splits(), 3u);
  EXPECT_EQ(index->joins(), 0u);
  expect_all();
  const int64_t full = budget.index.load();
  erase_to(entries / 20);
  settle();
  EXPECT_GT(index->joins(), 0u);
  EXPECT_LT(budget.index.load(), full / 3);
  expect_all();
}

}  // namespace
}  // namespace isotherm::line_index_shrink_test
