// When rounds of a store begin, by the policies and a clock that the test turns: who waits for
// whom, and who must not be kept waiting.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "batch/round_policy.h"
#include "executor/device/rounds.h"
#include "fake_device/fake_root_table.h"

namespace isotherm::round_policies_test {
namespace {

constexpr uint64_t memory = uint64_t{1} << 26;

// Lookups of keys that are not there.
class Lookups final : public RoundWork {
 public:
  // Without a sender: background work.
  Lookups(uint32_t rows, RoundSender* sender) : rows_(rows), sender_(sender) {}

  uint32_t rows() const override { return rows_; }
  // Rounds ask this last when work joins.
  bool writes() const override {
    joined_.store(true, std::memory_order_release);
    return false;
  }
  bool writes(uint32_t /*row*/) const override { return false; }
  bool changes_in_place(uint32_t /*row*/) const override { return false; }
  RoundSender* sender() const override { return sender_; }
  void write_keys(HostExecutor& /*executor*/, uint64_t* keys) override {
    begun_.store(true, std::memory_order_release);
    for (uint32_t row = 0; row < rows_; ++row) keys[row] = row + 1;
  }
  void answer(const RoundShare& /*share*/, const RootColumns& found, const uint32_t* /*numbers*/,
              uint32_t count) override {
    for (uint32_t row = 0; row < count; ++row) answered_ += found.found[row] == 0;
  }

  bool joined() const { return joined_.load(std::memory_order_acquire); }
  bool begun() const { return begun_.load(std::memory_order_acquire); }
  uint32_t answered() const { return answered_; }

 private:
  const uint32_t rows_;
  RoundSender* const sender_;
  mutable std::atomic<bool> joined_{false};
  std::atomic<bool> begun_{false};
  uint32_t answered_ = 0;
};

template <class Condition>
void await(Condition&& condition) {
  while (!condition()) std::this_thread::yield();
}

class RoundsTest : public ::testing::Test {
 protected:
  static constexpr int64_t wait_ns = 100'000;
  static constexpr uint32_t size = 20;

  static RoundOptions fixed() { return {Scheduling::fixed_size, size, wait_ns}; }
  static RoundOptions periodic() { return {Scheduling::periodic, 0, wait_ns}; }

  // One thread's part in the rounds.
  class Worker {
   public:
    // With work of a sender of its own, or of this one.
    explicit Worker(RoundsTest& test, RoundSender* sender = nullptr)
        : test_(test),
          executor_(test.store_),
          participant_(executor_),
          sender_(sender != nullptr ? *sender : own_sender_) {}
    ~Worker() { end(); }

    // Has the rounds answer so many rows, by a thread of its own.
    Lookups& begin(uint32_t rows, bool urgent = false) {
      end();
      work_ = std::make_unique<Lookups>(rows, urgent ? nullptr : &sender_);
      thread_ = std::thread([this] { done_ = test_.rounds_->run(participant_, *work_); });
      return *work_;
    }
    // As begin, and it is in a round.
    Lookups& join(uint32_t rows) {
      Lookups& work = begin(rows);
      await([&] { return work.joined(); });
      return work;
    }
    // As join, and it leads a round that waits for more.
    Lookups& lead(uint32_t rows) {
      const uint64_t before = test_.clock_.waits();
      Lookups& work = begin(rows);
      await([&] { return test_.clock_.waits() > before; });
      return work;
    }
    RoundSender& sender() { return sender_; }
    // Whether it was answered.
    bool end() {
      if (thread_.joinable()) thread_.join();
      return done_;
    }

   private:
    RoundsTest& test_;
    HostExecutor executor_;
    Rounds::Participant participant_;
    RoundSender own_sender_;
    RoundSender& sender_;
    std::unique_ptr<Lookups> work_;
    std::thread thread_;
    bool done_ = false;
  };

  ~RoundsTest() override {
    workers_.clear();
    rounds_.reset();
    store_.epochs.release(slot_);
  }

  // Rounds with so many workers that are known.
  void make(const RoundOptions& options, size_t workers) {
    rounds_ = std::make_unique<Rounds>(
        std::make_unique<RootTable>(store_, fake_root_tiers_maker(device_)(1)),
        [this](uint64_t, const std::string&) { ++takeovers_; }, make_round_policy(options), clock_);
    for (size_t i = 0; i < workers; ++i) {
      workers_.push_back(std::make_unique<Worker>(*this));
      rounds_->hurry();
      workers_.back()->begin(1);
      EXPECT_TRUE(workers_.back()->end());
      rounds_->calm();
    }
    before_ = rounds_->stats();
  }
  Worker& worker(size_t number) { return *workers_[number]; }
  uint64_t began() const { return rounds_->stats().rounds - before_.rounds; }
  uint64_t timeouts() const { return rounds_->stats().timeouts - before_.timeouts; }
  // Turns the clock, to where whoever waits has to go on waiting.
  void advance_in_vain(int64_t ns) {
    const uint64_t before = clock_.waits();
    clock_.advance(ns);
    await([&] { return clock_.waits() > before; });
  }

  HostStore store_{{}, 1};
  EpochDomain::Slot* slot_ = store_.epochs.acquire();
  FakeDevice device_{3, memory};
  ManualWaitClock clock_{1'000'000};
  std::unique_ptr<Rounds> rounds_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<int> takeovers_{0};
  RoundStats before_;
};

TEST(RoundPolicy, DefaultsAreFilledIn) {
  EXPECT_FALSE(make_round_policy({})->gathers());
  const RoundOptions fixed = completed({Scheduling::fixed_size});
  EXPECT_EQ(fixed.rows, 512u);
  EXPECT_EQ(fixed.wait_ns, 100'000);
  EXPECT_EQ(completed({Scheduling::periodic}).rows, RoundOptions::most_rows);
  EXPECT_TRUE(make_round_policy({Scheduling::periodic})->gathers());
}

TEST(RoundPolicy, RefusesWhatCannotWork) {
  const auto of = [](Scheduling policy, uint64_t rows, int64_t wait_ns) {
    return make_round_policy({policy, rows, wait_ns});
  };
  EXPECT_THROW(of(Scheduling::greedy, 1, 0), std::invalid_argument);
  EXPECT_THROW(of(Scheduling::greedy, 0, 1), std::invalid_argument);
  EXPECT_THROW(of(Scheduling::adaptive, 0, 1), std::invalid_argument);
  EXPECT_THROW(of(Scheduling{77}, 0, 0), std::invalid_argument);
  for (const Scheduling policy : {Scheduling::fixed_size, Scheduling::periodic}) {
    EXPECT_THROW(of(policy, RoundOptions::most_rows + 1, 0), std::invalid_argument);
    EXPECT_THROW(of(policy, 0, -1), std::invalid_argument);
    EXPECT_THROW(of(policy, 0, 1'000'000'001), std::invalid_argument);
    EXPECT_NO_THROW(of(policy, RoundOptions::most_rows, 1'000'000'000));
  }
}

TEST_F(RoundsTest, GreedyOnesWaitForNobody) {
  make({}, 3);
  const Lookups& work = worker(0).begin(5);
  EXPECT_TRUE(worker(0).end());
  EXPECT_EQ(work.answered(), 5u);
  EXPECT_EQ(clock_.waits(), 0u);
}

TEST_F(RoundsTest, OneOfFixedSizeBeginsWhenItHasItsRows) {
  make(fixed(), 4);
  const Lookups& first = worker(0).lead(10);
  worker(1).join(9);
  EXPECT_FALSE(first.begun());
  worker(2).begin(1);
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(worker(i).end());
  EXPECT_EQ(first.answered(), 10u);
  EXPECT_EQ(began(), 1u);
  EXPECT_EQ(timeouts(), 0u);
}

TEST_F(RoundsTest, OneOfFixedSizeBeginsWithoutItsRowsWhenItsFirstParticipantHasWaitedLongEnough) {
  make(fixed(), 3);
  const Lookups& first = worker(0).lead(10);
  advance_in_vain(wait_ns / 2);
  const Lookups& second = worker(1).join(5);
  advance_in_vain(wait_ns / 2 - 1);
  EXPECT_FALSE(first.begun());
  EXPECT_FALSE(second.begun());
  clock_.advance(1);
  EXPECT_TRUE(worker(0).end());
  EXPECT_TRUE(worker(1).end());
  EXPECT_EQ(second.answered(), 5u);
  EXPECT_EQ(began(), 1u);
  EXPECT_EQ(timeouts(), 1u);
}

TEST_F(RoundsTest, OneWithRowsEnoughDoesNotWait) {
  make(fixed(), 3);
  worker(0).begin(size);
  EXPECT_TRUE(worker(0).end());
  EXPECT_EQ(clock_.waits(), 0u);
}

TEST_F(RoundsTest, NobodyWaitsWhereAllSendersAreIn) {
  make(fixed(), 2);
  worker(0).lead(1);
  worker(1).begin(1);
  EXPECT_TRUE(worker(0).end());
  EXPECT_TRUE(worker(1).end());
  EXPECT_EQ(began(), 1u);
}

TEST_F(RoundsTest, ASenderThatEndsIsNotWaitedFor) {
  make(fixed(), 2);
  worker(0).lead(1);
  workers_.pop_back();
  EXPECT_TRUE(worker(0).end());
  worker(0).begin(1);
  EXPECT_TRUE(worker(0).end());
  EXPECT_EQ(timeouts(), 0u);
}

// As a crew's threads do, who have work of one network thread.
TEST_F(RoundsTest, SendersAreWaitedForAndNotTheThreadsThatHaveTheirWork) {
  make(fixed(), 2);
  RoundSender& one = worker(0).sender();
  workers_.push_back(std::make_unique<Worker>(*this, &one));
  const Lookups& first = worker(0).lead(1);
  worker(2).join(1);
  EXPECT_FALSE(first.begun()) << "the second sender is not in";
  worker(1).begin(1);
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(worker(i).end());
  EXPECT_EQ(began(), 1u);
  // And one alone waits for nobody, whoever has its work.
  workers_.erase(workers_.begin() + 1);
  for (size_t i = 0; i < 2; ++i) {
    worker(i).begin(1);
    EXPECT_TRUE(worker(i).end());
  }
  EXPECT_EQ(timeouts(), 0u);
}

TEST_F(RoundsTest, APeriodicOneBeginsAtTheEndOfItsCycle) {
  make(periodic(), 3);
  const Lookups& first = worker(0).lead(size);
  advance_in_vain(wait_ns / 4);
  const Lookups& second = worker(1).join(size);
  advance_in_vain(wait_ns * 3 / 4 - 1);
  EXPECT_FALSE(first.begun());
  clock_.advance(1);
  EXPECT_TRUE(worker(0).end());
  EXPECT_TRUE(worker(1).end());
  EXPECT_EQ(second.answered(), size);
  EXPECT_EQ(began(), 1u);
  EXPECT_EQ(timeouts(), 1u);
  // The next one, too, though some cycles have passed without any.
  clock_.advance(wait_ns * 5 / 2);
  const Lookups& late = worker(0).lead(1);
  advance_in_vain(wait_ns / 2 - 1);
  EXPECT_FALSE(late.begun());
  clock_.advance(1);
  EXPECT_TRUE(worker(0).end());
  EXPECT_EQ(timeouts(), 2u);
}

TEST_F(RoundsTest, APeriodicOneBeginsBeforeItsCycleIsOverWithRowsEnough) {
  RoundOptions options = periodic();
  options.rows = size;
  make(options, 3);
  worker(0).lead(1);
  worker(1).begin(size - 1);
  EXPECT_TRUE(worker(0).end());
  EXPECT_TRUE(worker(1).end());
  EXPECT_EQ(timeouts(), 0u);
}

TEST_F(RoundsTest, WhoWantsTheTableAloneIsNotKeptWaiting) {
  make(fixed(), 2);
  const Lookups& first = worker(0).lead(1);
  bool used = false;
  EXPECT_TRUE(rounds_->alone([&](RootTable&) { used = true; }));
  EXPECT_TRUE(used);
  EXPECT_FALSE(first.begun());
  clock_.advance(wait_ns);
  EXPECT_TRUE(worker(0).end());
}

TEST_F(RoundsTest, WhoTakesKeysIsNotKeptWaiting) {
  make(fixed(), 3);
  worker(0).lead(1);
  rounds_->hurry();
  EXPECT_TRUE(worker(0).end());
  const uint64_t waits = clock_.waits();
  worker(1).begin(1);
  EXPECT_TRUE(worker(1).end());
  EXPECT_EQ(clock_.waits(), waits) << "the others are kept out";
  rounds_->calm();
  worker(1).lead(1);
  clock_.advance(wait_ns);
  EXPECT_TRUE(worker(1).end());
}

TEST_F(RoundsTest, BackgroundWorkWaitsForNobodyAndNobodyWaitsWithIt) {
  make(fixed(), 3);
  worker(0).begin(1, true);
  EXPECT_TRUE(worker(0).end());
  EXPECT_EQ(clock_.waits(), 0u);
  worker(0).lead(1);
  worker(1).begin(1, true);
  EXPECT_TRUE(worker(0).end());
  EXPECT_TRUE(worker(1).end());
  EXPECT_EQ(began(), 2u);
  EXPECT_EQ(timeouts(), 0u);
}

TEST_F(RoundsTest, WhoOnlyDoesBackgroundWorkIsNotMissed) {
  make(fixed(), 1);
  workers_.push_back(std::make_unique<Worker>(*this));
  worker(1).begin(1, true);
  EXPECT_TRUE(worker(1).end());
  worker(0).begin(1);
  EXPECT_TRUE(worker(0).end());
  EXPECT_EQ(clock_.waits(), 0u);
}

TEST_F(RoundsTest, ALostDeviceEndsTheWait) {
  make(fixed(), 2);
  const Lookups& first = worker(0).lead(1);
  device_.lose();
  EXPECT_FALSE(rounds_->alone([](RootTable& table) { table.clear(); }));
  EXPECT_FALSE(worker(0).end());
  EXPECT_FALSE(first.begun());
  EXPECT_EQ(takeovers_, 1);
  worker(1).begin(1);
  EXPECT_FALSE(worker(1).end());
}

// On a lost device, so that nothing looks millions of keys up.
TEST_F(RoundsTest, WorkThatFindsNoRoomInARoundEndsItsWait) {
  RoundOptions options = fixed();
  options.rows = Rounds::most_rows;
  make(options, 3);
  worker(0).lead(Rounds::most_rows - 1);
  device_.lose();
  worker(1).begin(2);
  EXPECT_FALSE(worker(0).end());
  EXPECT_FALSE(worker(1).end());
  EXPECT_EQ(timeouts(), 0u);
}

TEST_F(RoundsTest, ThreadsThatComeAndGoAreAllAnsweredThoughTheClockStandsStill) {
  constexpr uint32_t threads = 3;
  make({Scheduling::fixed_size, Rounds::most_rows, wait_ns}, 0);
  std::atomic<uint64_t> answered{0};
  std::vector<std::thread> running;
  for (uint32_t thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      HostExecutor executor(store_);
      Rounds::Participant participant(executor);
      RoundSender sender;
      for (uint32_t i = 0; i < 20 * (thread + 1); ++i) {
        Lookups work(1 + i % 7, i % 11 == 10 ? nullptr : &sender);
        if (rounds_->run(participant, work)) ++answered;
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  EXPECT_EQ(answered, 20u * (1 + 2 + 3));
  EXPECT_EQ(rounds_->stats().timeouts, 0u);
}

}  // namespace
}  // namespace isotherm::round_policies_test
