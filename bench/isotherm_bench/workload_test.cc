#include "isotherm_bench/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace isotherm::bench::workload_test {
namespace {

std::string key_of(uint64_t number, uint32_t size) {
  std::string key(size, '\0');
  write_key(number, size, key.data());
  return key;
}

std::string value_of(uint64_t number, uint64_t size) {
  std::string value(size, '\0');
  write_value(number, size, value.data());
  return value;
}

TEST(Workload, KeysAreDistinctAndPrintable) {
  for (uint32_t size : {2u, 3u, 8u, 16u, 250u}) {
    std::set<std::string> seen;
    const uint64_t count = std::min<uint64_t>(key_capacity(size), 5000);
    for (uint64_t number = 0; number < count; ++number) {
      const std::string key = key_of(number, size);
      for (char c : key) EXPECT_TRUE(c > ' ' && c < 127);
      seen.insert(key);
    }
    EXPECT_EQ(seen.size(), count);
  }
}

TEST(Workload, ValuesTellTheirKey) {
  for (uint64_t size : {0, 1, 7, 8, 9, 16, 31, 1000}) {
    EXPECT_TRUE(value_belongs(42, value_of(42, size))) << size;
    if (size >= 8) {
      EXPECT_FALSE(value_belongs(43, value_of(42, size)));
      std::string damaged = value_of(42, size);
      damaged.back() = static_cast<char>(damaged.back() ^ 1);
      EXPECT_FALSE(value_belongs(42, damaged));
    }
  }
}

TEST(Workload, MixParses) {
  std::string error;
  const auto mix = parse_mix("read=50,update=25.5,erase=24.5", &error);
  ASSERT_TRUE(mix) << error;
  EXPECT_EQ(to_string(*mix), "read=50,update=25.5,erase=24.5");
  for (const char* bad : {"", "read", "read=", "read=101", "read=-1", "write=100", "read=50",
                          "read=60,update=60", "read=1e", "=100"}) {
    EXPECT_FALSE(parse_mix(bad, &error)) << bad;
    EXPECT_FALSE(error.empty());
  }
}

TEST(Requester, TheSameStreamGivesTheSameLoad) {
  Workload workload;
  workload.records = 1000;
  KeySpace keys;
  keys.present = 1000;
  Requester first(workload, keys, 3), second(workload, keys, 3), other(workload, keys, 4);
  int same_as_other = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto a = first.next(), b = second.next(), c = other.next();
    EXPECT_EQ(a->key, b->key);
    EXPECT_EQ(a->operation, b->operation);
    same_as_other += a->key == c->key ? 1 : 0;
  }
  EXPECT_LT(same_as_other, 200);
}

TEST(Requester, TheMixCountsKeys) {
  Workload workload;
  workload.records = 1000;
  workload.mix = {50, 50, 0, 0, 0, 0};
  workload.keys_per_read = 10;
  KeySpace keys;
  keys.present = 1000;
  Requester requester(workload, keys, 0);
  double read = 0, written = 0;
  for (int i = 0; i < 100'000; ++i) {
    const auto request = requester.next();
    (request->operation == Operation::read ? read : written) += request->count;
  }
  EXPECT_NEAR(read / (read + written), 0.5, 0.02);
}

TEST(Requester, LatestReadsWhatWasInsertedLast) {
  Workload workload;
  workload.records = 1000;
  workload.mix = {100, 0, 0, 0, 0, 0};
  workload.distribution = Distribution::latest;
  KeySpace keys;
  keys.present = 5000;
  Requester requester(workload, keys, 0);
  int newest = 0;
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t key = requester.next()->key;
    EXPECT_LT(key, 5000u);
    EXPECT_GE(key, 4000u);
    newest += key >= 4990 ? 1 : 0;
  }
  EXPECT_GT(newest, 3000);
}

TEST(Requester, InsertsEndAtTheLimit) {
  Workload workload;
  workload.mix = {0, 0, 100, 0, 0, 0};
  KeySpace keys;
  keys.limit = 10;
  Requester requester(workload, keys, 0);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(requester.next()->key, i);
  EXPECT_FALSE(requester.next());
}

TEST(Requester, SizesAndScansStayInRange) {
  Workload workload;
  workload.mix = {0, 50, 0, 50, 0, 0};
  workload.value_size_min = 10;
  workload.value_size_max = 20;
  workload.scan_length = 5;
  KeySpace keys;
  keys.present = workload.records;
  Requester requester(workload, keys, 0);
  std::set<uint64_t> sizes, counts;
  for (int i = 0; i < 10'000; ++i) {
    const auto request = requester.next();
    if (request->operation == Operation::update) sizes.insert(request->value_size);
    if (request->operation == Operation::scan) counts.insert(request->count);
  }
  EXPECT_EQ(sizes.size(), 11u);
  EXPECT_EQ(*sizes.begin(), 10u);
  EXPECT_EQ(counts, (std::set<uint64_t>{1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace isotherm::bench::workload_test
