// HotTable: the fast part and the indexes together, while bins and the part change.
#include "hot/hot_table.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "index/line_index_fixture.h"

namespace isotherm::hot_table_test {
namespace {

constexpr uint32_t bins = 7;  // not a power of two

class HotTableTest : public LineIndexFixture {
 protected:
  HotTableTest() { epochs.leave(*slot); }
  void TearDown() override {
    table.reset();
    EXPECT_EQ(budget.hot.load(), 0);
    other.reset();
  }

  static constexpr uint64_t usual_bytes = 256 << 10;  // 8,192 entries
  static constexpr uint64_t few_places = 8 * FastPart::place_bytes;

  void make(uint64_t most_bytes = 64 << 20, uint64_t least_bytes = usual_bytes) {
    other = std::make_unique<LineIndex>(pages, budget, epochs);
    HotTable::Options options;
    options.least_bytes = least_bytes;
    options.most_bytes = most_bytes;
    options.largest = HugeBlock::Pages::transparent;
    options.seed = 0x5851f42d4c957f2d;
    table = std::make_unique<HotTable>(
        3, [this](uint32_t database) { return index_of(database); }, states, epochs, budget,
        options);
  }
  LineIndex* index_of(uint32_t database) {
    return database == 0 ? index.get() : database == 2 ? other.get() : nullptr;
  }
  // All states that a bin goes through, one at a time.
  void wait_for_others() {
    Grace grace;
    grace.begin(epochs);
    while (!grace.is_over(epochs)) std::this_thread::yield();
  }
  void warm(uint32_t bin) {
    states.set(bin, BinState::warming);
    wait_for_others();
    while (!table->warm(bin)) {
    }
    states.set(bin, BinState::hot);
  }
  void cool(uint32_t bin) {
    states.set(bin, BinState::cooling);
    wait_for_others();
    while (!table->cool(bin)) {
    }
    states.set(bin, BinState::cold);
  }
  void warm_all() {
    for (uint32_t bin = 0; bin < bins; ++bin) warm(bin);
  }

  Updated write(uint64_t hash, Decision decision, uint32_t database = 0) {
    const EpochGuard guard(epochs, *slot);
    return table->update<TilePlain>(*index_of(database), hash,
                                    [&](bool, uint64_t, Segment&) { return decision; });
  }
  void put_hot(uint64_t hash, uint64_t word, uint32_t database = 0) {
    write(hash, {Action::store, word}, database);
  }
  // The word that all see, 0 for none.
  uint64_t look(uint64_t hash, uint32_t database = 0) {
    const EpochGuard guard(epochs, *slot);
    return table->find<TilePlain>(*index_of(database), hash, use).word;
  }
  uint64_t in_part(uint64_t hash, uint32_t database = 0) {
    return table->part().find(hash, index_of(database)->number());
  }
  std::vector<uint64_t> fill(uint64_t count, uint64_t from_seed = 1) {
    std::mt19937_64 random(from_seed);
    std::vector<uint64_t> hashes(count);
    for (uint64_t& hash : hashes) {
      hash = random() | 1;
      put_hot(hash, ~hash);
    }
    const EpochGuard guard(epochs, *slot);
    grow();
    return hashes;
  }

  BinStates states{bins};
  std::unique_ptr<LineIndex> other;
  std::unique_ptr<HotTable> table;
  FastUse use;
};

TEST_F(HotTableTest, BinsCoverAllHashes) {
  for (uint32_t bin = 0; bin < bins; ++bin) {
    EXPECT_EQ(states.bin_of(states.first_hash(bin)), bin);
    EXPECT_EQ(states.bin_of(states.first_hash(bin) - 1), (bin + bins - 1) % bins);
  }
  EXPECT_EQ(states.bin_of(~uint64_t{0}), bins - 1);
  EXPECT_EQ(states.in_state(BinState::cold), bins);
}

TEST_F(HotTableTest, OnlyKeysOfHotBinsAreInTheFastPart) {
  make();
  const std::vector<uint64_t> hashes = fill(10'000);
  warm(3);
  uint64_t fast = 0;
  for (const uint64_t hash : hashes) {
    ASSERT_EQ(look(hash), ~hash);
    const bool is_fast = in_part(hash) != 0;
    ASSERT_TRUE(!is_fast || states.bin_of(hash) == 3);
    fast += is_fast;
  }
  EXPECT_GT(fast, hashes.size() / bins * 9 / 10);
  EXPECT_EQ(states.in_state(BinState::hot), 1u);
  cool(3);
  for (const uint64_t hash : hashes) ASSERT_EQ(in_part(hash), 0u);
}

TEST_F(HotTableTest, WritesAndErasesOfHotKeysAreSeenInBoth) {
  make();
  const std::vector<uint64_t> hashes = fill(1000);
  warm_all();
  for (const uint64_t hash : hashes) {
    put_hot(hash, 5);
    ASSERT_EQ(in_part(hash), 5u);
    ASSERT_EQ(find(hash).word, 5u);
    EXPECT_EQ(write(hash, {Action::keep, 0}).change, Change::none);
    ASSERT_EQ(in_part(hash), 5u);
    EXPECT_EQ(write(hash, {Action::erase, 0}).change, Change::erased);
    ASSERT_EQ(in_part(hash), 0u);
    ASSERT_EQ(look(hash), 0u);
  }
}

TEST_F(HotTableTest, WhatIsWrittenWhileABinWarmsOrCoolsIsNeverStale) {
  make();
  const uint64_t hash = states.first_hash(2) + 1;
  put_hot(hash, 1);
  states.set(2, BinState::warming);
  put_hot(hash, 2);
  while (!table->warm(2)) {
  }
  put_hot(hash, 3);
  states.set(2, BinState::hot);
  EXPECT_EQ(look(hash), 3u);
  put_hot(hash, 4);
  EXPECT_EQ(in_part(hash), 4u);
  states.set(2, BinState::cooling);
  put_hot(hash, 5);
  EXPECT_EQ(in_part(hash), 0u);
  EXPECT_EQ(look(hash), 5u);
  cool(2);
  warm(2);
  EXPECT_EQ(look(hash), 5u);
}

TEST_F(HotTableTest, DatabasesShareTheFastPart) {
  make();
  warm_all();
  for (const uint32_t database : {0u, 2u}) put_hot(99, 100 + database, database);
  for (const uint32_t database : {0u, 2u}) {
    EXPECT_EQ(in_part(99, database), 100 + database);
    EXPECT_EQ(look(99, database), 100 + database);
  }
}

TEST_F(HotTableTest, KeysOfAnIndexThatWasTakenAwayAreNotFoundAndGiveTheirRoomBack) {
  make();
  warm_all();
  put_hot(99, 1);
  put_hot(99, 2, 2);
  ASSERT_FALSE(table->step());  // sees the indexes
  const uint64_t gone = other->number();
  other = std::make_unique<LineIndex>(pages, budget, epochs);
  EXPECT_EQ(look(99, 2), 0u);
  put_hot(98, 3, 2);
  EXPECT_EQ(table->part().find(99, gone), 2u);
  while (table->step()) {
  }
  EXPECT_EQ(table->part().find(99, gone), 0u);
  EXPECT_EQ(in_part(99), 1u);
  EXPECT_EQ(in_part(98, 2), 3u);
  other.reset();
  while (table->step()) {
  }
  EXPECT_EQ(
      table->part().load(table->part().entries()) * static_cast<double>(table->part().entries()),
      1);
  other = std::make_unique<LineIndex>(pages, budget, epochs);
  EXPECT_EQ(look(98, 2), 0u);
}

TEST_F(HotTableTest, AReaderThatRacesAMoveFindsTheKey) {
  make(few_places, few_places);
  warm_all();
  std::mt19937_64 random(8);
  const auto draw = [&](uint64_t first, uint64_t second) {
    for (;;) {
      const uint64_t hash = random() | 1;
      const FastPart::Places its = table->part().places_of(hash);
      if (its.first == first && its.second == second) return hash;
    }
  };
  const uint64_t key = draw(3, 5);
  const uint64_t blockers[] = {draw(3, 3), draw(3, 3)};
  const uint64_t pushers[] = {draw(5, 5), draw(5, 5)};
  for (const uint64_t blocker : blockers) put_hot(blocker, 1);
  put_hot(key, 2);  // its first place is full
  for (const uint64_t blocker : blockers) write(blocker, {Action::erase, 0});
  put_hot(pushers[0], 3);
  const EpochGuard guard(epochs, *slot);
  bool moved = false;
  const Found found = table->find<TilePlain>(*index, key, use, [&] {
    table->update<TilePlain>(*index, pushers[1], [](bool, uint64_t, Segment&) {
      return Decision{Action::store, 3};
    });
    moved = true;
  });
  EXPECT_TRUE(moved);
  EXPECT_EQ(table->part().moved(), 1u);
  EXPECT_EQ(in_part(key), 2u);  // in its first place by now
  EXPECT_EQ(found.word, 2u);
}

TEST_F(HotTableTest, KeysMadeToCollideAreFoundInTheIndex) {
  make(few_places, few_places);
  warm_all();
  std::mt19937_64 random(9);
  std::vector<uint64_t> hashes;
  while (hashes.size() < 100) {
    const uint64_t hash = random() | 1;
    const FastPart::Places places = table->part().places_of(hash);
    if (places.first == 1 && places.second == 2) hashes.push_back(hash);
  }
  for (const uint64_t hash : hashes) put_hot(hash, ~hash);
  uint64_t fast = 0;
  for (const uint64_t hash : hashes) {
    ASSERT_EQ(look(hash), ~hash);
    fast += in_part(hash) != 0;
  }
  EXPECT_EQ(fast, 4u);
}

TEST_F(HotTableTest, MissesThatDominateAreSkippedUntilTheyNoLongerDo) {
  make();
  const std::vector<uint64_t> hashes = fill(5000);
  warm_all();
  for (uint32_t i = 0; i < FastUse::window; ++i) look(2 * i + 2);
  EXPECT_TRUE(use.skips());
  for (uint32_t i = 0; i < 100; ++i) ASSERT_EQ(look(hashes[i]), ~hashes[i]);
  EXPECT_TRUE(use.skips());
  for (uint32_t i = 0; use.skips(); ++i) {
    ASSERT_LT(i, FastUse::window * FastUse::one_of * 2);
    look(hashes[i % hashes.size()]);
  }
  EXPECT_GT(use.all_skipped(), 0u);
  EXPECT_LT(use.all_hits(), use.all_looks());
}

TEST_F(HotTableTest, GrowsWithItsKeysAndShrinksWhenTheyAreGone) {
  make();
  warm_all();
  const uint64_t small = table->bytes();
  const std::vector<uint64_t> hashes = fill(7'500);
  EXPECT_TRUE(table->step());
  while (table->growths() == 0) {
    table->step();
    const uint64_t hash = hashes[table->growths() + 5];
    put_hot(hash, ~hash);
    ASSERT_EQ(look(hash), ~hash);
  }
  EXPECT_EQ(table->bytes(), small * 2);
  EXPECT_EQ(budget.hot.load(), static_cast<int64_t>(table->part().memory()));
  uint64_t fast = 0;
  for (const uint64_t hash : hashes) {
    ASSERT_EQ(look(hash), ~hash);
    fast += in_part(hash) == ~hash;
  }
  EXPECT_GT(fast * 100, hashes.size() * 99);
  for (uint32_t bin = 0; bin < bins; ++bin) cool(bin);
  while (table->growths() == 1) ASSERT_TRUE(table->step());
  EXPECT_EQ(table->bytes(), small);
}

// Else nothing would be left for items, however many are evicted.
TEST_F(HotTableTest, ShrinksWhereTheCapIsLowered) {
  make();
  warm_all();
  const std::vector<uint64_t> hashes = fill(20'000);
  while (table->growths() < 2) table->step();
  ASSERT_EQ(table->bytes(), usual_bytes * 4);
  budget.set_limit(usual_bytes * 2);
  ASSERT_FALSE(budget.fits(0));
  while (table->growths() == 2) ASSERT_TRUE(table->step());
  EXPECT_EQ(table->bytes(), usual_bytes);
  EXPECT_EQ(budget.hot.load(), static_cast<int64_t>(table->part().memory()));
  EXPECT_FALSE(table->step());
  for (const uint64_t hash : hashes) ASSERT_EQ(look(hash), ~hash);
  budget.set_limit(0);
  while (table->growths() < 4) ASSERT_TRUE(table->step());
}

// Requests that began before a part was replaced hold places of the old part when they lock those
// of the new one; who cools a bin must not hold places of the new one when it waits for the old
// one.
TEST_F(HotTableTest, ABinCoolsBesideAChangeThatBeganBeforeThePartWasReplaced) {
  make();
  warm_all();
  fill(7'500);
  constexpr uint32_t bin = 2;
  // So that the bin has this key alone.
  std::vector<uint64_t> beside;
  for (uint64_t bound = 0;;) {
    const EpochGuard guard(epochs, *slot);
    bound = index->scan(bound, [&](uint64_t hash, uint64_t) {
      if (states.bin_of(hash) == bin) beside.push_back(hash);
    });
    if (bound == 0) break;
  }
  const uint64_t hash = states.first_hash(bin) + 1;
  const FastPart* const before = &table->part();
  while (&table->part() == before) ASSERT_TRUE(table->step());
  ASSERT_TRUE(table->waits());
  for (const uint64_t one : beside) write(one, {Action::erase, 0});
  put_hot(hash, 5);
  ASSERT_EQ(in_part(hash), 5u);
  states.set(bin, BinState::cooling);
  const uint64_t number = index->number();
  std::thread cooler;
  {
    const FastPart::Change of_old(const_cast<FastPart&>(*before), hash, number);
    cooler = std::thread([&] {
      while (!table->cool(bin)) {
      }
    });
    while (in_part(hash) != 0) std::this_thread::yield();
    const FastPart::Change of_new(const_cast<FastPart&>(table->part()), hash, number);
  }
  cooler.join();
  EXPECT_EQ(in_part(hash), 0u);
  EXPECT_EQ(look(hash), 5u);
}

TEST_F(HotTableTest, StaysWithinItsOwnBoundAndTheBudget) {
  make(usual_bytes);
  warm_all();
  const std::vector<uint64_t> hashes = fill(10'000);
  EXPECT_FALSE(table->step());
  EXPECT_GT(table->part().replaced(), 0u);
  table.reset();
  make();
  warm_all();
  budget.set_limit(budget.claimed() + usual_bytes);
  EXPECT_GT(table->part().load(), HotTable::grow_at);
  EXPECT_FALSE(table->step());
  budget.set_limit(0);
  EXPECT_TRUE(table->step());
}

// Each word of a key is larger than the one before it. Whoever looks must not find an older one
// than was written before he looked, whatever bins and parts do meanwhile.
TEST_F(HotTableTest, NobodySeesAnOldWordWhileBinsFlapAndThePartGrows) {
  make();
  const std::vector<uint64_t> many = fill(6'500);
  constexpr int key_count = 64;
  std::atomic<uint64_t> written[key_count] = {};
  std::atomic<bool> stop{false};
  std::atomic<bool> fast{false};  // served somebody
  std::vector<std::thread> threads;
  const auto key_hash = [&](int key) { return states.first_hash(key % bins) + 1 + key; };
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, thread] {
      TakenSlot taken(epochs);
      for (uint64_t round = 1; !stop.load(); ++round) {
        const int key = 2 * static_cast<int>(round % (key_count / 2)) + thread;
        const EpochGuard guard(epochs, *taken.slot);
        const bool erases = round % 5 == 0;
        table->update<TilePlain>(*index, key_hash(key), [&](bool, uint64_t, Segment&) {
          return Decision{erases ? Action::erase : Action::store, round};
        });
        written[key].store(round);
      }
    });
    threads.emplace_back([&] {
      TakenSlot taken(epochs);
      FastUse mine;
      for (uint64_t i = 0; !stop.load(); ++i) {
        const int key = static_cast<int>(i * 7 % key_count);
        const EpochGuard guard(epochs, *taken.slot);
        const uint64_t before = written[key].load();
        const Found found = table->find<TilePlain>(*index, key_hash(key), mine);
        ASSERT_TRUE(!found.found || found.word >= before);
        if (mine.all_hits() != 0) fast.store(true);
      }
    });
  }
  std::mt19937_64 random(10);
  // Few moves, since each waits until every thread has run.
  for (int move = 0; move < 16 || (!fast.load() && !HasFailure()); ++move) {
    const auto bin = static_cast<uint32_t>(random() % bins);
    states.state(bin) == BinState::hot ? cool(bin) : warm(bin);
    for (int i = 0; i < 20; ++i) table->step();
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  for (const uint64_t hash : many) ASSERT_EQ(look(hash), ~hash);
}

}  // namespace
}  // namespace isotherm::hot_table_test
