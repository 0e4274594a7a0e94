// A store's index that goes from a device to the host and back, as the adaptive policy says: under
// a load that flaps sides change seldom, by a clock that the test turns, and no change is lost.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "batch/round_policy.h"
#include "executor/device/rounds.h"
#include "executor/device/step_round.h"
#include "fake_device/fake_root_table.h"
#include "items/poison.h"

namespace isotherm::store_sides_test {
namespace {

constexpr int64_t ms = 1'000'000;
constexpr uint64_t threshold = 10;

// Keys that are looked up, and then have these roots; location::none: they stay as they are.
class RootWork final : public RoundWork {
 public:
  struct Row {
    uint64_t key;
    Location root;
  };

  RootWork(RoundSender& sender, std::vector<Row> rows) : sender_(sender), rows_(std::move(rows)) {}

  uint32_t rows() const override { return static_cast<uint32_t>(rows_.size()); }
  bool writes() const override { return true; }
  bool writes(uint32_t /*row*/) const override { return true; }
  bool changes_in_place(uint32_t /*row*/) const override { return false; }
  RoundSender* sender() const override { return &sender_; }
  void write_keys(HostExecutor& /*executor*/, uint64_t* keys) override {
    for (const Row& row : rows_) *keys++ = row.key;
  }
  void answer(const RoundShare& share, const RootColumns& found, const uint32_t* numbers,
              uint32_t count) override {
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t row = numbers != nullptr ? numbers[i] : i;
      const Location there = found.found[row] == 1 ? found.roots[row] : location::none;
      seen_[rows_[row].key] = share.overlay->root(rows_[row].key, there);
      if (rows_[row].root == location::none) continue;
      share.overlay->set(rows_[row].key, there, rows_[row].root);
    }
  }
  const std::map<uint64_t, Location>& seen() const { return seen_; }

 private:
  RoundSender& sender_;
  const std::vector<Row> rows_;
  std::map<uint64_t, Location> seen_;
};

class StoreSidesTest : public ::testing::Test {
 protected:
  ~StoreSidesTest() override {
    sender_.reset();
    rounds_.reset();
    store_.epochs.release(slot_);
  }

  void run(RootWork& work) {
    const EpochGuard guard(store_.epochs, *slot_);
    ASSERT_TRUE(rounds_->run(participant_, work));
  }
  Location root(uint64_t key) {
    RootWork work(*sender_, {{key, location::none}});
    run(work);
    return work.seen().at(key);
  }
  // A step of the moves, if there are any and no round runs.
  bool tend() {
    const EpochGuard guard(store_.epochs, *slot_);
    return rounds_->tends() && rounds_->tend();
  }
  uint64_t switches() const { return rounds_->stats().switches; }

  HostStore store_{{}, 1};
  EpochDomain::Slot* slot_ = store_.epochs.acquire();
  FakeDevice device_{3, uint64_t{1} << 26};
  ManualWaitClock clock_{1};
  std::unique_ptr<Rounds> rounds_ = std::make_unique<Rounds>(
      std::make_unique<RootTable>(store_, fake_root_tiers_maker(device_)(1)),
      [](uint64_t, const std::string&) {}, make_round_policy({Scheduling::adaptive, threshold}),
      clock_);
  std::unique_ptr<RoundSender> sender_ = std::make_unique<RoundSender>();
  HostExecutor executor_{store_};
  Rounds::Participant participant_{executor_};
};

TEST_F(StoreSidesTest, ALoadThatFlapsChangesSidesThreeTimesASecondAtMost) {
  std::mt19937_64 random(1);
  std::map<uint64_t, Location> model;
  std::deque<int64_t> changed;  // when sides did, within the last second
  uint64_t before = 0;
  constexpr int rounds = poison::sanitized ? 120 : 600;
  for (int i = 0; i < rounds && !HasFatalFailure(); ++i) {
    // Few rows and many in turn, at first; later long spans of each.
    const bool many = i < rounds / 2 ? i % 2 == 0 : i / (rounds / 12) % 2 == 0;
    std::vector<RootWork::Row> rows;
    const uint64_t first = random() % 400;
    for (uint64_t row = 0; row < (many ? 4 * threshold : 2); ++row) {
      rows.push_back({first + row, random() % 3 == 0 ? location::none : random() % 1000 + 1});
    }
    RootWork work(*sender_, rows);
    run(work);
    for (const auto& [key, seen] : work.seen()) {
      const auto at = model.find(key);
      ASSERT_EQ(seen, at != model.end() ? at->second : location::none) << key;
    }
    for (const auto& [key, now] : rows) {
      if (now != location::none) model[key] = now;
    }
    if (switches() != before) {
      ASSERT_EQ(switches(), before + 1);
      before = switches();
      changed.push_back(clock_.now_ns());
    }
    while (!changed.empty() && changed.front() <= clock_.now_ns() - 1000 * ms) changed.pop_front();
    EXPECT_LE(changed.size(), 3u);
    for (int steps = i % 3; steps != 0; --steps) tend();
    clock_.advance(12'000 / rounds * ms);
  }
  EXPECT_GE(switches(), 8u);
}

TEST_F(StoreSidesTest, TheSideThatAnswersHasTheIndexOnceItHasMoved) {
  std::vector<RootWork::Row> rows;
  for (uint64_t key = 1; key <= 500; ++key) rows.push_back({key, key});
  RootWork many(*sender_, rows);
  run(many);
  const auto on_host = [&] {
    uint64_t entries = 0;
    rounds_->alone([&](RootTable& table) { entries = table.stats().host_entries; });
    return entries;
  };
  EXPECT_EQ(on_host(), 0u);
  EXPECT_EQ(switches(), 1u);
  clock_.advance(2000 * ms);
  EXPECT_EQ(root(77), 77u);
  while (tend()) {
  }
  EXPECT_EQ(on_host(), 500u);
  EXPECT_EQ(root(78), 78u);
  run(many);
  while (tend()) {
  }
  EXPECT_EQ(on_host(), 0u);
  EXPECT_EQ(root(79), 79u);
}

// What a round has changed, but not made known to the device yet, goes with no bin: who moves bins
// comes when it has ended.
TEST_F(StoreSidesTest, BinsMoveWhenNoRoundRuns) {
  RootWork put(*sender_, {{7, 1}});
  run(put);
  {
    const EpochGuard guard(store_.epochs, *slot_);
    StepRound round(*rounds_, executor_);
    RootWork change(*sender_, {{7, 2}});
    ASSERT_TRUE(round.take_table(false));
    round.add(change);
    while (round.go_on(false) != StepRound::Came::answered) {
    }
    EXPECT_EQ(change.seen().at(7), 1u);
    for (int i = 0; i < 10; ++i) rounds_->tend();
    EXPECT_TRUE(rounds_->tends());
    while (round.go_on(true) != StepRound::Came::ended) {
    }
  }
  while (tend()) {
  }
  EXPECT_EQ(root(7), 2u);
}

}  // namespace
}  // namespace isotherm::store_sides_test
