#include "isotherm_bench/mica_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

namespace isotherm::bench::mica_table_test {
namespace {

// Hashes of which many share a bucket, and some their tag, too.
uint64_t hash_of(uint64_t key) { return key * 0x9e3779b97f4a7c15u & 0x3000'0000'0000'00ffu; }

TEST(MicaTable, AnswersAsAModelDoes) {
  MicaTable table(1000, 16, 20);
  ASSERT_EQ(MicaTable::words_of(20), 3u);
  std::map<uint64_t, uint64_t> model;
  std::mt19937_64 random(1);
  for (int i = 0; i < 30'000; ++i) {
    const uint64_t number = random() % 2000;
    const uint64_t key[] = {number, 7};
    const auto found = model.find(number);
    if (random() % 3 == 0) {
      ASSERT_EQ(table.erase(hash_of(number), key), found != model.end());
      if (found != model.end()) model.erase(found);
    } else if (random() % 2 == 0) {
      const uint64_t word = random();
      const uint64_t value[] = {word, ~word, word};
      ASSERT_TRUE(table.put(hash_of(number), key, value));
      model[number] = word;
    } else {
      uint64_t value[3] = {};
      table.prefetch_bucket(hash_of(number));
      table.prefetch_item(hash_of(number));
      ASSERT_EQ(table.get(hash_of(number), key, value), found != model.end());
      if (found == model.end()) continue;
      EXPECT_EQ(value[0], found->second);
      EXPECT_EQ(value[1], ~found->second);
    }
  }
}

TEST(MicaTable, SaysSoWhereNoSpareBucketIsLeft) {
  MicaTable table(1, 8, 8);
  uint64_t key = 0;
  while (table.put(0, &key, &key)) ++key;
  EXPECT_GE(key, 15u);
  for (uint64_t i = 0; i < key; ++i) {
    uint64_t value = 0;
    ASSERT_TRUE(table.get(0, &i, &value));
    EXPECT_EQ(value, i);
  }
  EXPECT_TRUE(table.erase(0, &(key = 3)));
  EXPECT_TRUE(table.put(0, &(key = 1000), &key));
}

// Both words of a value are one change's, also where the place of an erased item is another's now.
TEST(MicaTable, WhoReadsSeesNoHalfOfAChange) {
  MicaTable table(64, 8, 16);
  constexpr uint64_t zeros[2] = {};
  ASSERT_TRUE(table.put(hash_of(0), zeros, zeros));
  std::atomic<bool> stop{false};
  const auto write = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 20'000; ++i) {
      const uint64_t key = random() % 16;
      const uint64_t word = random() << 4 | key;
      const uint64_t value[] = {word, word};
      if (i % 3 == 0 && key != 0) {
        table.erase(hash_of(key), &key);
      } else {
        ASSERT_TRUE(table.put(hash_of(key), &key, value));
      }
    }
    stop = true;
  };
  std::thread first(write, 1);
  std::thread second(write, 2);
  for (uint64_t key = 0; !stop; key = (key + 1) % 16) {
    uint64_t value[2] = {};
    const bool found = table.get(hash_of(key), &key, value);
    ASSERT_TRUE(found || key != 0);
    if (!found) continue;
    ASSERT_EQ(value[0], value[1]);
    ASSERT_EQ(value[0] % 16, key);
  }
  first.join();
  second.join();
}

}  // namespace
}  // namespace isotherm::bench::mica_table_test
