#include "isotherm/fixed_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "items/poison.h"

namespace isotherm::fixed_table_test {
namespace {

using Values = std::vector<uint64_t>;

class FixedTableTest : public ::testing::Test {
 protected:
  static constexpr uint64_t seed = 12'345;
  static FixedOptions options() { return {.maxmemory = 0, .hash_seed = seed}; }

  void put(const Values& keys, const Values& values) {
    const FixedHandle::Result result = handle.put(keys, values);
    EXPECT_EQ(result.status, Status::ok);
    EXPECT_EQ(result.done, keys.size());
  }

  FixedTable table{options()};
  FixedHandle handle{table};
};

TEST_F(FixedTableTest, NoKeyAndNoValueIsReserved) {
  const Values keys = {0,
                       1,
                       ~uint64_t{0},
                       uint64_t{1} << 63,
                       unmix(0, seed),
                       unmix(1, seed),
                       unmix((uint64_t{1} << 63) | 2, seed),
                       2};
  for (const uint64_t value : {uint64_t{0}, ~uint64_t{0}, uint64_t{2}}) {
    put(keys, Values(keys.size(), value));
    EXPECT_EQ(table.size(), keys.size());
    for (const uint64_t key : keys) EXPECT_EQ(handle.get(key), value);
  }
  EXPECT_EQ(handle.get(5), std::nullopt);
  EXPECT_EQ(handle.erase(keys), keys.size());
  EXPECT_EQ(table.size(), 0u);
  for (const uint64_t key : keys) EXPECT_EQ(handle.get(key), std::nullopt);
}

TEST_F(FixedTableTest, MissesLeaveTheOutputAlone) {
  put({1, 3}, {10, 30});
  Values values = {7, 7, 7};
  std::vector<uint8_t> found(3, 9);
  EXPECT_EQ(handle.get(Values{1, 2, 3}, values, found), 2u);
  EXPECT_EQ(values, (Values{10, 7, 30}));
  EXPECT_EQ(found, (std::vector<uint8_t>{1, 0, 1}));
}

TEST_F(FixedTableTest, OperationsOfACallTakeEffectInOrder) {
  Values previous(4, 99);
  std::vector<uint8_t> found(4);
  handle.put(Values{5, 5, 6, 5}, Values{1, 2, 3, 4}, {previous, found});
  EXPECT_EQ(previous, (Values{99, 1, 99, 2}));
  EXPECT_EQ(found, (std::vector<uint8_t>{0, 1, 0, 1}));
  EXPECT_EQ(handle.get(5), 4u);
  previous.assign(4, 99);
  EXPECT_EQ(handle.erase(Values{5, 5, 7, 6}, {previous, found}), 2u);
  EXPECT_EQ(previous, (Values{4, 99, 99, 3}));
  EXPECT_EQ(found, (std::vector<uint8_t>{1, 0, 0, 1}));
}

TEST_F(FixedTableTest, PutIfAbsentLeavesWhatIsThere) {
  put({1}, {10});
  std::vector<uint8_t> stored(4, 9);
  const auto result = handle.put_if_absent(Values{1, 2, 2, 3}, Values{11, 20, 21, 30}, stored);
  EXPECT_EQ(result.status, Status::ok);
  EXPECT_EQ(result.done, 4u);
  EXPECT_EQ(stored, (std::vector<uint8_t>{0, 1, 0, 1}));
  EXPECT_EQ(handle.get(1), 10u);
  EXPECT_EQ(handle.get(2), 20u);
}

TEST_F(FixedTableTest, CompareAndSwapComparesValues) {
  for (const uint64_t key : {uint64_t{1}, unmix(0, seed)}) {
    uint64_t current = 77;
    EXPECT_EQ(handle.compare_and_swap(key, 0, 1, &current), Status::not_found);
    EXPECT_EQ(current, 77u);
    put({key}, {10});
    EXPECT_EQ(handle.compare_and_swap(key, 9, 11, &current), Status::condition_failed);
    EXPECT_EQ(current, 10u);
    EXPECT_EQ(handle.compare_and_swap(key, 10, 10), Status::ok);
    EXPECT_EQ(handle.compare_and_swap(key, 10, 0, &current), Status::ok);
    EXPECT_EQ(current, 10u);
    EXPECT_EQ(handle.get(key), 0u);
  }
}

TEST_F(FixedTableTest, SpansOfDifferentLengthsAndUnknownKindsAreRefused) {
  const Values two = {1, 2};
  Values one = {1};
  std::vector<uint8_t> flags(2);
  std::vector<uint8_t> flag(1);
  Values out(2);
  EXPECT_THROW(FixedTable({.index = static_cast<FixedIndexKind>(9)}), std::invalid_argument);
  EXPECT_THROW(handle.get(two, one, flags), std::invalid_argument);
  EXPECT_THROW(handle.get(two, out, flag), std::invalid_argument);
  EXPECT_THROW(handle.put(two, one), std::invalid_argument);
  EXPECT_THROW(handle.put(two, out, {one, flag}), std::invalid_argument);
  EXPECT_THROW(handle.put(two, out, {out, {}}), std::invalid_argument);
  EXPECT_THROW(handle.put_if_absent(two, one, flags), std::invalid_argument);
  EXPECT_THROW(handle.put_if_absent(two, out, flag), std::invalid_argument);
  EXPECT_THROW(handle.erase(two, {one, flags}), std::invalid_argument);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(handle.get(Values{}, {}, {}), 0u);
  EXPECT_EQ(handle.put(Values{}, {}).status, Status::ok);
}

TEST_F(FixedTableTest, RandomOperationsEqualAMapWhileItGrows) {
  std::mt19937_64 random(1);
  std::unordered_map<uint64_t, uint64_t> model;
  const uint64_t rounds = poison::sanitized ? 60 : 600;
  for (uint64_t round = 0; round < rounds; ++round) {
    Values keys(random() % 4000);
    Values values(keys.size());
    for (uint64_t& key : keys) key = random() % 400'000 * 0x100'0001;
    for (uint64_t& value : values) value = random();
    if (round % 4 == 3) {
      uint64_t present = 0;
      for (const uint64_t key : keys) present += model.erase(key);
      EXPECT_EQ(handle.erase(keys), present);
    } else {
      put(keys, values);
      for (size_t i = 0; i < keys.size(); ++i) model[keys[i]] = values[i];
    }
    Values out(keys.size());
    std::vector<uint8_t> found(keys.size());
    handle.get(keys, out, found);
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto at = model.find(keys[i]);
      ASSERT_EQ(found[i] != 0, at != model.end());
      if (at != model.end()) {
        ASSERT_EQ(out[i], at->second);
      }
    }
  }
  EXPECT_EQ(table.size(), model.size());
  std::unordered_map<uint64_t, uint64_t> scanned;
  uint64_t cursor = 0;
  do {
    uint64_t visited = 0;
    cursor = handle.scan(cursor, 100, [&](uint64_t key, uint64_t value) {
      scanned[key] = value;
      ++visited;
    });
    EXPECT_TRUE(cursor == 0 || visited >= 100);
  } while (cursor != 0);
  EXPECT_EQ(scanned, model);
}

TEST_F(FixedTableTest, ScanShowsTheKeyOfTheEmptyMark) {
  put({unmix(0, seed), 3}, {8, 9});
  std::unordered_map<uint64_t, uint64_t> scanned;
  EXPECT_EQ(handle.scan(0, 1'000'000, [&](uint64_t key, uint64_t value) { scanned[key] = value; }),
            0u);
  EXPECT_EQ(scanned, (std::unordered_map<uint64_t, uint64_t>{{unmix(0, seed), 8}, {3, 9}}));
}

TEST_F(FixedTableTest, AtTheCapNewKeysAreRefusedAndNothingIsLost) {
  FixedTable capped({.maxmemory = 4 << 20, .hash_seed = seed});
  FixedHandle mine(capped);
  uint64_t next = 0;
  std::vector<uint64_t> stored;
  uint64_t refused = 0;
  while (refused < 100) {
    const Values keys = {next, next + 1, next + 2};
    const FixedHandle::Result result = mine.put(keys, keys);
    for (uint64_t i = 0; i < result.done; ++i) stored.push_back(keys[i]);
    EXPECT_EQ(result.status, result.done == 3 ? Status::ok : Status::out_of_memory);
    refused += result.done != 3;
    next += 3;
    ASSERT_LE(capped.memory(), 4u << 20);
    ASSERT_LT(next, 1'000'000u);
  }
  EXPECT_GT(stored.size(), 100'000u);
  EXPECT_EQ(capped.size(), stored.size());
  for (const uint64_t key : stored) ASSERT_EQ(mine.get(key), key);
  // Present keys can be written still, and erased ones make room.
  EXPECT_EQ(mine.put(stored, stored).status, Status::ok);
  EXPECT_EQ(mine.erase(stored), stored.size());
  EXPECT_EQ(mine.put(Values{1, 2, 3}, Values{1, 2, 3}).status, Status::ok);
}

TEST_F(FixedTableTest, ThreadsCountTogether) {
  constexpr uint64_t rounds = poison::sanitized ? 3'000 : 30'000;
  put({1}, {0});
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      FixedHandle mine(table);
      for (uint64_t i = 0; i < rounds; ++i) {
        uint64_t seen = *mine.get(1);
        while (mine.compare_and_swap(1, seen, seen + 1, &seen) != Status::ok) {
        }
        const uint64_t key = 1000 + i * 3 + thread;
        mine.put(Values{key}, Values{key});
        EXPECT_EQ(mine.get(key), key);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(handle.get(1), 3 * rounds);
  EXPECT_EQ(table.size(), 3 * rounds + 1);
}

TEST_F(FixedTableTest, HasRoomFor256Handles) {
  std::vector<std::unique_ptr<FixedHandle>> handles;
  for (int i = 0; i < 255; ++i) handles.push_back(std::make_unique<FixedHandle>(table));
  EXPECT_THROW(FixedHandle another(table), std::runtime_error);
  handles.pop_back();
  EXPECT_NO_THROW(FixedHandle another(table));
}

TEST_F(FixedTableTest, MixedRequestsRunInOrder) {
  FixedTable roomy({.maxmemory = 0, .expected_entries = 100'000, .hash_seed = seed});
  EXPECT_GT(roomy.memory(), table.memory());
  FixedHandle mine(roomy);
  const std::vector<TableOp> ops = {TableOp::add,           TableOp::add,
                                    TableOp::put_if_absent, TableOp::compare_and_swap,
                                    TableOp::get,           TableOp::erase};
  const size_t copies = 500;  // more rows than one part has
  Values keys, values, expected;
  std::vector<TableOp> all;
  for (size_t i = 0; i < copies; ++i) {
    for (const TableOp op : ops) {
      keys.push_back(i);
      values.push_back(op == TableOp::compare_and_swap ? 50 : 10);
      expected.push_back(20);
      all.push_back(op);
    }
  }
  Values out(keys.size(), 99);
  std::vector<uint8_t> found(keys.size(), 9);
  TableRequests requests;
  requests.rows = keys.size();
  requests.ops = all.data();
  requests.keys = keys.data();
  requests.values = values.data();
  requests.expected = expected.data();
  requests.values_out = out.data();
  requests.found = found.data();
  mine.run(requests);
  const Values want = {99, 10, 20, 20, 50, 50};
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(out[i], want[i % want.size()]);
    ASSERT_EQ(found[i], i % want.size() != 0);
  }
  EXPECT_EQ(roomy.size(), 0u);
  requests.found = nullptr;
  EXPECT_THROW(mine.run(requests), std::invalid_argument);
}

TEST_F(FixedTableTest, MemoryIsTold) {
  const uint64_t before = table.memory();
  EXPECT_GT(before, 0u);
  Values keys(200'000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  put(keys, keys);
  EXPECT_GT(table.memory(), keys.size() * 16);
  EXPECT_LT(table.memory(), keys.size() * 40);
}

}  // namespace
}  // namespace isotherm::fixed_table_test
