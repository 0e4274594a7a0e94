// FastPart by itself: what is found, what moves, what gives way.
#include "hot/fast_part.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "items/poison.h"

namespace isotherm::fast_part_test {
namespace {

constexpr uint64_t seed = 0x5851f42d4c957f2d;
constexpr uint64_t bytes = 256 << 10;

template <int size>
bool put(FastPartOf<size>& part, uint64_t hash, uint64_t word, uint32_t database = 0) {
  return typename FastPartOf<size>::Change(part, hash, database).put(word);
}
template <int size>
void erase(FastPartOf<size>& part, uint64_t hash, uint32_t database = 0) {
  const typename FastPartOf<size>::Change change(part, hash, database);
}

// Draws hashes until one has the places that are asked for.
template <int size, class Wanted>
uint64_t hash_with(const FastPartOf<size>& part, std::mt19937_64& random, Wanted&& wanted) {
  for (;;) {
    const uint64_t hash = random() | 1;
    if (wanted(part.places_of(hash))) return hash;
  }
}
template <int size>
uint64_t hash_only_in(const FastPartOf<size>& part, std::mt19937_64& random, uint64_t place) {
  return hash_with(part, random, [&](const auto& places) {
    return places.first == place && places.second == place;
  });
}

// A part so small that hashes with chosen places are soon drawn.
struct SmallPart : FastPartOf<1> {
  SmallPart() : FastPartOf<1>(16 * place_bytes, HugeBlock::Pages::normal, seed, 2) {}
};

template <class Part>
class FastPartSizesTest : public ::testing::Test {};
using Sizes = ::testing::Types<FastPartOf<1>, FastPartOf<2>, FastPartOf<4>>;
TYPED_TEST_SUITE(FastPartSizesTest, Sizes);

TYPED_TEST(FastPartSizesTest, FindsNearlyAllKeysOfAHalfFullPartAndNoOthers) {
  TypeParam part(bytes, HugeBlock::Pages::transparent, seed);
  std::mt19937_64 random(1);
  std::vector<uint64_t> hashes(part.entries() / 2);
  uint64_t placed = 0;
  for (uint64_t& hash : hashes) {
    hash = random() | 1;
    placed += put(part, hash, ~hash);
  }
  uint64_t found = 0;
  for (const uint64_t hash : hashes) {
    const uint64_t word = part.find(hash, 0);
    found += word != 0;
    ASSERT_TRUE(word == 0 || word == ~hash);
    ASSERT_EQ(part.find(hash, 1), 0u);
    ASSERT_EQ(part.find(hash ^ 2, 0), 0u);
  }
  EXPECT_EQ(found, placed - part.replaced());
  EXPECT_GT(found * 100, hashes.size() * 95);
  EXPECT_NEAR(part.load(), .5, .05);
  for (const uint64_t hash : hashes) erase(part, hash);
  EXPECT_EQ(part.load(part.entries()), 0.0);
}

TYPED_TEST(FastPartSizesTest, DatabasesShareThePart) {
  TypeParam part(bytes, HugeBlock::Pages::transparent, seed);
  for (uint32_t database = 0; database < 2; ++database) put(part, 77, 100 + database, database);
  for (uint32_t database = 0; database < 2; ++database) {
    EXPECT_EQ(part.find(77, database), 100 + database);
  }
  erase(part, 77, 0);
  EXPECT_EQ(part.find(77, 0), 0u);
  EXPECT_EQ(part.find(77, 1), 101u);
}

TEST(FastPartTest, AWordIsAwayWhileItChanges) {
  FastPart part(bytes, HugeBlock::Pages::transparent, seed);
  put(part, 5, 50);
  {
    FastPart::Change change(part, 5, 0);
    EXPECT_EQ(part.find(5, 0), 0u);
    EXPECT_TRUE(change.put(51));
    EXPECT_EQ(part.find(5, 0), 51u);
  }
  erase(part, 5);
  EXPECT_EQ(part.find(5, 0), 0u);
}

TEST(FastPartTest, AKeyMovesToItsOtherPlaceAndAReaderInBetweenFindsNothing) {
  SmallPart part;
  std::mt19937_64 random(2);
  const uint64_t key =
      hash_with(part, random, [](const auto& its) { return its.first != its.second; });
  const auto places = part.places_of(key);
  const uint64_t blocker = hash_only_in(part, random, places.first);
  const uint64_t pusher = hash_only_in(part, random, places.second);
  put(part, blocker, 1);
  put(part, key, 2);  // its first place is taken
  erase(part, blocker);
  const uint64_t seen = part.find(key, 0, [&] { EXPECT_TRUE(put(part, pusher, 3)); });
  EXPECT_EQ(seen, 0u);  // the index would have it
  EXPECT_EQ(part.moved(), 1u);
  EXPECT_EQ(part.find(key, 0), 2u);
  EXPECT_EQ(part.find(pusher, 0), 3u);
}

TEST(FastPartTest, AtMostOneKeyMoves) {
  SmallPart part;
  std::mt19937_64 random(3);
  const uint64_t key =
      hash_with(part, random, [](const auto& its) { return its.first != its.second; });
  const auto places = part.places_of(key);
  const uint64_t blocker = hash_with(part, random, [&](const auto& its) {
    return its.first == places.second && !places.has(its.second);
  });
  put(part, key, 1);
  put(part, blocker, 2);  // could move itself to make room for the key, which could then move
  part.find(key, 0);
  const uint64_t pusher = hash_only_in(part, random, places.first);
  EXPECT_FALSE(put(part, pusher, 3));
  EXPECT_EQ(part.moved(), 0u);
  EXPECT_EQ(part.find(key, 0), 1u);
  EXPECT_EQ(part.find(blocker, 0), 2u);
}

TEST(FastPartTest, AnUnreadKeyGivesWayAndAReadOneHasASecondChance) {
  SmallPart part;
  std::mt19937_64 random(4);
  uint64_t keys[4];
  for (uint64_t& key : keys) key = hash_only_in(part, random, 7);
  EXPECT_TRUE(put(part, keys[0], 1));
  EXPECT_TRUE(put(part, keys[1], 2));
  EXPECT_EQ(part.find(keys[0], 0), 0u);
  EXPECT_EQ(part.replaced(), 1u);
  EXPECT_EQ(part.find(keys[1], 0), 2u);
  EXPECT_FALSE(put(part, keys[2], 3));
  EXPECT_TRUE(put(part, keys[3], 4));
  EXPECT_EQ(part.find(keys[1], 0), 0u);
  EXPECT_EQ(part.find(keys[3], 0), 4u);
}

TEST(FastPartTest, OneHashGivesOnePlace) {
  const FastPart part(bytes, HugeBlock::Pages::normal, seed, 1);
  std::mt19937_64 random(5);
  for (int i = 0; i < 100; ++i) {
    const FastPart::Places places = part.places_of(random());
    EXPECT_EQ(places.first, places.second);
  }
}

// Words of a key only grow: a reader must not see an older one than was put before it looked.
TEST(FastPartTest, ReadersSeeNoOldWordsAndNoWordsOfOthers) {
  FastPart part(3 * FastPart::place_bytes, HugeBlock::Pages::normal, seed);
  std::mt19937_64 random(6);
  constexpr int key_count = 16;
  constexpr uint64_t rounds = poison::sanitized ? 3'000 : 60'000;
  std::vector<uint64_t> keys(key_count);
  for (uint64_t& key : keys) key = random() | 1;
  std::atomic<uint64_t> done[key_count] = {};
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&] {
      while (!stop.load()) {
        for (int key = 0; key < key_count; ++key) {
          const uint64_t before = done[key].load();
          const uint64_t word = part.find(keys[key], 0);
          if (word == 0) continue;
          ASSERT_EQ(word % key_count, static_cast<uint64_t>(key));
          ASSERT_GE(word, before);
        }
      }
    });
  }
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 2; ++writer) {
    writers.emplace_back([&, writer] {
      for (uint64_t round = 1; round <= rounds; ++round) {
        const int key = 2 * static_cast<int>(round % (key_count / 2)) + writer;
        const uint64_t word = round * key_count + static_cast<uint64_t>(key);
        FastPart::Change change(part, keys[key], 0);
        done[key].store(word);
        change.put(word);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(part.moved() + part.replaced(), 0u);
}

TEST(HugeBlockTest, IsZeroOnWhateverPagesThereAre) {
  using Pages = HugeBlock::Pages;
  for (const Pages largest : {Pages::normal, Pages::transparent, Pages::huge_2m, Pages::huge_1g}) {
    const HugeBlock block(3 << 20, largest);
    EXPECT_LE(block.pages(), largest);
    EXPECT_NE(block.pages(), Pages::huge_1g);  // too small for one
    ASSERT_GE(block.bytes(), uint64_t{3} << 20);
    for (uint64_t at = 0; at < block.bytes(); at += 4096) ASSERT_EQ(block.data()[at], 0);
    std::memset(block.data(), 1, block.bytes());
  }
}

}  // namespace
}  // namespace isotherm::fast_part_test
