#include "gpu/items/item_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "items/poison.h"

namespace isotherm::item_hash_test {
namespace {

uint64_t hash(const std::string& key, uint64_t seed = 7) {
  return ItemHash{seed}(key.data(), key.size(), {key.data(), key.data() + key.size()});
}

TEST(ItemHash, DoesNotDependOnWhereTheKeyLies) {
  const std::string key = "a key that is longer than two units of 16";
  for (uint64_t at = 0; at < 16; ++at) {
    const std::string moved = std::string(at, 'x') + key;
    const ByteRange all{moved.data(), moved.data() + moved.size()};
    EXPECT_EQ((ItemHash{7}(moved.data() + at, key.size(), all)), hash(key));
  }
}

TEST(ItemHash, LengthsAndSeedsCount) {
  std::vector<uint64_t> hashes;
  for (uint64_t length = 0; length < 100; ++length) hashes.push_back(hash(std::string(length, 0)));
  for (uint64_t seed = 0; seed < 100; ++seed) hashes.push_back(hash("key", seed + 100));
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::adjacent_find(hashes.begin(), hashes.end()), hashes.end());
}

// Pairs of equal values among the bits that `part` keeps.
uint64_t collisions(std::vector<uint64_t> hashes, const std::function<uint64_t(uint64_t)>& part) {
  for (uint64_t& hash : hashes) hash = part(hash);
  std::sort(hashes.begin(), hashes.end());
  uint64_t equal = 0;
  for (size_t i = 1; i < hashes.size(); ++i) equal += hashes[i] == hashes[i - 1];
  return equal;
}

constexpr size_t most_keys = size_t{1} << (poison::sanitized ? 16 : 17);

// The upper half, the lower half and the middle of the hashes of 2^17 keys: two of 2^34 / 2 pairs
// are expected to be equal in 32 bits, and of 2^16 half a pair.
void expect_spread(const std::vector<std::string>& keys) {
  std::vector<uint64_t> hashes;
  for (const std::string& key : keys) hashes.push_back(hash(key));
  EXPECT_LE(collisions(hashes, [](uint64_t h) { return h >> 32; }), 12u);
  EXPECT_LE(collisions(hashes, [](uint64_t h) { return h & 0xffffffff; }), 12u);
  EXPECT_LE(collisions(hashes, [](uint64_t h) { return h >> 16 & 0xffffffff; }), 12u);
}

TEST(ItemHash, SpreadsCountersAndText) {
  std::vector<std::string> counters, text, ends;
  for (uint64_t i = 0; i < most_keys; ++i) {
    std::string key(16, 0);
    for (int b = 0; b < 4; ++b) key[b] = static_cast<char>(i >> (8 * b));
    counters.push_back(key);
    std::rotate(key.begin(), key.begin() + 4, key.end());
    ends.push_back(key);
    text.push_back("user:" + std::to_string(i) + ":session");
  }
  expect_spread(counters);
  expect_spread(ends);
  expect_spread(text);
}

TEST(ItemHash, SpreadsKeysOfFewBits) {
  // All keys of 48 bytes with two or three bits set, up to so many.
  std::vector<std::string> keys;
  for (int a = 0; a < 384 && keys.size() < most_keys; ++a) {
    for (int b = 0; b < a; ++b) {
      for (int c = 0; c <= b && c < 2; ++c) {
        std::string key(48, 0);
        for (const int bit : {a, b, c})
          key[bit / 8] = static_cast<char>(key[bit / 8] | 1 << bit % 8);
        keys.push_back(key);
      }
    }
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  expect_spread(keys);
}

TEST(ItemHash, EveryBitOfTheKeyReachesEveryBitOfTheHash) {
  std::mt19937_64 random(1);
  constexpr int rounds = 256;
  for (const int bytes : {1, 8, 16, 24, 40}) {
    std::vector<int> flips(64 * bytes * 8);
    for (int round = 0; round < rounds; ++round) {
      std::string key(bytes, 0);
      for (char& byte : key) byte = static_cast<char>(random());
      const uint64_t before = hash(key, random());
      const uint64_t seed = random();
      const uint64_t with_seed = hash(key, seed);
      EXPECT_NE(before, with_seed);
      for (int bit = 0; bit < bytes * 8; ++bit) {
        std::string other = key;
        other[bit / 8] = static_cast<char>(other[bit / 8] ^ 1 << bit % 8);
        const uint64_t changed = hash(other, seed) ^ with_seed;
        for (int b = 0; b < 64; ++b) flips[bit * 64 + b] += changed >> b & 1;
      }
    }
    for (const int count : flips) {
      EXPECT_GT(count, rounds / 4);
      EXPECT_LT(count, rounds * 3 / 4);
    }
  }
}

TEST(ItemHash, TheMaskMakesKeysCollide) {
  const std::string key = "key";
  const ByteRange all{key.data(), key.data() + key.size()};
  EXPECT_EQ((ItemHash{7, 0}(key.data(), key.size(), all)), 0u);
  EXPECT_EQ((ItemHash{7, 0xff}(key.data(), key.size(), all)), hash(key) & 0xff);
}

}  // namespace
}  // namespace isotherm::item_hash_test
