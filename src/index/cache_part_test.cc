// Parts of cache indexes, by the unit of the host: what is displaced, what is evicted, and what a
// reader meets while cells move.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "index/cuckoo_part.h"
#include "index/set_part.h"

namespace isotherm::cache_part_test {
namespace {

template <class Part>
class Fixture {
 public:
  Found put(uint64_t hash, uint64_t word) {
    return update_part(HostUnit(), *part, hash, ++time, tally, [&](bool, uint64_t) -> Decision {
      return {Action::store, word};
    });
  }
  Found put_at(uint64_t its_time, uint64_t hash) {
    return update_part(HostUnit(), *part, hash, its_time, tally, [&](bool, uint64_t) -> Decision {
      return {Action::store, hash};
    });
  }
  Found erase(uint64_t hash) {
    return update_part(HostUnit(), *part, hash, ++time, tally, [&](bool, uint64_t) -> Decision {
      return {Action::erase, 0};
    });
  }
  CachePlace get(uint64_t hash) {
    const CachePlace place = read_part(HostUnit(), *part, hash);
    if (place.found) Part::touch(HostUnit(), *part, place, ++time, 0);
    return place;
  }
  std::set<uint64_t> hashes() const {
    std::set<uint64_t> all;
    for (const uint64_t hash : list()) EXPECT_TRUE(all.insert(hash).second) << "twice";
    return all;
  }

  std::vector<uint64_t> list() const {
    std::vector<uint64_t> all;
    each_entry(*part, [&](const Pair& pair) { all.push_back(pair.first); });
    return all;
  }

  std::unique_ptr<Part> part = std::make_unique<Part>();
  CacheTally tally;
  uint64_t time = 0;
};

using Cuckoo = Fixture<CuckooPart>;
using Set = Fixture<SetPart>;

TEST(CuckooPart, DisplacesBeforeItEvicts) {
  for (const uint64_t seed : {1, 2, 3}) {
    std::mt19937_64 random(seed);
    Cuckoo its;
    while (its.tally.evicted == 0) its.put(random(), 5);
    EXPECT_GT(its.tally.entries, CuckooPart::entries * 92 / 100) << "seed " << seed;
    EXPECT_GT(its.tally.moved, 20u);
    const std::set<uint64_t> all = its.hashes();
    EXPECT_EQ(all.size(), static_cast<uint64_t>(its.tally.entries));
    for (const uint64_t hash : all) EXPECT_TRUE(its.get(hash).found);
  }
}

TEST(CuckooPart, FillsEveryCellAndIsEmptiedAgain) {
  std::mt19937_64 random(4);
  Cuckoo its;
  for (int i = 0; i < 20'000; ++i) its.put(random(), 5);
  const std::set<uint64_t> all = its.hashes();
  EXPECT_EQ(all.size(), CuckooPart::entries);
  EXPECT_EQ(its.part->full, ~uint64_t{0});
  for (const uint64_t hash : all) EXPECT_TRUE(its.erase(hash).found);
  EXPECT_EQ(its.tally.entries, 0);
  EXPECT_EQ(its.part->full, 0u);
  EXPECT_EQ(its.tally.evicted, 20'000 - CuckooPart::entries);
}

// A lane of a kernel, as far as a new key needs one.
struct OneLane {
  static uint64_t compare_exchange(uint64_t* at, uint64_t expected, uint64_t desired) {
    return HostUnit::compare_exchange(at, expected, desired);
  }
  static void atomic_or(uint64_t* at, uint64_t bits) { *at |= bits; }
};

// Which entry a cell has, in use or free.
uint32_t entry_of_cell(const CuckooPart& part, uint32_t number) {
  const uint64_t cell = part.cell[number];
  const auto location = static_cast<uint32_t>(cell) & 0x7fffffff;
  return location != 0 ? location - 1 : (static_cast<uint32_t>(cell >> 32) ^ number);
}

TEST(CuckooPart, EachEntryHasOneCellWhateverWasMovedAndErased) {
  std::mt19937_64 random(8);
  Cuckoo its;
  std::set<uint64_t> stored;
  uint64_t alone = 0;
  for (int i = 0; i < 20'000; ++i) {
    // Up to where cells are displaced, but nothing is evicted, and down again.
    const bool falls = i / 1000 % 2 == 1;
    if (!stored.empty() && (stored.size() > 460 || random() % 8 < (falls ? 5u : 2u))) {
      const auto at = std::next(stored.begin(), static_cast<long>(random() % stored.size()));
      EXPECT_TRUE(its.erase(*at).found);
      stored.erase(at);
      continue;
    }
    const uint64_t hash = random();
    const CachePlace place = CuckooPart::find_place(HostUnit(), its.part.get(), hash);
    ASSERT_FALSE(place.found);
    if (i % 2 == 0 && CuckooPart::insert_alone<OneLane>(*its.part, {hash, 5}, place.empty)) {
      ++alone;
    } else {
      its.put(hash, 5);
    }
    stored.insert(hash);
  }
  EXPECT_GT(alone, 2000u);
  EXPECT_GT(its.tally.moved, 100u);
  EXPECT_EQ(its.tally.evicted, 0u);
  EXPECT_EQ(its.hashes(), stored);
  std::set<uint32_t> entries;
  for (uint32_t i = 0; i < CuckooPart::entries; ++i) entries.insert(entry_of_cell(*its.part, i));
  EXPECT_EQ(entries.size(), CuckooPart::entries);
  EXPECT_LT(*entries.rbegin(), CuckooPart::entries);
  const auto in_use = its.part->in_use();
  for (uint32_t i = 0; i < CuckooPart::entries; ++i) {
    EXPECT_EQ(its.part->entry[i].first != 0, in_use.has(i)) << "a free entry with a hash";
  }
}

// A lane that looks for another key meanwhile may meet the cell before the entry is written.
TEST(CuckooPart, AnEntryThatIsNotWrittenYetIsNobodys) {
  Cuckoo its;
  const uint64_t erased = uint64_t{3} << 38 | 0x123456789;
  its.put(erased, 5);
  its.erase(erased);
  const uint64_t same_signature = uint64_t{4} << 38 | 0x123456789;
  struct LooksMeanwhile {
    static Found& seen() {
      static Found found{};
      return found;
    }
    static CuckooPart*& part() {
      static CuckooPart* its = nullptr;
      return its;
    }
    static uint64_t compare_exchange(uint64_t* at, uint64_t expected, uint64_t desired) {
      const uint64_t before = OneLane::compare_exchange(at, expected, desired);
      const CachePlace place =
          CuckooPart::find(HostUnit(), part(), uint64_t{3} << 38 | 0x123456789);
      seen() = {place.found, place.word};
      return before;
    }
    static void atomic_or(uint64_t* at, uint64_t bits) { *at |= bits; }
  };
  LooksMeanwhile::part() = its.part.get();
  LooksMeanwhile::seen().found = true;
  const CachePlace place = CuckooPart::find_place(HostUnit(), its.part.get(), same_signature);
  EXPECT_TRUE(
      CuckooPart::insert_alone<LooksMeanwhile>(*its.part, {same_signature, 6}, place.empty));
  EXPECT_FALSE(LooksMeanwhile::seen().found);
  EXPECT_EQ(its.get(same_signature).word, 6u);
  // The hash of free entries is 0, so keys that could be taken for its key are left to the lock.
  EXPECT_FALSE(CuckooPart::insert_alone<OneLane>(*its.part, {uint64_t{1} << 38, 7}, 0xffff));
}

// Hashes that differ only in bits that pick no bucket and are in no signature.
TEST(CuckooPart, KeysOfOneSignatureAreToldApart) {
  Cuckoo its;
  const auto hash = [](uint64_t i) { return i << 38 | 0x123456789; };
  for (uint64_t i = 0; i < 100; ++i) EXPECT_FALSE(its.put(hash(i), i).found);
  EXPECT_EQ(its.tally.entries, 16);
  EXPECT_EQ(its.tally.evicted, 84u);
  uint64_t found = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    const CachePlace place = its.get(hash(i));
    if (!place.found) continue;
    ++found;
    EXPECT_EQ(place.word, i);
  }
  EXPECT_EQ(found, 16u);
  // Without a comparison the first of them is the answer, with its key.
  const CachePlace any = CuckooPart::find<false>(HostUnit(), its.part.get(), hash(1000));
  ASSERT_TRUE(any.found);
  EXPECT_EQ(any.hash, hash(any.word));
  EXPECT_FALSE(CuckooPart::find<false>(HostUnit(), its.part.get(), 77).found);
}

TEST(CuckooPart, EntriesThatAreReadStayLonger) {
  std::mt19937_64 random(5);
  Cuckoo its;
  for (int i = 0; i < 4000; ++i) its.put(random(), 5);
  const std::set<uint64_t> all = its.hashes();
  std::set<uint64_t> read, unread;
  for (const uint64_t hash : all) (read.size() * 4 < all.size() ? read : unread).insert(hash);
  for (int i = 0; i < 400; ++i) {
    if (i % 50 == 0) {
      for (const uint64_t hash : read) its.get(hash);
    }
    its.put(random(), 5);
  }
  const std::set<uint64_t> left = its.hashes();
  const auto share = [&](const std::set<uint64_t>& of) {
    const auto in = [&](uint64_t hash) { return left.contains(hash); };
    return static_cast<double>(std::count_if(of.begin(), of.end(), in)) /
           static_cast<double>(of.size());
  };
  EXPECT_GT(share(read), share(unread) + 0.3);
}

// A unit whose owner does something between two loads.
struct InterruptedUnit : HostUnit {
  static inline int loads = 0;
  static inline std::function<void()> work;

  template <class T>
  static T load(const T* at) {
    if (loads-- == 0) std::exchange(work, nullptr)();
    return HostUnit::load(at);
  }
  static void load_two(const uint64_t* at, uint64_t& first, uint64_t& second) {
    first = load(at);
    second = load(at + 1);
  }
};

// A cell that moves from the bucket that a reader has not read yet to the one that it has.
TEST(CuckooPart, AMissIsBelievedOnlyIfNoCellMoved) {
  std::mt19937_64 random(6);
  uint64_t missed = 0;
  for (const bool looks_again : {false, true}) {
    Cuckoo its;
    while (its.tally.entries < 500) its.put(random(), 5);
    for (int i = 0; i < 500; ++i) {
      std::vector<uint64_t> keys = its.list();
      std::swap(keys[0], keys[random() % keys.size()]);
      const auto churn = [&] {
        for (int k = 0; k < 60; ++k) its.erase(keys[1 + random() % (keys.size() - 1)]);
        while (its.tally.entries < 500) its.put(random(), 5);
      };
      InterruptedUnit::loads = 8 + (looks_again ? 1 : 0);  // behind the first bucket
      InterruptedUnit::work = churn;
      const CachePlace place = looks_again
                                   ? read_part(InterruptedUnit(), *its.part, keys[0])
                                   : CuckooPart::find(InterruptedUnit(), its.part.get(), keys[0]);
      if (!its.get(keys[0]).found) continue;  // evicted
      if (looks_again) {
        EXPECT_TRUE(place.found);
      } else {
        missed += place.found ? 0 : 1;
      }
    }
  }
  EXPECT_GT(missed, 2u) << "no cell moved behind a reader";
}

// Where entries have to stay, each of the 16 that could go is planned once.
template <class Part>
void plans_each_victim_once() {
  std::mt19937_64 random(8);
  Fixture<Part> its;
  for (int i = 0; i < 20'000; ++i) its.put(random(), 5);
  const auto before = its.list();
  const HostUnit unit;
  for (int i = 0; i < 100; ++i) {
    const uint64_t hash = random();
    CacheInsert plan = Part::plan_insert(unit, *its.part, hash, ++its.time, its.tally);
    ASSERT_TRUE(plan.evicts);
    std::set<uint32_t> planned = {plan.entry};
    while (Part::plan_another(unit, *its.part, hash, plan)) {
      EXPECT_TRUE(planned.insert(plan.entry).second) << "twice";
    }
    EXPECT_EQ(planned.size(), 16u);
    EXPECT_EQ(its.list(), before) << "a plan changes nothing";
  }
}
TEST(CuckooPart, PlansEachVictimOnce) { plans_each_victim_once<CuckooPart>(); }
TEST(SetPart, PlansEachVictimOnce) { plans_each_victim_once<SetPart>(); }

TEST(SetPart, EvictsTheLeastRecentlyUsed) {
  Set its;
  for (uint64_t i = 0; i < 16; ++i) its.put(i, i);
  for (const uint64_t i : {0, 3, 5}) EXPECT_EQ(its.get(i).word, i);
  for (uint64_t i = 100; i < 113; ++i) its.put(i, i);
  std::set<uint64_t> expected = {0, 3, 5};
  for (uint64_t i = 100; i < 113; ++i) expected.insert(i);
  EXPECT_EQ(its.hashes(), expected);
  EXPECT_EQ(its.tally.evicted, 13u);
  EXPECT_TRUE(its.erase(3).found);
  EXPECT_FALSE(its.get(3).found);
  its.put(200, 1);
  EXPECT_EQ(its.tally.evicted, 13u);
  EXPECT_EQ(its.hashes().size(), 16u);
}

// Tags agree where hashes differ only above.
TEST(SetPart, KeysOfOneTagAreToldApart) {
  Set its;
  for (uint64_t i = 0; i < 16; ++i) its.put(i << 16, i);
  for (uint64_t i = 0; i < 16; ++i) EXPECT_EQ(its.get(i << 16).word, i);
  EXPECT_FALSE(its.get(uint64_t{16} << 16).found);
  EXPECT_TRUE(SetPart::find<false>(HostUnit(), its.part.get(), uint64_t{16} << 16).found);
}

TEST(SetPart, ABatchInAnyOrderLeavesWhatItsArrivalOrderLeaves) {
  std::mt19937_64 random(7);
  Set in_order, shuffled;
  uint64_t time = 0;
  for (int batch = 0; batch < 200; ++batch) {
    std::vector<std::pair<uint64_t, uint64_t>> puts;
    std::set<uint64_t> hashes;
    const uint64_t rows = 1 + random() % 40;
    while (hashes.size() < rows) hashes.insert(random() % 60);
    for (const uint64_t hash : hashes) puts.emplace_back(0, hash);
    std::shuffle(puts.begin(), puts.end(), random);
    for (auto& put : puts) put.first = ++time;
    for (const auto& [its_time, hash] : puts) in_order.put_at(its_time, hash);
    std::shuffle(puts.begin(), puts.end(), random);
    for (const auto& [its_time, hash] : puts) shuffled.put_at(its_time, hash);
    ASSERT_EQ(in_order.hashes(), shuffled.hashes()) << "batch " << batch;
  }
}

TEST(SetPart, KeepsItsOrderWhenStampsComeToTheirEnd) {
  Set its;
  constexpr uint64_t far = uint64_t{1} << 33;
  for (uint64_t i = 0; i < 8; ++i) its.put_at(1 + i, i);
  for (uint64_t i = 8; i < 16; ++i) its.put_at(far + i, i);
  for (uint64_t i = 100; i < 108; ++i) its.put_at(far + i, i);
  its.put_at(far + 108, 9);
  for (uint64_t i = 109; i < 112; ++i) its.put_at(far + i, i);
  EXPECT_EQ(its.hashes(), (std::set<uint64_t>{9, 12, 13, 14, 15, 100, 101, 102, 103, 104, 105, 106,
                                              107, 109, 110, 111}));
}

}  // namespace
}  // namespace isotherm::cache_part_test
