// What the GPU's benchmarks check their replies with (bench/cuda): a model that replays calls
// agrees with the table on the fake device, and finds each way in which a table may be wrong.
#include "cuda/replayed_table.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "cuda/foreseen_replies.h"
#include "cuda/stamped_words.h"
#include "fake_device/fake_device_fixture.h"
#include "gpu/table/fixed_device_table.h"

namespace isotherm::replayed_table_test {
namespace {

using bench::ReplayedTable;
using bench::scramble;

constexpr uint64_t ranks = 300;

// A batch as columns on the host: some keys of the ranks, some never put, few of them often.
struct Columns {
  explicit Columns(uint64_t seed, uint64_t rows = 600)
      : values_out(rows, ReplayedTable::untouched), found(rows, ReplayedTable::untouched_byte) {
    std::mt19937_64 random(seed);
    for (uint64_t row = 0; row < rows; ++row) {
      const uint64_t rank = random() % (random() % 2 == 0 ? 8 : ranks + 20);
      keys.push_back(scramble(rank + 1));
      values.push_back(random());
      const uint64_t kind = random() % 10;
      ops.push_back(kind < 3 ? TableOp::put : kind == 3 ? TableOp::erase : TableOp::get);
    }
  }
  TableRequests requests() {
    TableRequests requests;
    requests.rows = keys.size();
    requests.ops = ops.data();
    requests.keys = keys.data();
    requests.values = values.data();
    requests.values_out = values_out.data();
    requests.found = found.data();
    return requests;
  }
  // A row of this kind that hit, or that missed.
  uint64_t row_of(TableOp op, bool hit) const {
    for (uint64_t row = 0; row < keys.size(); ++row) {
      if (ops[row] == op && (found[row] == 1) == hit) return row;
    }
    ADD_FAILURE() << "no such row";
    return 0;
  }

  std::vector<uint64_t> keys, values, values_out;
  std::vector<uint8_t> found;
  std::vector<TableOp> ops;
};

class ReplayedTableTest : public FakeDeviceFixture {
 protected:
  ReplayedTableTest() : table_(device, options()) {}
  ~ReplayedTableTest() override { EXPECT_EQ(device.take_errors(), std::vector<std::string>{}); }

  static FixedDeviceOptions options() {
    FixedDeviceOptions options;
    options.seed = 1;
    options.max_part_rows = 256;
    return options;
  }

  void fill() {
    std::vector<uint64_t> keys, values;
    for (uint64_t rank = 0; rank < ranks; ++rank) {
      keys.push_back(scramble(rank + 1));
      values.push_back(keys.back() * 3);
    }
    TableRequests puts;
    puts.rows = ranks;
    puts.op = TableOp::put;
    puts.keys = upload(keys);
    puts.values = upload(values);
    table_.run(puts, stream);
    ASSERT_TRUE(device.synchronize(stream));
  }
  // What the table replies to the rows, less one that is kept from it.
  void run(Columns& columns, uint64_t lost_row = ~uint64_t{0}) {
    std::vector<TableOp> ops = columns.ops;
    if (lost_row < ops.size()) ops[lost_row] = TableOp::get;
    TableRequests requests = columns.requests();
    requests.ops = upload(ops);
    requests.keys = upload(columns.keys);
    requests.values = upload(columns.values);
    uint64_t* values_out = upload(columns.values_out);
    uint8_t* found = upload(columns.found);
    requests.values_out = values_out;
    requests.found = found;
    table_.run(requests, stream);
    columns.values_out = download(values_out, columns.keys.size());
    columns.found = download(found, columns.keys.size());
  }

  FixedDeviceTable<FakeDevice> table_;
};

TEST_F(ReplayedTableTest, AgreesWithATable) {
  fill();
  for (const uint32_t threads : {1, 3}) {
    ReplayedTable model(ranks, threads);
    model.fill();
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      Columns columns(seed);
      run(columns);
      EXPECT_EQ(model.replay(columns.requests()), 0u) << "seed " << seed;
    }
    EXPECT_EQ(model.entries(), table_.stats().entries);
    Columns erased(4);
    erased.ops.assign(erased.ops.size(), TableOp::erase);
    run(erased);
    EXPECT_EQ(model.replay(erased.requests()), 0u);
    EXPECT_EQ(model.entries(), table_.stats().entries);
    fill();
    for (uint64_t rank = ranks; rank < ranks + 20; ++rank) {
      // fill() of the model knows no other keys.
      Columns others(5, 1);
      others.keys = {scramble(rank + 1)};
      others.ops = {TableOp::erase};
      run(others);
    }
  }
}

// A write that the table loses shows in a later reply for its key, or when all keys are read.
TEST_F(ReplayedTableTest, FindsALostWrite) {
  fill();
  Columns columns(7);
  const uint64_t lost = [&] {
    for (uint64_t row = columns.keys.size(); row-- > 0;) {
      if (columns.ops[row] == TableOp::put) return row;
    }
    return uint64_t{0};
  }();
  run(columns, lost);
  ReplayedTable model(ranks, 1);
  model.fill();
  uint64_t wrong = model.replay(columns.requests());
  Columns all(0, ranks + 20);
  for (uint64_t rank = 0; rank < all.keys.size(); ++rank) all.keys[rank] = scramble(rank + 1);
  all.ops.assign(all.ops.size(), TableOp::get);
  run(all);
  wrong += model.replay(all.requests());
  EXPECT_NE(wrong, 0u);
}

// Rows of one key in another order than the batch's.
TEST_F(ReplayedTableTest, FindsAnOrderThatIsNotKept) {
  fill();
  Columns columns(8);
  const std::vector<uint64_t> values = columns.values;
  std::reverse(columns.values.begin(), columns.values.end());
  run(columns);
  columns.values = values;
  ReplayedTable model(ranks, 1);
  model.fill();
  EXPECT_NE(model.replay(columns.requests()), 0u);
}

TEST_F(ReplayedTableTest, FindsEachWrongReply) {
  fill();
  Columns right(9);
  run(right);
  const auto wrong_after = [&](const std::function<void(Columns&)>& spoil) {
    Columns columns = right;
    spoil(columns);
    ReplayedTable model(ranks, 2);
    model.fill();
    return model.replay(columns.requests());
  };
  EXPECT_EQ(wrong_after([](Columns&) {}), 0u);
  for (const TableOp op : {TableOp::get, TableOp::put, TableOp::erase}) {
    const uint64_t hit = right.row_of(op, true);
    const uint64_t miss = right.row_of(op, false);
    EXPECT_EQ(wrong_after([&](Columns& to) { ++to.values_out[hit]; }), 1u);
    EXPECT_EQ(wrong_after([&](Columns& to) { to.found[hit] = 0; }), 1u);
    EXPECT_EQ(wrong_after([&](Columns& to) { to.found[hit] = ReplayedTable::untouched_byte; }), 1u);
    EXPECT_EQ(wrong_after([&](Columns& to) { to.found[hit] = reply_retry; }), 1u);
    EXPECT_EQ(wrong_after([&](Columns& to) { to.found[miss] = 1; }), 1u);
    EXPECT_EQ(wrong_after([&](Columns& to) { to.values_out[miss] = 0; }), 1u);
  }
}

// Of tables whose puts and erases are answered without a value.
TEST_F(ReplayedTableTest, LooksAtValuesOfGetsAloneWhereAsked) {
  fill();
  Columns columns(9);
  run(columns);
  columns.values_out[columns.row_of(TableOp::put, true)] = 0;
  columns.values_out[columns.row_of(TableOp::erase, true)] = 0;
  const auto wrong = [&] {
    ReplayedTable model(ranks, 1);
    model.fill();
    return model.replay(columns.requests(), ReplayedTable::Values::gets);
  };
  EXPECT_EQ(wrong(), 0u);
  columns.values_out[columns.row_of(TableOp::get, true)] = 0;
  EXPECT_EQ(wrong(), 1u);
}

TEST_F(ReplayedTableTest, TakesNoOtherOperations) {
  Columns columns(1, 1);
  columns.ops = {TableOp::add};
  columns.found = {0};
  ReplayedTable model(ranks, 1);
  EXPECT_EQ(model.replay(columns.requests()), 1u);
}

// Large batches are shared among threads, by rank.
TEST(ReplayedTableThreads, EachRowIsReplayedOnce) {
  constexpr uint64_t many = 100'000;
  ReplayedTable model(many, 3);
  model.fill();
  EXPECT_EQ(model.entries(), many);
  std::vector<uint64_t> keys, values;
  for (uint64_t rank = 0; rank < many; ++rank) keys.push_back(scramble(rank + 1));
  for (const uint64_t key : keys) values.push_back(key * 3);
  std::vector<uint8_t> found(many, 1);
  TableRequests requests;
  requests.rows = many;
  requests.keys = keys.data();
  requests.values_out = values.data();
  requests.found = found.data();
  EXPECT_EQ(model.replay(requests), 0u);
  found[77'777] = 0;
  EXPECT_EQ(model.replay(requests), 1u);
  requests.op = TableOp::erase;
  requests.found = nullptr;
  EXPECT_EQ(model.replay(requests), 0u);
  EXPECT_EQ(model.entries(), 0u);
}

TEST(StampedWords, AreOfOneKeyAndOneStamp) {
  std::vector<uint64_t> words;
  for (uint64_t number = 0; number < 8; ++number)
    words.push_back(bench::stamped_word(5, 77, number));
  EXPECT_EQ(words[0], 77u);
  EXPECT_TRUE(bench::are_stamped(5, words.data(), words.size()));
  EXPECT_FALSE(bench::are_stamped(6, words.data(), words.size()));
  for (uint64_t& word : words) {
    ++word;
    EXPECT_FALSE(bench::are_stamped(5, words.data(), words.size()));
    --word;
  }
}

// What a client of a queue expects follows from what it submitted, and other replies are counted.
TEST(ForeseenRepliesTest, FollowFromWhatWasSubmitted) {
  bench::ForeseenReplies foreseen({10, 11, 12, 13});
  bench::ForeseenReplies::Columns columns(4);
  const auto wrong = [&](std::vector<uint64_t> values, std::vector<uint8_t> found) {
    foreseen.foresee(TableOp::get, 0, 4, columns);
    return bench::ForeseenReplies::wrong(columns, 4, values.data(), found.data());
  };
  EXPECT_EQ(wrong({30, 33, 36, 39}, {1, 1, 1, 1}), 0u);
  EXPECT_EQ(wrong({30, 33, 36, 38}, {1, 1, 1, 1}), 1u);
  EXPECT_EQ(wrong({30, 33, 36, 39}, {1, 1, 0, bench::ForeseenReplies::unanswered}), 2u);
  foreseen.foresee(TableOp::erase, 1, 2, columns);
  EXPECT_EQ(columns.expected[0], 33u);
  EXPECT_EQ(wrong({30, 33, 36, 39}, {1, 1, 1, 1}), 0u);  // not yet taken
  foreseen.apply(TableOp::erase, 1, 2, columns);
  EXPECT_EQ(wrong({30, 0, 0, 39}, {1, 0, 0, 1}), 0u);
  EXPECT_EQ(wrong({30, 33, 36, 39}, {1, 1, 1, 1}), 2u);
  foreseen.foresee(TableOp::put, 2, 2, columns);
  EXPECT_EQ(columns.expected_found[0], 0);
  EXPECT_NE(columns.put[1], 39u);
  const std::vector<uint64_t> put = columns.put;
  foreseen.apply(TableOp::put, 2, 2, columns);
  EXPECT_EQ(wrong({30, 0, put[0], put[1]}, {1, 0, 1, 1}), 0u);
  EXPECT_EQ(wrong({30, 0, put[0], 39}, {1, 0, 1, 1}), 1u);
}

TEST(Ranks, AKeySaysItsRank) {
  for (uint64_t rank = 0; rank < 1000; ++rank) {
    EXPECT_EQ(bench::key_rank(scramble(rank * rank * 7919 + 1)), rank * rank * 7919);
  }
}

}  // namespace
}  // namespace isotherm::replayed_table_test
