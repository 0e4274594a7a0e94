#include "index/fixed_index.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <unordered_map>

#include "base/tile.h"

namespace isotherm::fixed_index_test {
namespace {

class FixedIndexTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  static constexpr uint64_t top = uint64_t{1} << 63;

  uint64_t seed() const { return GetParam(); }
  Updated put(uint64_t key, uint64_t value) {
    return index.update<TilePlain>(index.hash(key), [&](bool, uint64_t) {
      return Decision{Action::store, value};
    });
  }
  Updated erase(uint64_t key) {
    return index.update<TilePlain>(index.hash(key), [](bool, uint64_t) {
      return Decision{Action::erase, 0};
    });
  }
  std::optional<uint64_t> get(uint64_t key) const {
    const Found found = index.find<TilePlain>(index.hash(key));
    return found.found ? std::optional(found.word) : std::nullopt;
  }

  Pages pages;
  MemoryBudget budget{0};
  EpochDomain epochs;
  FixedIndex index{pages, budget, epochs, seed()};
};

TEST_P(FixedIndexTest, TheKeyOfTheEmptyMarkIsAKeyLikeAnyOther) {
  const uint64_t key = unmix(0, seed());
  ASSERT_EQ(index.hash(key), 0u);
  EXPECT_EQ(get(key), std::nullopt);
  EXPECT_EQ(erase(key).change, Change::none);
  for (const uint64_t value : {uint64_t{0}, ~uint64_t{0}, uint64_t{7}}) {
    const bool first = value == 0;
    const Updated updated = put(key, value);
    EXPECT_EQ(updated.change, first ? Change::inserted : Change::replaced);
    EXPECT_EQ(updated.previous.found, !first);
    EXPECT_EQ(get(key), value);
    EXPECT_EQ(index.count(), 1u);
  }
  const Updated kept = index.update<TilePlain>(0, [](bool found, uint64_t word) {
    return Decision{Action::keep, found ? word + 1 : 0};
  });
  EXPECT_EQ(kept.change, Change::none);
  EXPECT_EQ(get(key), 7u);
  const Updated erased = erase(key);
  EXPECT_EQ(erased.change, Change::erased);
  EXPECT_EQ(erased.previous.word, 7u);
  EXPECT_EQ(get(key), std::nullopt);
  EXPECT_EQ(index.count(), 0u);
}

// Keys whose hashes are the patterns of marks, and their neighbours, beside odd keys and values.
TEST_P(FixedIndexTest, NoKeyAndNoValueIsReserved) {
  std::unordered_map<uint64_t, uint64_t> model;
  std::vector<uint64_t> keys = {0, 1, ~uint64_t{0}, top};
  for (const uint64_t hash : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{3}, top, top | 1,
                              top | 2, top | 3, ~uint64_t{0}, top - 1}) {
    keys.push_back(unmix(hash, seed()));
  }
  const uint64_t values[] = {0, 1, 2, top, top | 1, top | 2, ~uint64_t{0}};
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t key = keys[random() % keys.size()];
    if (random() % 3 == 0) {
      EXPECT_EQ(erase(key).change, model.erase(key) != 0 ? Change::erased : Change::none);
    } else {
      const uint64_t value = values[random() % std::size(values)];
      put(key, value);
      model[key] = value;
    }
    const uint64_t other = keys[random() % keys.size()];
    const auto at = model.find(other);
    ASSERT_EQ(get(other), at != model.end() ? std::optional(at->second) : std::nullopt);
    ASSERT_EQ(index.count(), model.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FixedIndexTest,
                         ::testing::Values(0, 1, ~uint64_t{0}, 0x9E3779B97F4A7C15));

}  // namespace
}  // namespace isotherm::fixed_index_test
