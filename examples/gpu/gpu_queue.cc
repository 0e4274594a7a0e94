// Requests of several threads, which a queue gathers into batches for a table on a GPU.
#include <isotherm/gpu/queue.h>

#include <atomic>
#include <cstdint>
#include <iostream>
#include <thread>
#include <vector>

namespace {

// Submits `requests`, again where the queue is full for the moment, and waits for the replies.
bool answered(isotherm::gpu::Queue& queue, const isotherm::TableRequests& requests) {
  isotherm::gpu::Completion done;
  isotherm::gpu::QueueStatus status = queue.submit(requests, done);
  while (status == isotherm::gpu::QueueStatus::retry) {
    std::this_thread::yield();
    status = queue.submit(requests, done);
  }
  return status == isotherm::gpu::QueueStatus::ok && done.wait() == isotherm::gpu::QueueStatus::ok;
}

// Puts some keys of its own, and gets them.
bool put_and_get(isotherm::gpu::Queue& queue, uint64_t first) {
  constexpr size_t count = 1000;
  std::vector<uint64_t> keys(count), values(count), results(count);
  std::vector<uint8_t> found(count);
  for (size_t i = 0; i < count; ++i) {
    keys[i] = first + i;
    values[i] = keys[i] * 3;
  }
  isotherm::TableRequests puts;
  puts.rows = count;
  puts.op = isotherm::TableOp::put;
  puts.keys = keys.data();
  puts.values = values.data();
  isotherm::TableRequests gets;
  gets.rows = count;
  gets.keys = keys.data();
  gets.values_out = results.data();
  gets.found = found.data();
  return answered(queue, puts) && answered(queue, gets) && results == values;
}

}  // namespace

int main() {
  if (isotherm::gpu::count() == 0) {
    std::cout << "skipped: no GPU\n";
    return 0;
  }
  isotherm::gpu::Table table;
  isotherm::gpu::Queue queue(table);
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] { right += put_and_get(queue, i * 1'000'000) ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  std::cout << right << " of 4 threads right, " << queue.stats().rows << " requests, "
            << table.stats().entries << " entries\n";
  return right == 4 && table.stats().entries == 4000 ? 0 : 1;
}
