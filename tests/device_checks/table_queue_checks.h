// Checks of a queue on a table, for any device: the fake one in unit tests, the GPU in
// `make test-gpu`. A check returns the number of faults it found.
//
// Several threads submit at once, each with several submissions under way. Each thread has keys of
// its own, for which it knows every reply beforehand: what it sent last decides, whichever batch it
// went with. One more key all threads add to and read: every addition must see another sum, a
// thread must never see a smaller sum than before, and nobody one smaller than what was known when
// it submitted; so that key is linearizable.
//
// `scale` is the number of submissions of a thread.
#pragma once

#include <algorithm>
#include <cstdio>
#include <memory>
#include <ostream>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

#include "batch/table_queue.h"
#include "device_checks/host_memory_checks.h"
#include "gpu/kernel/request_op.h"

namespace isotherm {

namespace table_queue_checks_internal {

inline constexpr uint64_t shared_key = ~uint64_t{0};
inline constexpr uint64_t untouched = 0xabababababababab;

// What all threads of a check share.
struct Shared {
  std::atomic<uint64_t> least_sum{0};  // of the shared key: additions known to have taken effect
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> retries{0};

  void fail(const char* what, uint64_t row) {
    if (wrong.fetch_add(1) < 10) std::printf("  row %zu: %s\n", static_cast<size_t>(row), what);
  }
  void know(uint64_t sum) {
    uint64_t known = least_sum.load();
    while (known < sum && !least_sum.compare_exchange_weak(known, sum)) {
    }
  }
};

// A submission, and the replies it must get.
class Expected {
 public:
  bool idle() const { return rows_ == 0; }

  template <class Queue>
  void submit(Queue& queue, Shared& shared) {
    rows_ = keys.size();
    values_out.assign(rows_, untouched);
    found.assign(rows_, 77);
    TableRequests requests;
    requests.rows = rows_;
    requests.keys = keys.data();
    if (uniform) {
      requests.op = ops[0];
    } else {
      requests.ops = ops.data();
    }
    requests.values = values.data();
    requests.expected = expected.data();
    requests.values_out = values_out.data();
    requests.found = found.data();
    least_sum_ = shared.least_sum.load();
    gpu::QueueStatus status = gpu::QueueStatus::retry;
    while ((status = queue.submit(requests, completion_)) == gpu::QueueStatus::retry) {
      ++shared.retries;
      std::this_thread::yield();
    }
    if (status != gpu::QueueStatus::ok) shared.fail("not taken", 0);
  }

  // Waits, and compares. `last_sum`: what the thread saw last of the shared key.
  void check(Shared& shared, uint64_t& last_sum, std::vector<uint64_t>& sums) {
    if (idle()) return;
    if (completion_.wait() != gpu::QueueStatus::ok) shared.fail("lost", 0);
    for (uint64_t row = 0; row < rows_; ++row) {
      if (keys[row] == shared_key) {
        check_sum(shared, row, last_sum, sums);
      } else if (found[row] != before[row].found) {
        shared.fail("found is wrong", row);
      } else if (values_out[row] != (found[row] != 0 ? before[row].value : untouched)) {
        shared.fail("a value is wrong", row);
      }
    }
    rows_ = 0;
  }

  std::vector<TableOp> ops;
  std::vector<uint64_t> keys, values, expected, values_out;
  std::vector<uint8_t> found;
  std::vector<KeyState> before;
  bool uniform = false;

 private:
  void check_sum(Shared& shared, uint64_t row, uint64_t& last_sum, std::vector<uint64_t>& sums) {
    const uint64_t sum = found[row] == 1 ? values_out[row] : 0;
    if (found[row] > 1) shared.fail("refused", row);
    if (sum < last_sum) shared.fail("a sum fell", row);
    if (sum < least_sum_) shared.fail("a sum that was known is gone", row);
    last_sum = sum;
    if (ops[row] != TableOp::add) return;
    sums.push_back(sum);
    last_sum = sum + 1;
    shared.know(sum + 1);
  }

  gpu::Completion completion_;
  uint64_t rows_ = 0;
  uint64_t least_sum_ = 0;
};

class Client {
 public:
  Client(uint64_t number, uint64_t most_rows) : random_(number), most_rows_(most_rows) {
    for (uint64_t i = 0; i < keys; ++i) keys_.push_back(number << 32 | i);
    for (int i = 0; i < under_way; ++i) submissions_.push_back(std::make_unique<Expected>());
  }

  template <class Queue>
  void run(Queue& queue, Shared& shared, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      Expected& next = *submissions_[i % under_way];
      next.check(shared, last_sum_, sums);
      fill(next);
      next.submit(queue, shared);
    }
    for (uint64_t i = 0; i < under_way; ++i) {
      submissions_[(count + i) % under_way]->check(shared, last_sum_, sums);
    }
  }

  std::vector<uint64_t> sums;  // that additions saw

 private:
  static constexpr uint64_t keys = 40;
  static constexpr int under_way = 5;

  // Some are gets only, some are of one other operation, most are mixed.
  void fill(Expected& next) {
    next.ops.clear();
    next.keys.clear();
    next.values.clear();
    next.expected.clear();
    next.before.clear();
    const uint64_t kind = random_() % 6;
    next.uniform = kind < 3;
    const auto same = kind < 2 ? TableOp::get : static_cast<TableOp>(1 + random_() % 5);
    const uint64_t rows = 1 + random_() % most_rows_;
    for (uint64_t row = 0; row < rows; ++row) {
      const auto mixed = random_() % 2 == 0 ? TableOp::get : static_cast<TableOp>(random_() % 6);
      add_row(next, next.uniform ? same : mixed);
    }
  }

  void add_row(Expected& next, TableOp op) {
    const bool shared = random_() % 8 == 0 && (op == TableOp::get || op == TableOp::add);
    const uint64_t key = shared ? shared_key : keys_[random_() % keys];
    const uint64_t value = shared ? 1 : random_() % 4;
    const uint64_t expected = random_() % 4;
    next.ops.push_back(op);
    next.keys.push_back(key);
    next.values.push_back(value);
    next.expected.push_back(expected);
    KeyState& state = states_[key];
    next.before.push_back(state);
    if (!shared) state = apply(op, value, expected, state);
  }

  std::mt19937_64 random_;
  const uint64_t most_rows_;
  std::vector<uint64_t> keys_;
  std::unordered_map<uint64_t, KeyState> states_;
  std::vector<std::unique_ptr<Expected>> submissions_;
  uint64_t last_sum_ = 0;
};

template <class Device, class Table>
uint64_t check_clients(Device& device, Table& table, const gpu::QueueOptions& options,
                       uint64_t scale, uint64_t most_rows) {
  constexpr uint64_t threads = 3;
  Shared shared;
  std::vector<Client> clients;
  for (uint64_t number = 1; number <= threads; ++number) clients.emplace_back(number, most_rows);
  {
    TableQueue<Device, Table> queue(device, table, options);
    std::vector<std::thread> running;
    running.reserve(threads);
    for (Client& client : clients) {
      running.emplace_back([&] { client.run(queue, shared, scale); });
    }
    for (std::thread& thread : running) thread.join();
    const gpu::QueueStats stats = queue.stats();
    if (stats.submissions != threads * scale) shared.fail("not all were counted", 0);
    if (stats.rows == 0 || stats.write_batches == 0) shared.fail("no batches were counted", 0);
    const bool adapts = options.scheduling.policy == Scheduling::adaptive;
    if (stats.express_batches != 0 && !adapts) shared.fail("express batches", 0);
  }
  std::vector<uint64_t> sums;
  for (const Client& client : clients) {
    sums.insert(sums.end(), client.sums.begin(), client.sums.end());
  }
  std::sort(sums.begin(), sums.end());
  for (uint64_t i = 0; i < sums.size(); ++i) {
    if (sums[i] != i) shared.fail("two additions saw one sum", i);
  }
  return shared.wrong;
}

template <class Device>
uint64_t check_clients(Device& device, const gpu::QueueOptions& options, uint64_t scale,
                       uint64_t most_rows) {
  // Express kernels end soon, and mail begins anew.
  FixedDeviceTable<Device> table(device, {0, 21, 6, 1 << 16, {2, 3, 20, 50}});
  return check_clients(device, table, options, scale, most_rows);
}

}  // namespace table_queue_checks_internal

inline gpu::QueueOptions small_queue(Scheduling policy) {
  gpu::QueueOptions options;
  options.rows = 1 << 12;
  options.batch_rows = 1 << 10;
  options.scheduling.policy = policy;
  return options;
}

template <class Device>
uint64_t check_greedy_queue(Device& device, uint64_t scale) {
  gpu::QueueOptions options = small_queue(Scheduling::greedy);
  options.scheduling.greedy = {64, 3, 2};
  return table_queue_checks_internal::check_clients(device, options, scale, 30);
}

template <class Device>
uint64_t check_periodic_queue(Device& device, uint64_t scale) {
  uint64_t wrong = 0;
  for (const uint32_t write_cycles : {2u, 5u}) {
    gpu::QueueOptions options = small_queue(Scheduling::periodic);
    PeriodicOptions& periodic = options.scheduling.periodic;
    periodic.cycle_ns = 100'000;
    periodic.write_cycles = write_cycles;
    periodic.rate = 1e6;
    periodic.read_cost = periodic.write_cost = {10'000, 1};
    wrong += table_queue_checks_internal::check_clients(device, options, scale, 30);
  }
  return wrong;
}

template <class Device>
uint64_t check_fixed_size_queue(Device& device, uint64_t scale) {
  gpu::QueueOptions options = small_queue(Scheduling::fixed_size);
  options.scheduling.fixed_size = {32, 50'000};
  return table_queue_checks_internal::check_clients(device, options, scale, 30);
}

template <class Device>
uint64_t check_adaptive_queue(Device& device, uint64_t scale) {
  gpu::QueueOptions options = small_queue(Scheduling::adaptive);
  options.scheduling.adaptive.threshold = 100;
  return table_queue_checks_internal::check_clients(device, options, scale, 30);
}

// On a table that the device and the host share, so that batches go either way.
template <class Device>
uint64_t check_shared_queue(Device& device, uint64_t scale) {
  const uint64_t rows = scale < 100 ? 1 << 9 : 1 << 12;  // sanitizers take ten times as long
  ModelledHostTable<Device> table(device, host_memory_options(device, 91, rows, rows * 2));
  DeviceRequestSource source(91);
  const std::vector<uint64_t> others = source.keys(rows * 5);
  table.run_uniform(TableOp::put, source.uniform_op(TableOp::put, others), true);
  if (!on_both_sides(table.table().stats())) table.fail("all entries lie on one side");
  gpu::QueueOptions options = small_queue(Scheduling::adaptive);
  options.scheduling.adaptive.threshold = 100;
  return table.wrong() + table.refused() +
         table_queue_checks_internal::check_clients(device, table.table(), options, scale, 30);
}

// Submissions that take up half of the queue and many batches, and have to be sent again.
template <class Device>
uint64_t check_full_queue(Device& device, uint64_t scale) {
  gpu::QueueOptions options = small_queue(Scheduling::greedy);
  options.rows = 100;
  options.batch_rows = 16;
  options.batches = 3;
  options.spin_ns = 0;
  return table_queue_checks_internal::check_clients(device, options, scale, 50);
}

// A batch above the sizes up to which kernels work in pinned memory, and the rest below them.
template <class Device>
uint64_t check_large_batches(Device& device, uint64_t /*scale*/) {
  FixedDeviceTable<Device> table(device, {0, 23, 8, 1 << 20});
  gpu::QueueOptions options;
  options.rows = 1 << 16;
  options.batch_rows = 17'000;
  TableQueue<Device> queue(device, table, options);
  constexpr uint64_t rows = 20'000;
  std::vector<uint64_t> keys(rows), values(rows), values_out(rows);
  std::vector<uint8_t> found(rows, 77);
  std::vector<TableOp> ops(rows);
  uint64_t wrong = 0;
  const auto run = [&](const TableOp* of_rows, TableOp op, auto&& right) {
    TableRequests requests;
    requests.rows = rows;
    requests.ops = of_rows;
    requests.op = op;
    requests.keys = keys.data();
    requests.values = values.data();
    requests.values_out = values_out.data();
    requests.found = found.data();
    gpu::Completion completion;
    if (queue.submit(requests, completion) != gpu::QueueStatus::ok) ++wrong;
    if (completion.wait() != gpu::QueueStatus::ok) ++wrong;
    for (uint64_t row = 0; row < rows; ++row) wrong += right(row) ? 0 : 1;
    if (wrong != 0) std::printf("  wrong replies, or a failure: %s\n", queue.failure().c_str());
  };
  for (uint64_t row = 0; row < rows; ++row) {
    keys[row] = row * 3 + 1;
    values[row] = ~row;
    ops[row] = row % 7 == 0 ? TableOp::erase : TableOp::get;
  }
  run(nullptr, TableOp::put, [&](uint64_t row) { return found[row] == 0; });
  const auto hit = [&](uint64_t row) { return found[row] == 1 && values_out[row] == ~row; };
  run(nullptr, TableOp::get, hit);
  run(ops.data(), TableOp::get, hit);
  run(nullptr, TableOp::get,
      [&](uint64_t row) { return row % 7 == 0 ? found[row] == 0 : hit(row); });
  return wrong;
}

template <class Device>
struct TableQueueCheck {
  const char* name;
  uint64_t (*run)(Device& device, uint64_t scale);

  friend std::ostream& operator<<(std::ostream& out, const TableQueueCheck& check) {
    return out << check.name;
  }
};

template <class Device>
constexpr TableQueueCheck<Device> table_queue_checks[] = {
    {"greedy queue", check_greedy_queue<Device>},
    {"periodic queue", check_periodic_queue<Device>},
    {"fixed-size queue", check_fixed_size_queue<Device>},
    {"adaptive queue", check_adaptive_queue<Device>},
    {"shared queue", check_shared_queue<Device>},
    {"full queue", check_full_queue<Device>},
    {"large batches", check_large_batches<Device>},
};

}  // namespace isotherm
