// Tiles on the fake device: lookups and updates of the index, run by many tiles at once on one
// chain.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "fake_device/fake_device_fixture.h"
#include "gpu/kernel/warp_find.h"
#include "index/probe.h"
#include "items/poison.h"

namespace isotherm::fake_tile_test {
namespace {

// Overflow lines by a counter; what lost a race is kept for the tile's next chain.
template <class Lane>
struct CountedLines {
  TileLanes<Lane> tile;
  Bucket* lines;
  uint32_t count;
  uint32_t* taken;
  Bucket* spare = nullptr;

  ISOTHERM_HOST_DEVICE Bucket* take() {
    if (spare != nullptr) {
      Bucket* line = spare;
      spare = nullptr;
      return line;
    }
    uint32_t at = 0;
    if (tile.leads()) at = Lane::atomic_add(taken, 1u);
    at = tile.share(at);
    return at < count ? lines + at : nullptr;
  }
  ISOTHERM_HOST_DEVICE void give(Bucket* line) {
    if (tile.leads()) {
      store_pair(&line->slot[0], {0, 0});
      store_pair(&line->slot[1], {0, 0});
    }
    spare = line;
  }
};

enum class Operation : uint32_t { find, upsert, erase, add };

struct Row {
  uint64_t hash = 0;
  uint64_t word = 0;
  Operation operation = Operation::find;
  Found previous = {};
  Change change = Change::none;
};

// A tile for each row, all in one chain.
struct WorkOff {
  using Shared = FindShared<FoundWord>;

  Bucket* home;
  Bucket* lines;
  uint32_t line_count;
  uint32_t* taken;
  Row* rows;
  uint32_t row_count;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const TileLanes<Lane> tile(lane);
    const uint32_t at = (lane.block() * lane.threads() + lane.thread()) / TileLanes<Lane>::lanes;
    Row row;
    if (at < row_count) row = rows[at];
    // The tiles of a warp look together.
    const bool finds = at < row_count && row.operation == Operation::find;
    Home where;
    if (finds && tile.leads()) where = {home, row.hash};
    const Found found = find_in_warp<2>(tile, *lane.template shared<Shared>(), where);
    if (finds && tile.leads()) rows[at].previous = found.found ? found : Found{};
    if (finds || at >= row_count) return;
    CountedLines<Lane> overflow{tile, lines, line_count, taken};
    const auto decide = [&](bool, uint64_t word) -> Decision {
      if (row.operation == Operation::erase) return {Action::erase, 0};
      const bool add = row.operation == Operation::add;
      return {Action::store, add ? word + row.word : row.word};
    };
    const Updated updated = update(tile, home, row.hash, overflow, decide);
    // All lanes have read the row, since all have taken part in the update.
    if (tile.leads()) {
      rows[at].previous = updated.previous;
      rows[at].change = updated.change;
    }
  }
};

// By the seed of the device.
class FakeTiles : public FakeDeviceFixture, public ::testing::WithParamInterface<uint64_t> {
 protected:
  static constexpr uint32_t line_count = 4096;
  static constexpr uint32_t threads = 64;

  FakeTiles() : FakeDeviceFixture(GetParam()) {
    home_ = zeros<Bucket>(1);
    lines_ = zeros<Bucket>(line_count);
    taken_ = zeros<uint32_t>(1);
  }

  // Sends the rows to the device and takes its replies.
  void work_off(std::vector<Row>& rows) {
    const auto count = static_cast<uint32_t>(rows.size());
    Row* at = upload(rows);
    const uint32_t blocks = (count * TileLanes<FakeLane>::lanes + threads - 1) / threads;
    run(blocks, threads, WorkOff{home_, lines_, line_count, taken_, at, count});
    rows = download(at, count);
  }
  std::vector<Row> all_of(const std::vector<uint64_t>& hashes, Operation operation, uint64_t word) {
    std::vector<Row> rows;
    for (const uint64_t hash : hashes) rows.push_back({hash, word + hash, operation});
    return rows;
  }

  Bucket* home_;
  Bucket* lines_;
  uint32_t* taken_;
};

// Distinct hashes of one line, which share their top bit.
std::vector<uint64_t> some_hashes(uint32_t count, std::mt19937_64& random) {
  std::vector<uint64_t> hashes;
  for (uint32_t i = 1; i <= count; ++i) hashes.push_back((random() >> 33 << 32) | i);
  return hashes;
}

TEST_P(FakeTiles, InsertIntoOneChainAtOnce) {
  constexpr uint32_t count = poison::sanitized ? 80 : 200;
  std::mt19937_64 random(1);
  const std::vector<uint64_t> hashes = some_hashes(count, random);
  std::vector<Row> rows = all_of(hashes, Operation::upsert, 5);
  work_off(rows);
  for (const Row& row : rows) EXPECT_EQ(row.change, Change::inserted);
  rows = all_of(hashes, Operation::find, 0);
  work_off(rows);
  for (const Row& row : rows) {
    EXPECT_TRUE(row.previous.found);
    EXPECT_EQ(row.previous.word, row.hash + 5);
  }
  EXPECT_GT(download(taken_, 1)[0], count / Bucket::slots - 1);
}

// Rows of a batch have distinct hashes, so their order is free.
TEST_P(FakeTiles, AnswerAsAMapDoes) {
  std::mt19937_64 random(2);
  std::map<uint64_t, uint64_t> model;
  std::vector<uint64_t> hashes = some_hashes(120, random);
  constexpr int rounds = poison::sanitized ? 4 : 20;
  for (int round = 0; round < rounds; ++round) {
    std::shuffle(hashes.begin(), hashes.end(), random);
    std::vector<Row> rows;
    for (const uint64_t hash : hashes) {
      rows.push_back({hash, random(), static_cast<Operation>(random() % 3)});
    }
    work_off(rows);
    for (const Row& row : rows) {
      const auto at = model.find(row.hash);
      const bool found = at != model.end();
      ASSERT_EQ(row.previous.found, found);
      ASSERT_EQ(row.previous.word, found ? at->second : 0);
      if (row.operation == Operation::erase && found) model.erase(at);
      if (row.operation == Operation::upsert) model[row.hash] = row.word;
    }
  }
}

TEST_P(FakeTiles, ReadModifyWriteLosesNothing) {
  std::mt19937_64 random(3);
  std::vector<Row> rows = all_of(some_hashes(20, random), Operation::upsert, 0);
  work_off(rows);
  constexpr uint64_t additions = poison::sanitized ? 100 : 300;
  rows.assign(additions, {rows[11].hash, 1, Operation::add});
  work_off(rows);
  std::vector<bool> seen(additions, false);
  for (const Row& row : rows) {
    const uint64_t step = row.previous.word - row.hash;
    ASSERT_LT(step, additions);
    EXPECT_FALSE(seen[step]);
    seen[step] = true;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FakeTiles, ::testing::Range<uint64_t>(1, 5));

}  // namespace
}  // namespace isotherm::fake_tile_test
