#include "isotherm/row_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <new>
#include <random>
#include <stdexcept>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "items/poison.h"

namespace isotherm::row_table_test {
namespace {

using Keys = std::vector<uint64_t>;
using Floats = std::vector<float>;

constexpr uint64_t seed = 12'345;
constexpr size_t width = 3;  // floats of a row: 12 bytes, which no word holds

// A row of equal numbers for each.
Floats rows_of_each(const Floats& numbers) {
  Floats rows;
  for (const float number : numbers) rows.insert(rows.end(), width, number);
  return rows;
}

class RowTableTest : public ::testing::Test {
 protected:
  static RowTableOptions options(uint64_t maxmemory = 0) {
    return {.row_bytes = width * sizeof(float),
            .maxmemory = maxmemory,
            .expected_rows = 0,
            .hash_seed = seed};
  }

  // Runs one operation; `before` gets the rows before, -1 where there was none.
  RowHandle::Result run(TableOp op, const Keys& keys, const Floats& rows,
                        const Floats& expected = {}) {
    before.assign(keys.size() * width, -1);
    found.assign(keys.size(), 9);
    RowRequests requests;
    requests.op = op;
    requests.keys = keys;
    requests.rows = rows.data();
    requests.expected = expected.data();
    requests.sum = add_elements<float>;
    requests.rows_out = before.data();
    requests.found = found.data();
    return handle.run(requests);
  }
  // The first number of each row, -1 where there is none.
  Floats get(const Keys& keys) {
    Floats out(keys.size() * width, -1);
    std::vector<uint8_t> hits(keys.size());
    handle.get(keys, out.data(), hits);
    Floats firsts;
    for (size_t i = 0; i < keys.size(); ++i) {
      EXPECT_EQ(hits[i] != 0, out[i * width] != -1);
      EXPECT_EQ(out[i * width], out[i * width + width - 1]);
      firsts.push_back(out[i * width]);
    }
    return firsts;
  }

  RowTable table{options()};
  RowHandle handle{table};
  Floats before;
  std::vector<uint8_t> found;
};

TEST_F(RowTableTest, EveryOperationDoesWhatItsNameSaysInOrder) {
  const Keys keys = {0, ~uint64_t{0}, unmix(0, seed), 0};
  EXPECT_EQ(handle.put(keys, rows_of_each({1, 2, 3, 4}).data()).found, 1u);
  EXPECT_EQ(get({0, ~uint64_t{0}, unmix(0, seed), 5}), (Floats{4, 2, 3, -1}));
  EXPECT_EQ(table.size(), 3u);

  run(TableOp::put_if_absent, {0, 5, 5}, rows_of_each({9, 10, 11}));
  EXPECT_EQ(found, (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(before, (Floats{4, 4, 4, -1, -1, -1, 10, 10, 10}));
  EXPECT_EQ(get({0, 5}), (Floats{4, 10}));

  run(TableOp::add, {5, 6, 5}, rows_of_each({1, 7, 2}));
  EXPECT_EQ(before, (Floats{10, 10, 10, -1, -1, -1, 11, 11, 11}));
  EXPECT_EQ(get({5, 6}), (Floats{13, 7}));

  run(TableOp::compare_and_swap, {5, 6, 8, 5}, rows_of_each({20, 21, 22, 23}),
      rows_of_each({13, 8, 0, 20}));
  EXPECT_EQ(found, (std::vector<uint8_t>{1, 1, 0, 1}));
  EXPECT_EQ(get({5, 6, 8}), (Floats{23, 7, -1}));

  EXPECT_EQ(run(TableOp::erase, {5, 5, 0, 77}, {}).found, 2u);
  EXPECT_EQ(before[0], 23);
  EXPECT_EQ(get({5, 0}), (Floats{-1, -1}));
  EXPECT_EQ(table.size(), 3u);
}

TEST_F(RowTableTest, WrongColumnsAreRefused) {
  EXPECT_THROW(RowTable({.row_bytes = 0}), std::invalid_argument);
  EXPECT_THROW(RowTable({.row_bytes = (1 << 20) + 1}), std::invalid_argument);
  EXPECT_THROW(RowTable({.row_bytes = 64, .scores = static_cast<RowScores>(9)}),
               std::invalid_argument);
  const Keys keys = {1};
  std::vector<uint8_t> none;
  EXPECT_THROW(handle.get(keys, before.data(), none), std::invalid_argument);
  EXPECT_THROW(handle.put(keys, nullptr), std::invalid_argument);
  RowRequests requests;
  requests.op = TableOp::add;
  requests.keys = keys;
  const Floats row(width);
  requests.rows = row.data();
  EXPECT_THROW(handle.run(requests), std::invalid_argument);
  for (const TableOp op : {TableOp::compare_and_swap, TableOp::put_if_present,
                           TableOp::put_if_version, TableOp::erase_if_version}) {
    requests.op = op;
    EXPECT_THROW(handle.run(requests), std::invalid_argument);
  }
  requests.keys = {};
  EXPECT_EQ(handle.run(requests).refused, 0u);
  EXPECT_EQ(table.size(), 0u);
}

TEST_F(RowTableTest, RandomOperationsEqualAMapWhileItGrows) {
  std::mt19937_64 random(1);
  std::unordered_map<uint64_t, float> model;
  const int rounds = poison::sanitized ? 40 : 300;
  for (int round = 0; round < rounds; ++round) {
    Keys keys(random() % 3000);
    Floats numbers(keys.size());
    for (uint64_t& key : keys) key = random() % 100'000 * 0x100'0001;
    for (float& number : numbers) number = static_cast<float>(random() % 1000);
    const auto op = std::array{TableOp::put, TableOp::add, TableOp::put_if_absent,
                               TableOp::erase}[random() % 4];
    run(op, keys, rows_of_each(numbers));
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto at = model.find(keys[i]);
      ASSERT_EQ(found[i], at != model.end());
      ASSERT_EQ(before[i * width], at != model.end() ? at->second : -1);
      if (op == TableOp::put) model[keys[i]] = numbers[i];
      if (op == TableOp::add) model[keys[i]] += numbers[i];
      if (op == TableOp::put_if_absent) model.try_emplace(keys[i], numbers[i]);
      if (op == TableOp::erase) model.erase(keys[i]);
    }
  }
  EXPECT_EQ(table.size(), model.size());
  std::unordered_map<uint64_t, float> scanned;
  uint64_t cursor = 0;
  do {
    cursor = handle.scan(cursor, 1000, [&](uint64_t key, const void* row) {
      EXPECT_TRUE(scanned.try_emplace(key, *static_cast<const float*>(row)).second);
    });
  } while (cursor != 0);
  EXPECT_EQ(scanned, model);
}

// Rows that were replaced are used again: without that the same 1,000 rows written 200 times would
// take 200 times their memory.
TEST_F(RowTableTest, ReplacedAndErasedRowsAreUsedAgain) {
  Keys keys(1000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  RowTable wide({.row_bytes = 4096, .hash_seed = seed});
  RowHandle mine(wide);
  const std::vector<char> rows(keys.size() * 4096, 'x');
  mine.put(keys, rows.data());
  const uint64_t first = wide.memory();
  for (int i = 0; i < (poison::sanitized ? 40 : 200); ++i) {
    mine.put(keys, rows.data());
    if (i % 3 == 0) mine.erase(keys);
  }
  EXPECT_LT(wide.memory(), first + (16u << 20));
}

TEST_F(RowTableTest, AtTheCapNewKeysAreRefusedAndPresentOnesAreWritten) {
  RowTable capped(options(6 << 20));
  RowHandle mine(capped);
  Keys keys(1000);
  Floats rows(keys.size() * width, 1);
  uint64_t next = 0;
  RowHandle::Result result;
  while (result.refused == 0) {
    for (uint64_t& key : keys) key = next++;
    result = mine.put(keys, rows.data());
    ASSERT_LE(capped.memory(), 6u << 20);
    ASSERT_LT(next, 1'000'000u);
  }
  const uint64_t stored = capped.size();
  EXPECT_EQ(stored, next - result.refused);
  Keys present(5000);
  for (size_t i = 0; i < present.size(); ++i) present[i] = i;
  const Floats others(present.size() * width, 2);
  for (int i = 0; i < 3; ++i) {
    const RowHandle::Result again = mine.put(present, others.data());
    EXPECT_EQ(again.refused, 0u);
    EXPECT_EQ(again.found, present.size());
  }
  Floats out(present.size() * width);
  std::vector<uint8_t> hits(present.size());
  EXPECT_EQ(mine.get(present, out.data(), hits), present.size());
  EXPECT_EQ(out, others);
  EXPECT_EQ(mine.erase(present), present.size());
  const RowHandle::Result after = mine.put(keys, rows.data());
  EXPECT_EQ(after.refused, 0u);
}

TEST_F(RowTableTest, WithoutMemoryForOneRowThereIsNoTable) {
  EXPECT_THROW(RowTable({.row_bytes = 8, .maxmemory = 100'000}), std::bad_alloc);
  EXPECT_THROW(RowTable({.row_bytes = 8, .maxmemory = 2 << 20}), std::bad_alloc);
  RowTable smallest({.row_bytes = 1 << 20, .maxmemory = 3 << 20, .hash_seed = seed});
  RowHandle mine(smallest);
  EXPECT_EQ(mine.put(Keys{1}, std::vector<char>(1 << 20).data()).refused, 0u);
}

TEST_F(RowTableTest, FewLargeRowsFindRoomBelowASmallCap) {
  constexpr uint64_t wide = 1 << 20;
  RowTable few({.row_bytes = wide, .maxmemory = 24 << 20, .hash_seed = seed});
  RowHandle mine(few);
  const std::vector<char> row(wide, 'x');
  uint64_t stored = 0;
  while (mine.put(Keys{stored}, row.data()).refused == 0) ASSERT_LT(++stored, 24u);
  EXPECT_GE(stored, 12u);
  EXPECT_EQ(mine.put(Keys{0}, row.data()).found, 1u);
  EXPECT_EQ(few.size(), stored);
}

// Writers fill each row with one number; whoever saw memory that is used again too early, or a row
// while it is written, would find two.
TEST_F(RowTableTest, ReadersSeeWholeRowsAndSumsAreExact) {
  constexpr size_t wide = 64;
  constexpr uint64_t shared = 32;
  const int rounds = poison::sanitized ? 150 : 3000;
  RowTable numbers({.row_bytes = wide * sizeof(uint64_t), .hash_seed = seed});
  Keys keys(shared);
  for (uint64_t i = 0; i < shared; ++i) keys[i] = i;
  std::atomic<int> writing{2};
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 2; ++writer) {
    threads.emplace_back([&, writer] {
      RowHandle mine(numbers);
      std::vector<uint64_t> ones(shared * wide, 1);
      std::vector<uint64_t> mixed(shared * wide);
      const Keys other = [&] {
        Keys those = keys;
        for (uint64_t& key : those) key += 1000;
        return those;
      }();
      for (int round = 0; round < rounds; ++round) {
        RowRequests requests;
        requests.op = TableOp::add;
        requests.keys = keys;
        requests.rows = ones.data();
        requests.sum = add_elements<uint64_t>;
        mine.run(requests);
        std::fill(mixed.begin(), mixed.end(), static_cast<uint64_t>(round * 2 + writer));
        mine.put(other, mixed.data());
        if (round % 16 == writer) mine.erase(other);
      }
      --writing;
    });
  }
  threads.emplace_back([&] {
    RowHandle mine(numbers);
    Keys all = keys;
    for (const uint64_t key : keys) all.push_back(key + 1000);
    std::vector<uint64_t> out(all.size() * wide);
    std::vector<uint8_t> hits(all.size());
    while (writing != 0) {
      mine.get(all, out.data(), hits);
      for (size_t i = 0; i < all.size(); ++i) {
        if (hits[i] == 0) continue;
        const auto* const row = out.data() + i * wide;
        ASSERT_EQ(std::count(row, row + wide, row[0]), static_cast<ptrdiff_t>(wide));
      }
    }
  });
  for (std::thread& thread : threads) thread.join();
  RowHandle mine(numbers);
  std::vector<uint64_t> out(shared * wide);
  std::vector<uint8_t> hits(shared);
  EXPECT_EQ(mine.get(keys, out.data(), hits), shared);
  for (const uint64_t sum : out) ASSERT_EQ(sum, static_cast<uint64_t>(2 * rounds));
}

}  // namespace
}  // namespace isotherm::row_table_test
