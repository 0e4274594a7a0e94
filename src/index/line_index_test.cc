// LineIndex against std::unordered_map, while segments split under it.
#include <random>
#include <unordered_map>
#include <unordered_set>

#include "index/line_index_fixture.h"

namespace isotherm::line_index_test {
namespace {

using Model = std::unordered_map<uint64_t, uint64_t>;

class LineIndexTest : public LineIndexFixture {
 protected:
  void expect_equal(const Model& model) {
    for (const auto& [hash, word] : model) {
      const Found found = find(hash);
      ASSERT_TRUE(found.found) << std::hex << hash;
      ASSERT_EQ(found.word, word) << std::hex << hash;
    }
    EXPECT_EQ(index->count(), model.size());
  }

  // One random operation on `hash` in index and model.
  void step(std::mt19937_64& random, Model& model, uint64_t hash, uint64_t word) {
    const auto at = model.find(hash);
    const Found before = at != model.end() ? Found{true, at->second} : Found{};
    Updated updated;
    switch (random() % 10) {
      case 0:
      case 1:
      case 2: {
        const Found found = find(hash);
        ASSERT_EQ(found.found, before.found);
        ASSERT_EQ(found.word, before.word);
        return;
      }
      case 3:
      case 4:
        updated = erase(hash);
        ASSERT_EQ(updated.change, before.found ? Change::erased : Change::none);
        model.erase(hash);
        break;
      case 5: {
        const uint64_t expected = random() % 2 == 0 ? before.word : before.word + 1;
        updated = compare_and_swap(hash, expected, word);
        const bool swaps = before.found && expected == before.word;
        ASSERT_EQ(updated.change, swaps ? Change::replaced : Change::none);
        if (swaps) at->second = word;
        break;
      }
      default:
        updated = put(hash, word);
        ASSERT_EQ(updated.change, before.found ? Change::replaced : Change::inserted);
        model[hash] = word;
    }
    ASSERT_EQ(updated.previous.found, before.found);
    ASSERT_EQ(updated.previous.word, before.word);
  }
};

// Hashes and words that look like something else: marks, empty slots, addresses.
constexpr uint64_t top = uint64_t{1} << 63;
const uint64_t odd_hashes[] = {1,
                               2,
                               3,
                               127,
                               128,
                               top,
                               top | 1,
                               top | 2,
                               top | 3,
                               top - 1,
                               ~uint64_t{0},
                               ~uint64_t{0} - 1,
                               top | (top >> 1),
                               top >> 1,
                               uint64_t{1} << 51,
                               top | uint64_t{1} << 51};
const uint64_t odd_words[] = {
    0, 1, 2, top | 1, top | 2, ~uint64_t{0}, 0x00007f0000000080, 0xDDDDDDDDDDDDDDDD};

TEST_F(LineIndexTest, RandomOperationsEqualAMapThroughManySplits) {
  std::mt19937_64 random(1);
  Model model;
  std::vector<uint64_t> hashes(odd_hashes, std::end(odd_hashes));
  for (uint64_t i = 0; i < scaled(400'000); ++i) hashes.push_back(random() | 1);
  for (uint64_t i = 0; i < scaled(2'000'000); ++i) {
    const uint64_t hash = hashes[random() % hashes.size()];
    const uint64_t word = random() % 4 == 0   ? odd_words[random() % std::size(odd_words)]
                          : random() % 4 == 0 ? hash
                                              : random();
    step(random, model, hash, word);
    if (HasFatalFailure()) return;
    if (random() % 64 == 0) index->step(static_cast<uint32_t>(random() % 64));
    if (random() % 4096 == 0) let_go();
  }
  expect_equal(model);
  grow();
  expect_equal(model);
  EXPECT_GE(index->splits(), poison::sanitized ? 1u : 8u);
}

TEST_F(LineIndexTest, EveryHashAndWordMayMeet) {
  Model model;
  for (const uint64_t hash : odd_hashes) {
    for (const uint64_t word : odd_words) {
      const bool present = model.count(hash) != 0;
      ASSERT_EQ(put(hash, word).change, present ? Change::replaced : Change::inserted);
      model[hash] = word;
      ASSERT_EQ(find(hash).word, word);
    }
  }
  expect_equal(model);
  for (const uint64_t hash : odd_hashes) EXPECT_EQ(erase(hash).change, Change::erased);
  EXPECT_EQ(index->count(), 0u);
}

// In both halves of the hash space the last slot holds, in turn, an entry with each of the patterns
// of marks.
TEST_F(LineIndexTest, AnEntryInTheLastSlotIsNoMark) {
  for (const uint64_t half : {uint64_t{0}, top}) {
    for (const uint64_t pattern : {mark::link, mark::moved}) {
      index = std::make_unique<LineIndex>(pages, budget, epochs);
      std::vector<uint64_t> hashes;
      for (uint64_t i = 0; i < Bucket::last; ++i) hashes.push_back(half | (i + 10));
      hashes.push_back(half | pattern);
      for (const uint64_t hash : hashes) EXPECT_FALSE(put(hash, ~hash).extended);
      const Bucket* home = index->view().home(half | pattern);
      EXPECT_EQ(home->slot[Bucket::last].first, half | pattern);
      for (const uint64_t hash : hashes) EXPECT_EQ(find(hash).word, ~hash);
      EXPECT_FALSE(find(half | 99).found);
      // One more turns the slot into a link, and the entry lives on behind it.
      EXPECT_TRUE(put(half | 99, 5).extended);
      for (const uint64_t hash : hashes) EXPECT_EQ(find(hash).word, ~hash);
      EXPECT_EQ(find(half | 99).word, 5u);
    }
  }
}

TEST_F(LineIndexTest, LongChainsInOneLine) {
  Model model;
  std::mt19937_64 random(2);
  // The top bits are equal, so all of them belong to one line of a young index.
  const uint64_t prefix = uint64_t{0xABC} << 52;
  for (uint64_t i = 0; i < 20'000; ++i) {
    const uint64_t hash = prefix | (random() % 1000 + 1);
    step(random, model, hash, random());
    if (HasFatalFailure()) return;
  }
  expect_equal(model);
  // Free slots in the chain are used again before it grows.
  for (const auto& [hash, word] : Model(model)) erase(hash);
  const int64_t before = budget.index.load();
  for (uint64_t i = 1; i <= model.size(); ++i) EXPECT_FALSE(put(prefix | i, i).extended);
  EXPECT_EQ(budget.index.load(), before);
}

// All entries go one way at every split, so the chain moves from child to child.
TEST_F(LineIndexTest, ChainsSurviveSplits) {
  Model model;
  std::mt19937_64 random(3);
  const uint64_t prefix = uint64_t{0xABC} << 52;
  for (uint64_t i = 1; i <= 300; ++i) model[prefix | i] = i;
  for (const auto& [hash, word] : model) put(hash, word);
  while (index->splits() < 3) {
    for (int i = 0; i < 1000; ++i) {
      const uint64_t hash =
          random() >> 2 | (uint64_t{2} << 62);  // the segments that the chain is in
      model[hash] = hash;
      put(hash, hash);
    }
    index->step(100);
  }
  expect_equal(model);
}

TEST_F(LineIndexTest, CountIsRightDuringAndAfterGrowth) {
  std::mt19937_64 random(4);
  std::unordered_set<uint64_t> present;
  while (index->splits() < 6) {
    const uint64_t hash = random() | 1;
    put(hash, hash);
    present.insert(hash);
    if (random() % 3 == 0 && !present.empty()) {
      const uint64_t victim = *present.begin();
      EXPECT_EQ(erase(victim).change, Change::erased);
      present.erase(victim);
    }
    if (random() % 16 == 0) index->step(static_cast<uint32_t>(random() % 8));
    if (random() % 4096 == 0) {
      ASSERT_EQ(index->count(), present.size());
    }
  }
  EXPECT_EQ(index->count(), present.size());
}

TEST_F(LineIndexTest, VersionsOfAKeyGrowOverSplitsAndErasure) {
  std::mt19937_64 random(5);
  std::unordered_map<uint64_t, uint64_t> versions;
  std::vector<uint64_t> hashes;
  for (uint64_t i = 0; i < scaled(120'000); ++i) hashes.push_back(random() | 1);
  for (uint64_t i = 0; i < scaled(1'000'000); ++i) {
    const uint64_t hash = hashes[random() % hashes.size()];
    const bool keeps = random() % 4 != 0;
    uint64_t version = 0;
    index->update<TilePlain>(hash, [&](bool, uint64_t, Segment& segment) {
      version = segment.next_version();
      return Decision{keeps ? Action::store : Action::erase, i};
    });
    ASSERT_GT(version, versions[hash]);
    versions[hash] = version;
    if (i % 32 == 0) index->step(16);
  }
  uint64_t last = 0;
  for (const auto& [hash, version] : versions) last = std::max(last, version);
  EXPECT_GE(index->last_version(), last);
}

TEST_F(LineIndexTest, DeepSplitsAndJoinsOfANarrowRange) {
  // Entries come in ever narrower ranges, so segments split far down one branch; when all are
  // gone, the branch is joined up to its root.
  const uint64_t wanted = poison::sanitized ? 3 : 9;
  uint64_t seed = 6;
  std::vector<uint64_t> hashes;
  for (uint64_t depth = 0; depth < wanted; ++depth) {
    std::mt19937_64 random(seed++);
    const uint64_t splits = index->splits();
    while (index->splits() == splits) {
      const uint64_t hash =
          (random() >> depth | (depth == 0 ? 0 : ~uint64_t{0} << (64 - depth))) | 1;
      ASSERT_NE(put(hash, ~hash).change, Change::no_line);
      hashes.push_back(hash);
      if (hashes.size() % 8 == 0) index->step(4);
    }
    for (const uint64_t hash : hashes) ASSERT_EQ(find(hash).word, ~hash);
  }
  EXPECT_EQ(index->splits(), wanted);
  for (const uint64_t hash : hashes) erase(hash);
  grow();
  EXPECT_EQ(index->count(), 0u);
  EXPECT_EQ(index->joins(), wanted);
}

}  // namespace
}  // namespace isotherm::line_index_test
