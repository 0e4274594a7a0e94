// Random submissions through a BatchScheduler with two paths that take their time, under a policy
// that decides at random: replies must be those of the requests run one by one as they arrived.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <unordered_map>

#include "batch/batch_scheduler.h"

namespace isotherm::batch_order_test {
namespace {

using Entries = std::unordered_map<uint64_t, uint64_t>;

KeyState run_on(Entries& entries, TableOp op, uint64_t key, uint64_t value, uint64_t expected) {
  const auto at = entries.find(key);
  const KeyState before = at == entries.end() ? KeyState{} : KeyState{at->second, 1};
  const KeyState after = apply(op, value, expected, before);
  if (after.found != 0) {
    entries[key] = after.value;
  } else {
    entries.erase(key);
  }
  return before;
}

// Its batches take effect one after another, some time after they were sent; nothing orders them
// against those of another path.
class SlowPath final : public BatchPath {
 public:
  SlowPath(Entries& entries, std::mt19937_64& random, uint64_t rows)
      : entries_(entries), random_(random), rows_(rows) {}

  uint64_t most_rows() const override { return rows_; }
  void send(uint32_t channel, const TableRequests& requests, int64_t /*now*/) override {
    EXPECT_LE(requests.rows, rows_);
    queue_.push_back({channel, requests});
  }
  bool done(uint32_t channel, int64_t /*now*/) override {
    if (random_() % 4 == 0 && !queue_.empty()) {
      run(queue_.front().requests);
      queue_.pop_front();
    }
    return std::none_of(queue_.begin(), queue_.end(),
                        [&](const Sent& sent) { return sent.channel == channel; });
  }

 private:
  struct Sent {
    uint32_t channel;
    TableRequests requests;
  };

  void run(const TableRequests& requests) {
    for (uint64_t row = 0; row < requests.rows; ++row) {
      const TableOp op = requests.ops != nullptr ? requests.ops[row] : requests.op;
      const uint64_t value = requests.values != nullptr ? requests.values[row] : 0;
      const uint64_t expected = requests.expected != nullptr ? requests.expected[row] : 0;
      const KeyState before = run_on(entries_, op, requests.keys[row], value, expected);
      requests.found[row] = before.found;
      requests.values_out[row] = before.value;
    }
  }

  Entries& entries_;
  std::mt19937_64& random_;
  const uint64_t rows_;
  std::deque<Sent> queue_;
};

class RandomPolicy final : public SchedulingPolicy {
 public:
  explicit RandomPolicy(std::mt19937_64& random) : random_(random) {}
  BatchDecision decide(const WaitingRows& waiting) override {
    BatchDecision decision;
    decision.reads = some(waiting.reads);
    decision.writes = some(waiting.writes);
    if (random_() % 2 == 0) decision.route = BatchRoute::express;
    return decision;
  }

 private:
  uint64_t some(uint64_t rows) {
    const uint64_t kind = random_() % 3;
    return kind == 0 ? 0 : kind == 1 ? rows : random_() % (rows + 1);
  }
  std::mt19937_64& random_;
};

struct Submitted {
  std::vector<TableOp> ops;
  std::vector<uint64_t> keys, values, expected, values_out;
  std::vector<uint8_t> found;
  std::vector<KeyState> right;
  TableRequests requests;
  gpu::Completion completion;
};

class BatchOrderTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  static constexpr uint64_t ring_rows = 64;

  // Rows of few keys; some submissions have one operation only.
  std::unique_ptr<Submitted> submission(uint64_t rows) {
    auto made = std::make_unique<Submitted>();
    const bool uniform = random_() % 3 == 0;
    const auto same = static_cast<TableOp>(random_() % 6);
    for (uint64_t row = 0; row < rows; ++row) {
      const auto other = random_() % 2 == 0 ? TableOp::get : static_cast<TableOp>(random_() % 6);
      made->ops.push_back(uniform ? same : other);
      made->keys.push_back(random_() % 12);
      made->values.push_back(random_() % 4);
      made->expected.push_back(random_() % 4);
      made->right.push_back(
          run_on(model_, made->ops[row], made->keys[row], made->values[row], made->expected[row]));
    }
    made->values_out.assign(rows, untouched);
    made->found.assign(rows, 77);
    TableRequests& requests = made->requests;
    requests.rows = rows;
    requests.op = same;
    if (!uniform) requests.ops = made->ops.data();
    requests.keys = made->keys.data();
    requests.values = made->values.data();
    requests.expected = made->expected.data();
    requests.values_out = made->values_out.data();
    requests.found = made->found.data();
    return made;
  }

  static void check(const Submitted& done) {
    ASSERT_EQ(done.completion.status(), gpu::QueueStatus::ok);
    for (uint64_t row = 0; row < done.keys.size(); ++row) {
      ASSERT_EQ(done.found[row], done.right[row].found);
      const uint64_t value = done.right[row].found != 0 ? done.right[row].value : untouched;
      ASSERT_EQ(done.values_out[row], value);
    }
  }

  static constexpr uint64_t untouched = 999;
  std::mt19937_64 random_{GetParam()};
  Entries model_;
};

TEST_P(BatchOrderTest, EveryKeySeesItsRequestsAsTheyArrived) {
  Entries entries;
  SlowPath bulk(entries, random_, 20), express(entries, random_, 3);
  RandomPolicy policy(random_);
  std::vector<char> memory(BatchScheduler::memory_bytes(ring_rows));
  std::atomic<uint64_t> held{0};
  BatchScheduler::Setup setup;
  setup.memory = memory.data();
  setup.rows = ring_rows;
  setup.batches = 4;
  setup.policy = &policy;
  setup.bulk = &bulk;
  setup.express = &express;
  setup.held = &held;
  BatchScheduler scheduler(setup);
  std::vector<std::unique_ptr<Submitted>> all;
  int64_t now = 0;
  for (int i = 0; i < 300; ++i) {
    const uint64_t rows = 1 + random_() % 12;
    while (held + rows > ring_rows) scheduler.step(++now, false);
    all.push_back(submission(rows));
    held += rows;
    Submission::begin(all.back()->completion, all.back()->requests);
    scheduler.take(all.back()->completion, now);
    for (uint64_t steps = random_() % 5; steps != 0; --steps) scheduler.step(++now, false);
  }
  while (!scheduler.idle()) scheduler.step(++now, true);
  EXPECT_EQ(held, 0u);
  for (const auto& submitted : all) check(*submitted);
  EXPECT_EQ(entries, model_);
}

INSTANTIATE_TEST_SUITE_P(Seeds, BatchOrderTest, ::testing::Range<uint64_t>(1, 41));

}  // namespace
}  // namespace isotherm::batch_order_test
