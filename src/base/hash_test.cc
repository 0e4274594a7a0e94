#include "base/hash.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <unordered_set>
#include <vector>

namespace isotherm::hash_test {
namespace {

TEST(Mix, UnmixInvertsIt) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t key = random();
    const uint64_t seed = random();
    ASSERT_EQ(unmix(mix(key, seed), seed), key);
    ASSERT_EQ(mix(unmix(key, seed), seed), key);
  }
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    for (const uint64_t hash : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 63, ~uint64_t{0}}) {
      EXPECT_EQ(mix(unmix(hash, seed), seed), hash);
    }
  }
}

// Small integers, as keys often are, spread over the bits that pick segment and line.
TEST(Mix, NeighboursSpread) {
  std::vector<uint32_t> lines(4096);
  constexpr uint64_t keys = 1 << 20;
  for (uint64_t key = 0; key < keys; ++key) ++lines[mix(key, 42) >> 52];
  for (const uint32_t count : lines) EXPECT_NEAR(count, keys / 4096, 110);  // 256 and 7 sigma
}

TEST(HashBytes, DependsOnKeyAndSeedAndIsNeverZero) {
  std::unordered_set<uint64_t> seen;
  std::string key;
  for (int length = 0; length < 300; ++length) {
    for (uint64_t seed = 0; seed < 4; ++seed) seen.insert(hash_bytes(key, seed));
    key.push_back(static_cast<char>(length));
  }
  EXPECT_EQ(seen.size(), 1200u);
  EXPECT_EQ(seen.count(0), 0u);
}

TEST(HashBytes, OfManyEqualsThatOfEach) {
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i)
    keys.push_back(std::string(static_cast<size_t>(i * 7 % 50), 'k') + std::to_string(i));
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  std::vector<uint64_t> hashes(keys.size());
  hash_bytes(views.data(), views.size(), 5, hashes.data());
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(hashes[i], hash_bytes(keys[i], 5));
}

}  // namespace
}  // namespace isotherm::hash_test
