// Rows of host memory that go for others: which, how many, and that nothing is refused.
#include "engine/row_eviction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/tile.h"
#include "device_checks/test_size.h"
#include "index/fixed_index.h"
#include "isotherm/row_table.h"
#include "items/epoch.h"
#include "items/memory_budget.h"
#include "items/pages.h"
#include "items/poison.h"
#include "items/row_head.h"
#include "items/row_pool.h"

namespace isotherm {
namespace row_eviction_test {

constexpr uint64_t cap = RowTableOptions::least_evicting;
constexpr uint64_t row_bytes = 1024;
constexpr uint64_t words = row_bytes / sizeof(uint64_t);

RowTableOptions options(RowScores scores) {
  RowTableOptions its;
  its.row_bytes = row_bytes;
  its.maxmemory = cap;
  its.scores = scores;
  its.evict = true;
  its.hash_seed = 7;
  return its;
}

// Calls on keys, whose rows are full of the key and the number of a writer.
struct Rows {
  explicit Rows(RowTable& table) : handle(table) {}

  void put(const std::vector<uint64_t>& keys, std::vector<uint64_t> scores = {},
           uint64_t writer = 0) {
    std::vector<uint64_t> rows(keys.size() * words);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = keys[i / words] * 16 + writer;
    std::vector<uint8_t> found(keys.size(), 9);
    RowRequests puts;
    puts.op = TableOp::put;
    puts.keys = keys;
    puts.rows = rows.data();
    puts.found = found.data();
    puts.scores = scores.empty() ? nullptr : scores.data();
    EXPECT_EQ(handle.run(puts).refused, 0U);
    EXPECT_EQ(std::count(found.begin(), found.end(), reply_retry), 0);
  }
  // Which are there; their rows are checked.
  std::vector<uint8_t> get(const std::vector<uint64_t>& keys) {
    std::vector<uint64_t> rows(keys.size() * words);
    std::vector<uint8_t> found(keys.size(), 9);
    handle.get(keys, rows.data(), found);
    for (size_t i = 0; i < keys.size(); ++i) {
      const uint64_t* const row = &rows[i * words];
      EXPECT_EQ(std::count(row, row + words, row[0]), static_cast<int64_t>(words));
      EXPECT_EQ(row[0] / 16, found[i] != 0 ? keys[i] : 0);
    }
    return found;
  }
  std::set<uint64_t> keys() {
    std::set<uint64_t> all;
    uint64_t cursor = 0;
    do {
      cursor = handle.scan(cursor, 1000, [&](uint64_t key, const void* row) {
        EXPECT_EQ(*static_cast<const uint64_t*>(row) / 16, key);
        EXPECT_TRUE(all.insert(key).second);
      });
    } while (cursor != 0);
    return all;
  }

  RowHandle handle;
};

std::vector<uint64_t> numbers(uint64_t from, uint64_t count) {
  std::vector<uint64_t> keys(count);
  for (uint64_t i = 0; i < count; ++i) keys[i] = from + i;
  return keys;
}

// Keys with scores that lie far apart, in no order: after each call all that are gone have lower
// scores than all that stayed from before it.
TEST(RowEviction, TheLowestGivenScoresGo) {
  RowTable table(options(RowScores::given));
  Rows rows(table);
  const auto score_of = [](uint64_t key) -> uint64_t { return key * 0x9E3779B97F4A7C15ULL; };
  constexpr uint64_t at_once = poison::sanitized ? 2000 : 1000;
  std::set<uint64_t> before;
  uint64_t gone = 0;
  for (uint64_t from = 1; from < 26'000; from += at_once) {
    const std::vector<uint64_t> keys = numbers(from, at_once);
    std::vector<uint64_t> scores;
    for (const uint64_t key : keys) scores.push_back(score_of(key));
    rows.put(keys, scores);
    const std::set<uint64_t> there = rows.keys();
    uint64_t highest = 0, lowest = ~uint64_t{0};
    for (const uint64_t key : before) {
      if (there.count(key) != 0) {
        lowest = std::min(lowest, score_of(key));
      } else {
        highest = std::max(highest, score_of(key));
        ++gone;
      }
    }
    ASSERT_LE(highest, lowest);
    for (const uint64_t key : keys) gone += there.count(key) == 0;
    ASSERT_EQ(there.size(), table.size());
    ASSERT_EQ(gone, table.evictions());
    ASSERT_LE(table.memory(), cap);
    before = there;
  }
  EXPECT_GT(gone, 8'000U);
  EXPECT_GT(table.size() * row_bytes, cap / 2);
}

// Keys that are used stay, by whatever call; the longest unused go.
TEST(RowEviction, TheLongestUnusedGo) {
  RowTable table(options(RowScores::use));
  Rows rows(table);
  const std::vector<uint64_t> read = numbers(0, 500), inserted = numbers(500, 500);
  rows.put(read);
  rows.put(inserted);
  std::vector<uint64_t> given(inserted.size() * words, 1);
  for (uint64_t from = 1000; from < 30'000; from += 1000) {
    rows.put(numbers(from, 1000));
    const std::vector<uint8_t> found = rows.get(read);
    ASSERT_EQ(std::count(found.begin(), found.end(), 1), 500);
    RowRequests puts;
    puts.op = TableOp::put_if_absent;
    puts.keys = inserted;
    puts.rows = given.data();
    const RowHandle::Result result = rows.handle.run(puts);
    ASSERT_EQ(result.found, 500U);
    ASSERT_EQ(result.refused, 0U);
    const std::vector<uint8_t> last = rows.get(numbers(from, 1000));
    ASSERT_EQ(std::count(last.begin(), last.end(), 1), 1000);
  }
  EXPECT_EQ(table.evictions() + table.size(), 30'000U);
  EXPECT_LE(table.memory(), cap);
  const std::vector<uint8_t> first = rows.get(numbers(1000, 1000));
  EXPECT_EQ(std::count(first.begin(), first.end(), 1), 0);
}

TEST(RowEviction, ScoresAreKeptAndAnswered) {
  RowTable table(options(RowScores::given));
  Rows rows(table);
  rows.put({1, 2, 3}, {10, ~uint64_t{0}, 0});
  rows.put({1, 4});             // keeps the score, and 0
  rows.put({2, 2}, {5, 6}, 1);  // the last stays
  const std::vector<uint64_t> keys = {1, 2, 3, 4, 5};
  std::vector<uint64_t> scores(5, 77);
  std::vector<uint8_t> found(5);
  RowRequests gets;
  gets.keys = keys;
  gets.found = found.data();
  gets.scores = scores.data();
  EXPECT_EQ(rows.handle.run(gets).found, 4U);
  EXPECT_EQ(scores, (std::vector<uint64_t>{10, 6, 0, 0, 77}));
  rows.put({2}, {~uint64_t{0}});
  rows.handle.run(gets);
  EXPECT_EQ(scores[1], ~uint64_t{0} - 1);
  rows.handle.erase(std::vector<uint64_t>{1, 2});
  EXPECT_EQ(rows.handle.run(gets).found, 2U);
}

TEST(RowEviction, OptionsAreChecked) {
  RowTableOptions its = options(RowScores::none);
  EXPECT_THROW(RowTable{its}, std::invalid_argument);
  its = options(RowScores::use);
  its.maxmemory = cap - 1;
  EXPECT_THROW(RowTable{its}, std::invalid_argument);
  its.maxmemory = cap;
  its.expected_rows = 1 << 24;  // more than there is room for
  RowTable many(its);
  Rows(many).put(numbers(0, 3000));
  EXPECT_LE(many.memory(), cap);
  its = options(RowScores::none);
  its.evict = false;
  RowTable without(its);
  Rows rows(without);
  uint64_t score = 0;
  RowRequests puts;
  puts.op = TableOp::put;
  puts.keys = {&score, 1};
  std::vector<uint64_t> row(words);
  puts.rows = row.data();
  puts.scores = &score;
  EXPECT_THROW(rows.handle.run(puts), std::invalid_argument);
}

// A call finds no memory while replaced rows await a reader; before it lets rows go, another has
// found them free.
TEST(RowEviction, NothingGoesWhereReplacedRowsHaveBecomeFree) {
  MemoryBudget budget(cap);
  Pages pages;
  EpochDomain epochs;
  FixedIndex index(pages, budget, epochs, 7, false, 0);
  RowPool pool(pages, budget, epochs, row_bytes, true);
  RowEviction eviction(index, pool, epochs);
  const TakenSlot reader(epochs), writer(epochs);
  std::vector<char*> rows(cap / row_bytes);
  rows.resize(pool.take(rows));
  ASSERT_GT(rows.size(), 1000U);
  char* const there = rows.back();
  rows.pop_back();
  RowHead::of(there).set_key(1);
  RowHead::of(there).set_score(1);
  auto insert = [&](bool, uint64_t) -> Decision {
    return {Action::store, reinterpret_cast<uint64_t>(there)};
  };
  ASSERT_EQ(index.update<TilePlain>(index.hash(1), insert).change, Change::inserted);
  std::vector<char*> wanted(1);
  {
    const EpochGuard guard(epochs, *reader.slot);
    pool.give({}, rows);
    EXPECT_EQ(pool.take(wanted), 0U);
    EXPECT_TRUE(eviction.run(1, *writer.slot));
  }
  EXPECT_EQ(pool.take(wanted), 1U);
  EXPECT_TRUE(eviction.run(1, *writer.slot));
  EXPECT_EQ(eviction.evictions(), 0U);
  EXPECT_EQ(index.count(), 1U);
}

// Many threads at the cap: nobody is refused, no row is another key's or a mixture.
TEST(RowEviction, ThreadsShareATableAtItsCap) {
  RowTable table(options(RowScores::use));
  constexpr uint64_t threads = 3;
  const uint64_t calls = test_size(20, 2000);
  std::vector<std::thread> crew;
  for (uint64_t t = 0; t < threads; ++t) {
    crew.emplace_back([&table, t, calls] {
      Rows rows(table);
      for (uint64_t call = 0; call < calls; ++call) {
        const uint64_t from = (call * 7 + t * 3) % 40 * 500;
        rows.put(numbers(from, 700), {}, t);
        rows.get(numbers(from + 400, 700));
        if (call % 5 == t) rows.handle.erase(numbers(from, 50));
      }
    });
  }
  for (std::thread& thread : crew) thread.join();
  Rows rows(table);
  EXPECT_EQ(rows.keys().size(), table.size());
  EXPECT_GT(table.evictions(), 0U);
  EXPECT_LE(table.memory(), cap);
}

}  // namespace row_eviction_test
}  // namespace isotherm
