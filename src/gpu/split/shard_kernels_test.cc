// The split of rows by shard, and the way back of their replies.
#include "gpu/split/shard_kernels.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "fake_device/fake_device_fixture.h"

namespace isotherm::shard_kernels_test {
namespace {

constexpr uint64_t seed = 5;
constexpr uint32_t blocks = 2;

class ShardKernels : public FakeDeviceFixture {
 protected:
  // Splits keys whose values are their rows.
  void split(const std::vector<uint64_t>& keys, uint32_t of_shards) {
    shards = of_shards;
    const auto rows = static_cast<uint32_t>(keys.size());
    const uint64_t room = rows + shards * ShardLayout::alignment;
    std::vector<uint64_t> numbers(rows);
    for (uint32_t row = 0; row < rows; ++row) numbers[row] = row;
    const RequestColumns columns{array<char>(room * RequestColumns::row_bytes), room};
    split_keys = columns.keys();
    split_values = columns.values();
    places = array<uint32_t>(rows);
    TableRequests from;
    from.rows = rows;
    from.keys = upload(keys);
    from.values = upload(numbers);
    from.found = array<uint8_t>(rows);
    ShardSplit<> split;
    split.route = {seed, shards};
    split.rows = rows;
    split.warps = blocks * ShardLayout::threads / 32;
    split.keys = from.keys;
    split.counts = array<uint32_t>(split.warps * shards);
    auto* learned = static_cast<ShardStretch*>(
        device.allocate_pinned(ShardLayout::most_shards * sizeof(ShardStretch)));
    run(blocks, ShardLayout::threads, CountShardsKernel<HashRoute>{split});
    run(1, BeginShardsKernel<HashRoute>::threads, BeginShardsKernel<HashRoute>{split, learned});
    run(blocks, ShardLayout::threads, SplitRowsKernel<HashRoute>{split, from, columns, places});
    stretches.assign(learned, learned + shards);
    device.release_pinned(learned, ShardLayout::most_shards * sizeof(ShardStretch));
  }

  uint32_t shards = 0;
  uint64_t* split_keys = nullptr;
  uint64_t* split_values = nullptr;
  uint32_t* places = nullptr;
  std::vector<ShardStretch> stretches;
};

std::vector<uint64_t> random_keys(uint32_t rows) {
  std::mt19937_64 random(rows);
  std::vector<uint64_t> keys(rows);
  for (uint64_t& key : keys) key = random();
  return keys;
}

TEST_F(ShardKernels, KeepTheOrderOfEachShard) {
  for (const uint32_t of_shards : {1u, 2u, 3u, 32u}) {
    for (const uint32_t rows : {1u, 31u, 32u, 33u, 1000u, 3000u}) {
      const std::vector<uint64_t> keys = random_keys(rows);
      split(keys, of_shards);
      const uint32_t end = stretches.back().begin + stretches.back().rows;
      const std::vector<uint64_t> got = download(split_keys, end);
      const std::vector<uint64_t> values = download(split_values, end);
      const std::vector<uint32_t> went = download(places, rows);
      std::vector<uint32_t> next(shards);
      for (uint32_t s = 0; s < shards; ++s) {
        EXPECT_EQ(stretches[s].begin % ShardLayout::alignment, 0u);
        next[s] = stretches[s].begin;
      }
      for (uint32_t row = 0; row < rows; ++row) {
        const uint32_t place = next[shard_of(keys[row], seed, shards)]++;
        ASSERT_EQ(went[row], place) << "row " << row << " of " << rows;
        EXPECT_EQ(got[place], keys[row]);
        EXPECT_EQ(values[place], row);
      }
      for (uint32_t s = 0; s < shards; ++s) {
        EXPECT_EQ(next[s], stretches[s].begin + stretches[s].rows) << "shard " << s;
      }
    }
  }
}

TEST_F(ShardKernels, BringRepliesToTheirRows) {
  constexpr uint32_t rows = 1000;
  split(random_keys(rows), 3);
  const uint32_t end = stretches.back().begin + stretches.back().rows;
  // The reply of a row is its number; every third one is a miss.
  const std::vector<uint64_t> values = download(split_values, end);
  std::vector<uint8_t> found(end);
  for (uint32_t i = 0; i < end; ++i) found[i] = values[i] % 3 != 0 ? 1 : 0;
  TableRequests to;
  to.rows = rows;
  to.values_out = upload(std::vector<uint64_t>(rows, 77777));
  to.found = upload(std::vector<uint8_t>(rows, 9));
  run(blocks, ShardLayout::threads, ReturnRepliesKernel{places, split_values, upload(found), to});
  const std::vector<uint64_t> got = download(to.values_out, rows);
  const std::vector<uint8_t> present = download(to.found, rows);
  for (uint32_t row = 0; row < rows; ++row) {
    EXPECT_EQ(present[row], row % 3 != 0 ? 1 : 0) << row;
    EXPECT_EQ(got[row], row % 3 != 0 ? row : 77777) << row;
  }
}

// All shards get about as many keys.
TEST_F(ShardKernels, ShardsAreOfEqualSize) {
  for (const uint32_t of_shards : {2u, 3u, 8u, 32u}) {
    std::vector<uint32_t> counts(of_shards);
    constexpr uint32_t keys = 32000;
    for (uint64_t key = 0; key < keys; ++key) ++counts.at(shard_of(key, seed, of_shards));
    for (const uint32_t count : counts) {
      EXPECT_GT(count, keys / of_shards * 8 / 10);
      EXPECT_LT(count, keys / of_shards * 12 / 10);
    }
  }
}

}  // namespace
}  // namespace isotherm::shard_kernels_test
