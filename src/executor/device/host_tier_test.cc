// The host's part of an index that is shared: what is read in ranges is all there is, once, also
// while the index grows and shrinks.
#include "gpu/split/host_tier.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "executor/host_store.h"
#include "items/poison.h"

namespace isotherm::host_tier_test {
namespace {

constexpr uint64_t seed = 3;

class HostTierTest : public ::testing::Test {
 protected:
  HostTierTest()
      : store_({}, seed),
        slot_(store_.epochs.acquire()),
        tier_(store_.pages, store_.budget, store_.epochs, seed, 0) {}
  ~HostTierTest() override { store_.epochs.release(slot_); }

  static uint64_t hash(uint64_t i) { return i == 0 ? 0 : mix(i, seed); }

  // Reads all in steps, each in its own epoch; every entry of the model must come once, within the
  // step's range.
  void check() {
    std::set<uint64_t> left = model_;
    uint64_t bound = 0;
    do {
      const EpochGuard guard(store_.epochs, *slot_);
      std::vector<HostTier::Entry> entries;
      const uint64_t next = tier_.read(bound, 0, 50, entries);
      for (const HostTier::Entry& entry : entries) {
        ASSERT_GE(entry.hash, bound);
        ASSERT_TRUE(next == 0 || entry.hash < next);
        ASSERT_EQ(entry.word, entry.hash | 1);
        ASSERT_EQ(left.erase(entry.hash), 1u) << "twice, or not there";
      }
      bound = next;
    } while (bound != 0);
    EXPECT_TRUE(left.empty());
  }
  void change(uint64_t i, bool present) {
    const EpochGuard guard(store_.epochs, *slot_);
    tier_.change(hash(i), present ? hash(i) | 1 : location::none);
    ASSERT_FALSE(tier_.full());
    if (present) {
      model_.insert(hash(i));
    } else {
      model_.erase(hash(i));
    }
    if (i % 64 == 0) tier_.settle(64);
  }

  HostStore store_;
  EpochDomain::Slot* slot_;
  HostTier tier_;
  std::set<uint64_t> model_;
};

TEST_F(HostTierTest, WhatIsReadInRangesIsAllAndOnce) {
  constexpr uint64_t entries = poison::sanitized ? 40'000 : 100'000;
  constexpr uint64_t filled = entries / 5;  // between two checks
  for (uint64_t i = 0; i < entries; ++i) {
    change(i, true);
    if (i % filled == 0) check();
  }
  // Segments are joined on the way, and some are half joined when they are read.
  constexpr uint64_t erased = entries / 25;
  for (uint64_t i = 0; i < entries; ++i) {
    if (i % 16 != 5) change(i, false);
    if (i % erased == 0) check();
  }
  check();
}

TEST_F(HostTierTest, ARangeEndsBeforeItsEnd) {
  for (uint64_t i = 0; i < 1000; ++i) change(i, true);
  const EpochGuard guard(store_.epochs, *slot_);
  std::vector<HostTier::Entry> entries;
  constexpr uint64_t from = uint64_t{1} << 62;
  EXPECT_EQ(tier_.read(from, 2 * from, 10'000, entries), 2 * from);
  size_t expected = 0;
  for (const uint64_t hash : model_) expected += hash >= from && hash < 2 * from;
  EXPECT_EQ(entries.size(), expected);
}

}  // namespace
}  // namespace isotherm::host_tier_test
