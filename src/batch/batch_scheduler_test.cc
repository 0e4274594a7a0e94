// BatchScheduler with paths whose batches end on command, and a policy that does as it is told.
#include "batch/batch_scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "gpu/platform/device_error.h"

namespace isotherm::batch_scheduler_test {
namespace {

// Batches take effect in the order sent, at once; their replies arrive when the test says so.
class ManualPath final : public BatchPath {
 public:
  explicit ManualPath(std::unordered_map<uint64_t, uint64_t>& entries, uint64_t rows = 1 << 20)
      : entries_(entries), rows_(rows) {}

  uint64_t most_rows() const override { return rows_; }
  void send(uint32_t channel, const TableRequests& requests, int64_t /*now*/) override {
    if (refuse) throw std::bad_alloc();
    if (fail) throw DeviceError("it is gone");
    std::string text;
    for (uint64_t row = 0; row < requests.rows; ++row) {
      const TableOp op = requests.ops != nullptr ? requests.ops[row] : requests.op;
      text += (is_write(op) ? 'w' : 'r') + std::to_string(requests.keys[row]) + " ";
      answer(op, requests, row);
    }
    batches.push_back(text);
    under_way_[channel] = true;
  }
  bool done(uint32_t channel, int64_t /*now*/) override {
    if (channel == fails_at_end) throw DeviceError("it is gone");
    if (hold) return false;
    EXPECT_EQ(under_way_.erase(channel), 1u) << "channel " << channel;
    return true;
  }

  std::vector<std::string> take_batches() { return std::exchange(batches, {}); }

  bool hold = false;    // batches do not end
  bool refuse = false;  // no memory
  bool fail = false;
  uint32_t fails_at_end = ~0u;  // the channel
  std::vector<std::string> batches;

 private:
  void answer(TableOp op, const TableRequests& requests, uint64_t row) {
    const auto at = entries_.find(requests.keys[row]);
    const KeyState before = at == entries_.end() ? KeyState{} : KeyState{at->second, 1};
    const uint64_t value = is_write(op) ? requests.values[row] : 0;
    const uint64_t expected = is_write(op) ? requests.expected[row] : 0;
    const KeyState after = apply(op, value, expected, before);
    if (after.found != 0) {
      entries_[requests.keys[row]] = after.value;
    } else {
      entries_.erase(requests.keys[row]);
    }
    requests.found[row] = before.found;
    if (before.found != 0) requests.values_out[row] = before.value;
  }

  std::unordered_map<uint64_t, uint64_t>& entries_;
  const uint64_t rows_;
  std::map<uint32_t, bool> under_way_;
};

class ToldPolicy final : public SchedulingPolicy {
 public:
  BatchDecision decide(const WaitingRows& now_waiting) override {
    waiting = now_waiting;
    ++asked;
    return std::exchange(next, {});
  }
  void report(const BatchReport& batch) override { reports.push_back(batch); }

  BatchDecision next;
  WaitingRows waiting;
  int asked = 0;
  std::vector<BatchReport> reports;
};

// A submission with room for everything.
struct Sent {
  explicit Sent(const std::vector<std::pair<TableOp, uint64_t>>& rows)
      : values_out(rows.size(), 999), found(rows.size(), 77) {
    for (const auto& [op, key] : rows) {
      ops.push_back(op);
      keys.push_back(key);
      values.push_back(key * 10);
    }
    requests.rows = rows.size();
    requests.ops = ops.data();
    requests.keys = keys.data();
    requests.values = values.data();
    requests.values_out = values_out.data();
    requests.found = found.data();
  }
  bool ready() const { return completion.ready(); }

  std::vector<TableOp> ops;
  std::vector<uint64_t> keys, values, values_out;
  std::vector<uint8_t> found;
  TableRequests requests;
  gpu::Completion completion;
};

constexpr uint64_t all = 1'000'000;
constexpr TableOp get = TableOp::get;
constexpr TableOp put = TableOp::put;
using Batches = std::vector<std::string>;

class BatchSchedulerTest : public ::testing::Test {
 protected:
  void start(uint64_t rows, uint32_t batches, bool with_express) {
    memory_.resize(BatchScheduler::memory_bytes(rows));
    BatchScheduler::Setup setup;
    setup.memory = memory_.data();
    setup.rows = rows;
    setup.batches = batches;
    setup.policy = &policy;
    setup.bulk = &bulk;
    setup.held = &held;
    if (with_express) setup.express = &express;
    scheduler.emplace(setup);
  }
  void SetUp() override { start(16, 3, false); }

  void take(Sent& sent) {
    Submission::begin(sent.completion, sent.requests);
    held += sent.requests.rows;
    scheduler->take(sent.completion, now);
  }
  bool step(uint64_t reads, uint64_t writes, BatchRoute route = BatchRoute::bulk) {
    policy.next = {reads, writes, route, BatchDecision::never};
    return scheduler->step(++now, false);
  }
  // Turns without new decisions until nothing moves.
  void settle() {
    while (step(0, 0)) {
    }
  }

  std::vector<char> memory_;
  std::unordered_map<uint64_t, uint64_t> entries;
  ManualPath bulk{entries};
  ManualPath express{entries, 2};
  ToldPolicy policy;
  std::atomic<uint64_t> held{0};
  std::optional<BatchScheduler> scheduler;
  int64_t now = 100;
};

TEST_F(BatchSchedulerTest, AnswersASubmissionWhenItsBatchHasEnded) {
  entries[1] = 10;
  Sent sent({{get, 1}, {get, 2}});
  take(sent);
  EXPECT_FALSE(step(0, 0));
  bulk.hold = true;
  EXPECT_TRUE(step(all, 0));
  EXPECT_FALSE(step(all, all));
  EXPECT_FALSE(sent.ready());
  bulk.hold = false;
  EXPECT_TRUE(step(0, 0));
  EXPECT_EQ(sent.completion.status(), gpu::QueueStatus::ok);
  EXPECT_EQ(sent.found, (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(sent.values_out, (std::vector<uint64_t>{10, 999}));
  EXPECT_TRUE(scheduler->idle());
}

TEST_F(BatchSchedulerTest, TellsThePolicyWhatWaits) {
  Sent first({{get, 1}, {put, 2}, {put, 3}}), second({{get, 4}});
  take(first);
  now += 50;
  take(second);
  step(0, 0);
  EXPECT_EQ(policy.waiting.reads, 2u);
  EXPECT_EQ(policy.waiting.writes, 2u);
  EXPECT_EQ(policy.waiting.read_age, 51);
  EXPECT_EQ(policy.waiting.write_age, 51);
  EXPECT_EQ(policy.waiting.arrived, 4u);
  bulk.hold = true;
  step(1, 0);
  step(0, 0);
  EXPECT_EQ(policy.waiting.reads, 1u);
  EXPECT_EQ(policy.waiting.read_age, 3);
  EXPECT_EQ(policy.waiting.on_device, 1u);
  bulk.hold = false;
  step(0, 0);
  ASSERT_EQ(policy.reports.size(), 1u);
  EXPECT_EQ(policy.reports[0].rows, 1u);
  EXPECT_EQ(policy.reports[0].took, 2);
  EXPECT_EQ(policy.reports[0].kind, BatchKind::reads);
  step(all, all);
  settle();
  EXPECT_TRUE(first.ready() && second.ready());
}

TEST_F(BatchSchedulerTest, ReadsPassWritesThatWaitOnOtherKeysOnly) {
  Sent writes({{put, 1}}), same({{get, 1}}), other({{get, 2}});
  take(writes);
  take(same);
  take(other);
  step(all, 0);
  EXPECT_EQ(bulk.take_batches(), Batches{"r2 "});
  step(0, 0);
  EXPECT_TRUE(other.ready());
  EXPECT_FALSE(same.ready() || writes.ready());
  step(0, all);
  settle();
  EXPECT_EQ(bulk.take_batches(), Batches{"w1 r1 "});
  EXPECT_EQ(same.found[0], 1);
  EXPECT_EQ(same.values_out[0], 10u);
  // Nothing waits any more, so a read of that key is a read again.
  Sent again({{get, 1}});
  take(again);
  step(all, 0);
  settle();
  EXPECT_EQ(bulk.take_batches(), Batches{"r1 "});
  EXPECT_EQ(again.values_out[0], 10u);
}

TEST_F(BatchSchedulerTest, RowsOfOneSubmissionKeepTheirOrderOnAKey) {
  Sent sent({{get, 1}, {put, 1}, {get, 1}, {get, 2}, {put, 2}, {get, 3}});
  take(sent);
  step(all, all);
  settle();
  EXPECT_EQ(bulk.take_batches(), (Batches{"r1 r2 r3 ", "w1 r1 w2 "}));
  EXPECT_EQ(sent.found, (std::vector<uint8_t>{0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(sent.values_out[2], 10u);
  EXPECT_TRUE(sent.ready());
}

TEST_F(BatchSchedulerTest, WritesGoAfterAllReadsThatWait) {
  Sent reads({{get, 1}, {get, 2}}), writes({{put, 1}});
  take(reads);
  take(writes);
  step(0, all);
  settle();
  EXPECT_EQ(bulk.take_batches(), (Batches{"r1 r2 ", "w1 "}));
  EXPECT_EQ(reads.found, (std::vector<uint8_t>{0, 0}));
}

TEST_F(BatchSchedulerTest, WritesGoAfterAllReadsAlsoWhereThereIsNoPlace) {
  start(16, 1, false);
  bulk.hold = true;
  Sent first({{get, 9}}), reads({{get, 1}}), writes({{put, 1}}), later({{get, 5}});
  take(first);
  step(all, 0);
  take(reads);
  take(writes);
  const int asked = policy.asked;
  step(0, all);
  take(later);
  step(all, all);
  step(all, all);
  // What was decided comes first.
  EXPECT_EQ(policy.asked, asked + 1);
  EXPECT_EQ(bulk.take_batches(), Batches{"r9 "});
  bulk.hold = false;
  settle();
  EXPECT_EQ(bulk.take_batches(), (Batches{"r1 ", "w1 "}));
  EXPECT_FALSE(later.ready());
  step(all, 0);
  settle();
  EXPECT_TRUE(later.ready());
}

TEST_F(BatchSchedulerTest, APrefixOfTheWritesMayGo) {
  Sent sent({{put, 1}, {get, 1}, {put, 2}, {get, 2}});
  take(sent);
  step(0, 1);
  settle();
  EXPECT_EQ(bulk.take_batches(), Batches{"w1 "});
  // The write on 1 is sent: a read of it that comes now need not wait, one of 2 does.
  Sent reads({{get, 1}, {get, 2}});
  take(reads);
  step(all, 0);
  settle();
  EXPECT_EQ(bulk.take_batches(), Batches{"r1 "});
  EXPECT_EQ(reads.values_out[0], 10u);
  step(0, all);
  settle();
  EXPECT_EQ(bulk.take_batches(), Batches{"r1 w2 r2 r2 "});
  EXPECT_TRUE(sent.ready() && reads.ready());
  EXPECT_EQ(reads.values_out[1], 20u);
}

TEST_F(BatchSchedulerTest, BatchesDoNotWrapAroundTheRing) {
  std::vector<std::unique_ptr<Sent>> sent;
  for (uint64_t first = 0; first < 60; first += 6) {
    entries[first] = first + 1;
    sent.push_back(std::make_unique<Sent>(std::vector<std::pair<TableOp, uint64_t>>{
        {get, first}, {get, 1}, {get, first}, {get, 1}, {get, first}, {get, first}}));
    take(*sent.back());
    step(all, 0);
    settle();
    ASSERT_TRUE(sent.back()->ready());
    EXPECT_EQ(sent.back()->found, (std::vector<uint8_t>{1, 0, 1, 0, 1, 1}));
    EXPECT_EQ(sent.back()->values_out,
              (std::vector<uint64_t>{first + 1, 999, first + 1, 999, first + 1, first + 1}));
  }
  // 6 rows each into a ring of 16: the third, and others, came in two.
  EXPECT_GT(bulk.batches.size(), sent.size());
}

TEST_F(BatchSchedulerTest, ALaterBatchNeedNotWaitForAnEarlierOne) {
  start(16, 3, true);
  Sent first({{get, 1}}), second({{get, 2}});
  bulk.hold = true;
  take(first);
  step(all, 0);
  take(second);
  step(all, 0, BatchRoute::express);
  step(0, 0);
  EXPECT_FALSE(first.ready());
  EXPECT_TRUE(second.ready());
  EXPECT_EQ(held, 2u);
  bulk.hold = false;
  settle();
  EXPECT_TRUE(first.ready());
  EXPECT_EQ(held, 0u);
}

TEST_F(BatchSchedulerTest, TheExpressPathTakesSmallBatches) {
  start(16, 3, true);
  Sent sent({{get, 1}, {get, 2}, {get, 3}, {get, 4}, {get, 5}});
  take(sent);
  step(all, 0, BatchRoute::express);
  settle();
  EXPECT_EQ(express.take_batches(), (Batches{"r1 r2 ", "r3 r4 ", "r5 "}));
  EXPECT_EQ(scheduler->stats().express_batches, 3u);
  EXPECT_TRUE(sent.ready());
}

TEST_F(BatchSchedulerTest, PathsWaitForOneAnotherWhereOneHasWrites) {
  for (const bool writes_first : {true, false}) {
    start(16, 3, true);
    entries.clear();
    Sent writes({{put, 1}}), reads({{get, 1}});
    ManualPath& first_path = writes_first ? bulk : express;
    ManualPath& second_path = writes_first ? express : bulk;
    const BatchRoute routes[] = {BatchRoute::bulk, BatchRoute::express};
    first_path.hold = true;
    take(writes_first ? writes : reads);
    step(all, all, routes[writes_first ? 0 : 1]);
    take(writes_first ? reads : writes);
    step(all, all, routes[writes_first ? 1 : 0]);
    EXPECT_EQ(second_path.take_batches(), Batches{}) << writes_first;
    first_path.hold = false;
    settle();
    EXPECT_EQ(second_path.take_batches().size(), 1u) << writes_first;
    EXPECT_EQ(reads.found[0], writes_first ? 1 : 0);
    first_path.take_batches();
  }
}

TEST_F(BatchSchedulerTest, WithoutAnExpressPathTheBulkPathTakesItsPlace) {
  Sent sent({{get, 1}});
  take(sent);
  step(all, 0, BatchRoute::express);
  settle();
  EXPECT_TRUE(sent.ready());
  EXPECT_EQ(scheduler->stats().express_batches, 0u);
}

TEST_F(BatchSchedulerTest, DrainsWhateverThePolicySays) {
  Sent sent({{get, 1}, {put, 2}});
  take(sent);
  EXPECT_TRUE(scheduler->step(++now, true));
  EXPECT_TRUE(scheduler->step(++now, true));
  EXPECT_TRUE(sent.ready() && scheduler->idle());
  EXPECT_EQ(policy.asked, 0);
}

TEST_F(BatchSchedulerTest, ABatchWithoutMemoryIsRefusedRowByRow) {
  Sent sent({{put, 1}, {get, 1}});
  take(sent);
  bulk.refuse = true;
  step(all, all);
  settle();
  EXPECT_EQ(sent.completion.status(), gpu::QueueStatus::ok);
  EXPECT_EQ(sent.found, (std::vector<uint8_t>{reply_retry, reply_retry}));
  EXPECT_EQ(sent.values_out, (std::vector<uint64_t>{999, 999}));
  EXPECT_TRUE(entries.empty());
  EXPECT_TRUE(policy.reports.empty());
}

TEST_F(BatchSchedulerTest, GivesUpWhatWaitsAndWhatIsOnTheDevice) {
  Sent done({{get, 5}}), half({{get, 1}, {put, 2}}), waits({{put, 3}, {get, 4}});
  take(done);
  step(all, 0);
  settle();
  bulk.hold = true;
  take(half);
  step(all, 0);
  take(waits);
  bulk.fail = true;
  EXPECT_THROW(step(all, all), DeviceError);
  scheduler->give_up();
  EXPECT_EQ(done.completion.status(), gpu::QueueStatus::ok);
  EXPECT_EQ(half.completion.status(), gpu::QueueStatus::lost);
  EXPECT_EQ(waits.completion.status(), gpu::QueueStatus::lost);
  EXPECT_TRUE(scheduler->idle());
}

TEST_F(BatchSchedulerTest, WhatWasAnsweredIsNotLostWithTheNextBatch) {
  bulk.hold = true;
  Sent first({{get, 1}}), second({{get, 2}});
  take(first);
  step(all, 0);
  take(second);
  step(all, 0);
  bulk.hold = false;
  bulk.fails_at_end = 1;  // the last channel is taken first
  EXPECT_THROW(step(0, 0), DeviceError);
  scheduler->give_up();
  EXPECT_EQ(first.completion.status(), gpu::QueueStatus::ok);
  EXPECT_EQ(first.found[0], 0);
  EXPECT_EQ(second.completion.status(), gpu::QueueStatus::lost);
}

TEST_F(BatchSchedulerTest, CountsAndFitsItsBatches) {
  for (const uint64_t rows : {1, 5, 9}) {
    std::vector<std::pair<TableOp, uint64_t>> gets(rows, {get, 1});
    Sent sent(gets);
    take(sent);
    bulk.hold = true;
    step(all, 0);
    now += static_cast<int64_t>(99 + 10 * rows);
    bulk.hold = false;
    step(0, 0);
    EXPECT_TRUE(sent.ready());
  }
  const gpu::QueueStats stats = scheduler->stats();
  EXPECT_EQ(stats.submissions, 3u);
  EXPECT_EQ(stats.rows, 15u);
  EXPECT_GE(stats.read_batches, 3u);
  EXPECT_EQ(stats.write_batches, 0u);
  EXPECT_NEAR(stats.read_cost.fixed_ns, 100, 1e-6);
  EXPECT_NEAR(stats.read_cost.row_ns, 10, 1e-6);
  EXPECT_EQ(stats.write_cost.fixed_ns, 0);
}

}  // namespace
}  // namespace isotherm::batch_scheduler_test
