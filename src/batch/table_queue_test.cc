// A queue on the fake device: the checks that the GPU runs, and what a GPU cannot be made to do.
#include <gtest/gtest.h>

#include <string>

#include "device_checks/table_queue_checks.h"
#include "device_checks/test_size.h"
#include "fake_device/fake_device.h"

namespace isotherm::table_queue_test {
namespace {

constexpr uint64_t memory = uint64_t{1} << 28;
const uint64_t scale = test_size(25, 200);

class TableQueueChecks : public ::testing::TestWithParam<TableQueueCheck<FakeDevice>> {};

TEST_P(TableQueueChecks, FindNoFault) {
  for (uint64_t seed = 1; seed <= test_size(1, 2); ++seed) {
    FakeDevice device(seed, memory);
    EXPECT_EQ(GetParam().run(device, scale), 0u) << "seed " << seed;
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
    EXPECT_EQ(device.allocated_bytes(), 0u);
  }
}

std::string test_name(const ::testing::TestParamInfo<TableQueueCheck<FakeDevice>>& test) {
  std::string name = test.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ' ' || c == '-'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Table, TableQueueChecks,
                         ::testing::ValuesIn(table_queue_checks<FakeDevice>), test_name);

// Requests of one operation on keys from `first` on, with their columns.
struct Rows {
  Rows(TableOp op, uint64_t first, uint64_t count)
      : keys(count), values(count), values_out(count), found(count, 77) {
    for (uint64_t row = 0; row < count; ++row) keys[row] = values[row] = first + row;
    requests.rows = count;
    requests.op = op;
    requests.keys = keys.data();
    requests.values = values.data();
    requests.values_out = values_out.data();
    requests.found = found.data();
  }
  std::vector<uint64_t> keys, values, values_out;
  std::vector<uint8_t> found;
  TableRequests requests;
  gpu::Completion completion;
};

class TableQueueTest : public ::testing::Test {
 protected:
  ~TableQueueTest() override {
    queue.reset();
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
  }
  void start(const gpu::QueueOptions& options) { queue.emplace(device, table, options); }
  // Nothing goes before the queue ends.
  static gpu::QueueOptions never_in_time() {
    gpu::QueueOptions options = small_queue(Scheduling::fixed_size);
    options.rows = 100;
    options.scheduling.fixed_size = {1000, int64_t{3600} * 1'000'000'000};
    return options;
  }

  FakeDevice device{1, memory};
  FixedDeviceTable<FakeDevice> table{device, {0, 1, 4, 256}};
  std::optional<TableQueue<FakeDevice>> queue;
};

TEST_F(TableQueueTest, AFullQueueSaysRetryAndDoesNothing) {
  start(never_in_time());
  Rows most(TableOp::put, 1, 60), more(TableOp::put, 61, 41), fits(TableOp::put, 61, 40);
  EXPECT_EQ(queue->submit(most.requests, most.completion), gpu::QueueStatus::ok);
  EXPECT_EQ(queue->submit(more.requests, more.completion), gpu::QueueStatus::retry);
  EXPECT_TRUE(more.completion.ready());
  EXPECT_EQ(queue->submit(fits.requests, fits.completion), gpu::QueueStatus::ok);
  EXPECT_EQ(queue->submit(more.requests, more.completion), gpu::QueueStatus::retry);
  EXPECT_FALSE(most.completion.ready());
  queue.reset();
  EXPECT_EQ(most.completion.status(), gpu::QueueStatus::ok);
  EXPECT_EQ(fits.completion.status(), gpu::QueueStatus::ok);
  EXPECT_EQ(table.stats().entries, 100u);
}

TEST_F(TableQueueTest, EndsAfterWhatWaitsWasAnswered) {
  start(never_in_time());
  Rows puts(TableOp::put, 1, 30), gets(TableOp::get, 16, 30);
  EXPECT_EQ(queue->submit(puts.requests, puts.completion), gpu::QueueStatus::ok);
  EXPECT_EQ(queue->submit(gets.requests, gets.completion), gpu::QueueStatus::ok);
  queue.reset();
  ASSERT_EQ(gets.completion.status(), gpu::QueueStatus::ok);
  for (uint64_t row = 0; row < 30; ++row) {
    EXPECT_EQ(gets.found[row], row < 15 ? 1 : 0);
    EXPECT_EQ(gets.values_out[row], row < 15 ? gets.keys[row] : 0);
  }
}

TEST_F(TableQueueTest, ShortQueuesGoByExpress) {
  // Its kernels end soon.
  FixedDeviceTable<FakeDevice> others(device, {0, 1, 4, 256, {2, 3, 20, 50}});
  queue.emplace(device, others, small_queue(Scheduling::adaptive));
  for (const TableOp op : {TableOp::put, TableOp::get, TableOp::erase}) {
    Rows rows(op, 1, 20);
    EXPECT_EQ(queue->submit(rows.requests, rows.completion), gpu::QueueStatus::ok);
    EXPECT_EQ(rows.completion.wait(), gpu::QueueStatus::ok);
    EXPECT_EQ(rows.found, std::vector<uint8_t>(20, op == TableOp::put ? 0 : 1));
  }
  EXPECT_EQ(queue->stats().express_batches, 3u);
  queue.reset();
}

TEST_F(TableQueueTest, ThreadSleepsUntilASubmissionOrATime) {
  gpu::QueueOptions options = never_in_time();
  options.scheduling.fixed_size = {1000, 2'000'000};
  options.spin_ns = 0;
  start(options);
  const auto await_sleeps = [&](uint64_t count) {
    while (queue->stats().sleeps < count) std::this_thread::yield();
  };
  for (uint64_t i = 0; i < 3; ++i) {
    await_sleeps(i);
    Rows get(TableOp::get, 1, 1);
    EXPECT_EQ(queue->submit(get.requests, get.completion), gpu::QueueStatus::ok);
    EXPECT_EQ(get.completion.wait(), gpu::QueueStatus::ok);
    EXPECT_EQ(get.found[0], 0);
  }
  // It may have come too late to sleep until the batch was due, but not to wait for another one.
  await_sleeps(3);
}

TEST_F(TableQueueTest, AQueueMayHoldASingleRow) {
  gpu::QueueOptions options = small_queue(Scheduling::greedy);
  options.rows = options.batch_rows = options.batches = 1;
  start(options);
  for (uint64_t key = 1; key <= 5; ++key) {
    Rows put(TableOp::put, key, 1), get(TableOp::get, key, 1);
    EXPECT_EQ(queue->submit(put.requests, put.completion), gpu::QueueStatus::ok);
    EXPECT_EQ(put.completion.wait(), gpu::QueueStatus::ok);
    EXPECT_EQ(queue->submit(get.requests, get.completion), gpu::QueueStatus::ok);
    EXPECT_EQ(get.completion.wait(), gpu::QueueStatus::ok);
    EXPECT_EQ(get.values_out, get.keys);
  }
}

TEST_F(TableQueueTest, NothingIsReadyAtOnce) {
  start(small_queue(Scheduling::greedy));
  gpu::Completion completion;
  EXPECT_EQ(queue->submit({}, completion), gpu::QueueStatus::ok);
  EXPECT_EQ(completion.wait(), gpu::QueueStatus::ok);
}

TEST_F(TableQueueTest, RepliesThatNobodyWantsAreLeftOut) {
  start(small_queue(Scheduling::greedy));
  Rows puts(TableOp::put, 1, 10), gets(TableOp::get, 1, 10);
  puts.requests.values_out = nullptr;
  puts.requests.found = nullptr;
  EXPECT_EQ(queue->submit(puts.requests, puts.completion), gpu::QueueStatus::ok);
  EXPECT_EQ(queue->submit(gets.requests, gets.completion), gpu::QueueStatus::ok);
  EXPECT_EQ(gets.completion.wait(), gpu::QueueStatus::ok);
  EXPECT_EQ(puts.completion.wait(), gpu::QueueStatus::ok);
  EXPECT_EQ(gets.values_out, gets.keys);
  EXPECT_EQ(puts.found, std::vector<uint8_t>(10, 77));
}

TEST_F(TableQueueTest, BadSubmissionsAreRefused) {
  start(never_in_time());
  Rows rows(TableOp::get, 1, 2);
  const auto refuses = [&](auto&& change) {
    TableRequests requests = rows.requests;
    change(requests);
    gpu::Completion completion;
    EXPECT_THROW(queue->submit(requests, completion), std::invalid_argument);
  };
  refuses([](TableRequests& requests) { requests.keys = nullptr; });
  refuses([](TableRequests& requests) { requests.found = nullptr; });
  refuses([](TableRequests& requests) { requests.found = nullptr, requests.values_out = nullptr; });
  refuses([](TableRequests& requests) { requests.rows = 101; });
  refuses([](TableRequests& requests) { requests.op = static_cast<TableOp>(6); });
  const TableOp ops[] = {TableOp::put, static_cast<TableOp>(200)};
  refuses([&](TableRequests& requests) { requests.ops = ops; });
  EXPECT_EQ(queue->submit(rows.requests, rows.completion), gpu::QueueStatus::ok);
  EXPECT_THROW(queue->submit(rows.requests, rows.completion), std::invalid_argument);
  queue.reset();
  EXPECT_TRUE(rows.completion.ready());
}

TEST_F(TableQueueTest, OptionsThatCannotWorkAreRefused) {
  const auto refuses = [&](auto&& change) {
    gpu::QueueOptions options = small_queue(Scheduling::greedy);
    change(options);
    EXPECT_THROW(start(options), std::invalid_argument);
  };
  refuses([](gpu::QueueOptions& options) { options.rows = 0; });
  refuses([](gpu::QueueOptions& options) { options.rows = ~uint64_t{0}; });
  refuses([](gpu::QueueOptions& options) { options.batch_rows = 0; });
  refuses([](gpu::QueueOptions& options) { options.batches = 1000; });
  refuses([](gpu::QueueOptions& options) { options.spin_ns = -1; });
  refuses([](gpu::QueueOptions& options) { options.scheduling.greedy.budget = 0; });
  EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
}

TEST_F(TableQueueTest, ThrowsWithoutMemory) {
  for (uint64_t allocations = 0; allocations < 6; ++allocations) {
    device.fail_allocations_after(allocations);
    EXPECT_THROW(start(small_queue(Scheduling::greedy)), std::bad_alloc);
  }
  device.fail_allocations_after(FakeDevice::never);
  start(small_queue(Scheduling::greedy));
  Rows get(TableOp::get, 1, 1);
  EXPECT_EQ(queue->submit(get.requests, get.completion), gpu::QueueStatus::ok);
  EXPECT_EQ(get.completion.wait(), gpu::QueueStatus::ok);
}

TEST_F(TableQueueTest, WritesWithoutMemoryToWorkInAreAnsweredRetry) {
  start(small_queue(Scheduling::greedy));
  device.fail_allocations_after(0);
  Rows puts(TableOp::put, 1, 5);
  EXPECT_EQ(queue->submit(puts.requests, puts.completion), gpu::QueueStatus::ok);
  EXPECT_EQ(puts.completion.wait(), gpu::QueueStatus::ok);
  EXPECT_EQ(puts.found, std::vector<uint8_t>(5, reply_retry));
  device.fail_allocations_after(FakeDevice::never);
  EXPECT_EQ(queue->submit(puts.requests, puts.completion), gpu::QueueStatus::ok);
  EXPECT_EQ(puts.completion.wait(), gpu::QueueStatus::ok);
  EXPECT_EQ(puts.found, std::vector<uint8_t>(5, 0));
}

// Threads that submit until they are told that the device is lost.
class LostDevice : public ::testing::TestWithParam<Scheduling> {
 protected:
  static gpu::QueueOptions options() {
    gpu::QueueOptions options = small_queue(GetParam());
    options.scheduling.periodic.cycle_ns = 100'000;
    options.scheduling.periodic.rate = 1e6;
    options.scheduling.periodic.read_cost = {10'000, 1};
    return options;
  }

  // Submits until a submission is refused; how many ended as lost.
  static uint64_t submit_until_lost(TableQueue<FakeDevice>& queue, uint64_t first) {
    uint64_t lost = 0;
    for (;;) {
      Rows puts(TableOp::put, first, 20), gets(TableOp::get, first, 20);
      for (Rows* rows : {&puts, &gets}) {
        const gpu::QueueStatus status = queue.submit(rows->requests, rows->completion);
        EXPECT_NE(status, gpu::QueueStatus::retry);
        if (status == gpu::QueueStatus::lost) ++lost;
      }
      if (gets.completion.wait() == gpu::QueueStatus::lost) ++lost;
      if (puts.completion.wait() == gpu::QueueStatus::lost) ++lost;
      if (lost != 0) return lost;
      EXPECT_EQ(gets.values_out, gets.keys);
    }
  }
};

TEST_P(LostDevice, EndsAllSubmissionsAndRefusesLaterOnes) {
  for (const uint64_t operations : {0, 7, 40, 150}) {
    FakeDevice device(operations + 1, memory);
    FixedDeviceTable<FakeDevice> table(device, {0, 1, 4, 256});
    TableQueue<FakeDevice> queue(device, table, options());
    EXPECT_EQ(queue.failure(), "");
    device.lose_after(operations);
    std::vector<std::thread> threads;
    for (uint64_t number = 0; number < 3; ++number) {
      threads.emplace_back([&, number] { EXPECT_GT(submit_until_lost(queue, number * 100), 0u); });
    }
    for (std::thread& thread : threads) thread.join();
    Rows later(TableOp::get, 1, 1);
    EXPECT_EQ(queue.submit(later.requests, later.completion), gpu::QueueStatus::lost);
    EXPECT_TRUE(later.completion.ready());
    EXPECT_NE(queue.failure(), "");
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, LostDevice,
                         ::testing::Values(Scheduling::greedy, Scheduling::periodic,
                                           Scheduling::fixed_size, Scheduling::adaptive));

TEST(TableQueue, AFailedLaunchLosesTheDevice) {
  for (uint64_t launches = 0; launches < 8; ++launches) {
    FakeDevice device(launches + 1, memory);
    FixedDeviceTable<FakeDevice> table(device, {0, 1, 4, 256});
    TableQueue<FakeDevice> queue(device, table, small_queue(Scheduling::greedy));
    device.fail_launches_after(launches);
    Rows puts(TableOp::put, 1, 20), gets(TableOp::get, 1, 20);
    // With a key twice they take more launches than those that succeed.
    puts.keys[1] = puts.keys[0];
    EXPECT_EQ(queue.submit(puts.requests, puts.completion), gpu::QueueStatus::ok);
    EXPECT_EQ(puts.completion.wait(), gpu::QueueStatus::lost);
    EXPECT_EQ(queue.submit(gets.requests, gets.completion), gpu::QueueStatus::lost);
    device.fail_launches_after(FakeDevice::never);
    EXPECT_EQ(queue.submit(gets.requests, gets.completion), gpu::QueueStatus::lost);
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
  }
}

}  // namespace
}  // namespace isotherm::table_queue_test
