// Which gets share a kernel, and what becomes of them where it fails; on the fake device.
#include "gpu/items/direct_launches.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fake_device/fake_device.h"
#include "gpu/items/direct_get_columns.h"

namespace isotherm::direct_launches_test {
namespace {

constexpr uint64_t device_bytes = uint64_t{1} << 26;

// Answers at once that no key is there; stands still in the first launch if it is told to.
class Launches final : public DirectLaunches<FakeDevice> {
 public:
  explicit Launches(FakeDevice& device) : DirectLaunches(device) {}

  void close() { closed_ = true; }
  void open() {
    const std::lock_guard guard(mutex_);
    closed_ = false;
    changed_.notify_all();
  }
  void await_first() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !pieces_.empty(); });
  }
  void fail_next() { fails_ = true; }
  std::vector<uint32_t> pieces() {
    const std::lock_guard guard(mutex_);
    return pieces_;
  }
  bool lost() const { return lost_; }

 private:
  std::shared_ptr<const void> answer(FakeDevice::Stream, const DirectAsked& asked) override {
    std::unique_lock lock(mutex_);
    pieces_.push_back(asked.pieces);
    changed_.notify_all();
    changed_.wait(lock, [this] { return !closed_; });
    if (std::exchange(fails_, false)) throw DeviceError("a launch fails");
    for (uint32_t i = 0; i < asked.pieces; ++i) {
      const DirectPiece& its = asked.piece[i];
      for (uint32_t row = 0; row < its.rows; ++row) {
        const DirectHead head;
        std::memcpy(its.delivery.replies + uint64_t{row} * its.delivery.stride, &head, sizeof head);
      }
      std::atomic_ref(*its.ended).store(its.number, std::memory_order_release);
    }
    return nullptr;
  }
  void lose() override { lost_ = true; }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  bool fails_ = false;
  std::atomic<bool> lost_{false};
  std::vector<uint32_t> pieces_;  // of each launch
};

// One key in columns of its own.
class Asker {
 public:
  explicit Asker(Launches& launches) : gets_(launches, {4, 64, 32}) {
    gets_.columns().keys[0] = 'k';
    gets_.columns().key_ends[1] = 1;
  }
  void start() { gets_.start(1); }
  void wait() { gets_.wait(); }
  // What became of it.
  std::string outcome() {
    try {
      wait();
    } catch (const DeviceError& error) {
      return error.what();
    }
    DirectHead head;
    std::memcpy(&head, gets_.columns().replies, sizeof head);
    return head.bytes == DirectHead::absent ? "absent" : "?";
  }

 private:
  DirectGetColumns<FakeDevice> gets_;
};

class DirectLaunchesTest : public ::testing::Test {
 protected:
  ~DirectLaunchesTest() override {
    askers_.clear();
    EXPECT_EQ(device_.take_errors(), std::vector<std::string>{});
  }
  // `count` gets that are started while the first one is launched.
  void start_together(uint32_t count, bool first_fails) {
    for (uint32_t i = 0; i <= count; ++i) askers_.emplace_back(launches_);
    launches_.close();
    if (first_fails) launches_.fail_next();
    std::thread first([this] { askers_[0].start(); });
    launches_.await_first();
    for (uint32_t i = 1; i <= count; ++i) askers_[i].start();
    launches_.open();
    first.join();
  }

  FakeDevice device_{1, device_bytes};
  Launches launches_{device_};
  std::deque<Asker> askers_;
};

TEST_F(DirectLaunchesTest, WhatComesDuringALaunchSharesTheNextOne) {
  start_together(5, false);
  for (Asker& asker : askers_) EXPECT_EQ(asker.outcome(), "absent");
  EXPECT_EQ(launches_.pieces(), (std::vector<uint32_t>{1, 5}));
}

TEST_F(DirectLaunchesTest, MoreThanAKernelTakesAreSeveral) {
  start_together(DirectAsked::most_pieces + 3, false);
  for (Asker& asker : askers_) EXPECT_EQ(asker.outcome(), "absent");
  EXPECT_EQ(launches_.pieces(), (std::vector<uint32_t>{1, DirectAsked::most_pieces, 3}));
}

// The last one to be started waits first: it launches those before it, too.
TEST_F(DirectLaunchesTest, WhoWaitsLaunchesForOthers) {
  start_together(4, false);
  for (size_t i = askers_.size(); i-- > 0;) EXPECT_EQ(askers_[i].outcome(), "absent");
  EXPECT_EQ(launches_.pieces(), (std::vector<uint32_t>{1, 4}));
}

TEST_F(DirectLaunchesTest, ALaunchThatFailsFailsItsOwnCallsAndNoOthers) {
  start_together(3, true);
  EXPECT_EQ(askers_[0].outcome(), "a launch fails");
  for (size_t i = 1; i < askers_.size(); ++i) EXPECT_EQ(askers_[i].outcome(), "absent");
  launches_.fail_next();
  askers_[1].start();
  EXPECT_EQ(askers_[1].outcome(), "a launch fails");
  askers_[1].start();
  EXPECT_EQ(askers_[1].outcome(), "absent");
}

TEST_F(DirectLaunchesTest, NothingIsAskedForNoRows) {
  DirectGetColumns<FakeDevice> gets(launches_, {4, 64, 32});
  gets.start(0);
  gets.wait();
  EXPECT_TRUE(launches_.pieces().empty());
}

// Columns that go while their gets wait are waited for, though nobody asks for their replies.
TEST_F(DirectLaunchesTest, ColumnsMayGoBeforeTheirReplies) {
  start_together(4, false);
  askers_.clear();
  EXPECT_EQ(launches_.pieces(), (std::vector<uint32_t>{1, 4}));
}

}  // namespace
}  // namespace isotherm::direct_launches_test
