// gpu::Queue: asynchronous requests to a gpu::Table from any number of threads, in shared
// batches.
//
//   isotherm::gpu::Queue queue(table);
//   isotherm::gpu::Completion done;                  // one a submission that is under way
//   isotherm::TableRequests requests;                // columns in host memory
//   if (queue.submit(requests, done) == isotherm::gpu::QueueStatus::ok) done.wait();
//
// A thread of the queue gathers what all threads submit, sends batches when its scheduling policy
// says so (isotherm/scheduling.h), and writes replies back. What the columns of a submission point
// to, and the completion, belong to the queue until the completion is ready. Each submission
// becomes ready by itself, with the last of its rows. So submit reads apart from writes if they
// must not wait for writes that the policy holds back. Replies are those of gpu::Table, misses
// leave the caller's value untouched.
//
// Order. Submissions of one thread take effect on each key in the order they were sent, and so do
// the rows of one submission. Each key is linearizable over all threads: a request takes effect
// between its submission and its reply. Requests on different keys may pass each other: a read
// does not wait for writes that the policy holds back, unless one may be on its key.
//
// Full queue. It holds a given number of rows; what does not fit is refused with `retry`, and
// nothing was done. Failure. When the device fails, what waits ends as `lost`, as does every later
// submission: whether a request that ends as `lost` took effect is not known. Columns that do not
// belong together are refused with std::invalid_argument.
//
// Threads. Any; any thread may wait for a completion. One thread destroys the queue, while no other
// submits; submissions that wait are answered first. Sources. Mega-KV, sections 3.2, 5 and 6.1.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "isotherm/gpu/table.h"
#include "isotherm/scheduling.h"

namespace isotherm {
struct Submission;
}  // namespace isotherm

namespace isotherm::gpu {

enum class QueueStatus : int32_t {
  ok,       // taken; of a completion: answered, or never submitted
  pending,  // not answered yet
  retry,    // the queue is full for the moment
  lost,     // the device failed
};

// One submission. May be used again when it is ready; must outlive what is under way. Aligned so
// that the completions of different threads share no line of the cache.
class alignas(128) Completion {
 public:
  Completion() = default;
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  bool ready() const { return status() != QueueStatus::pending; }
  // ok, pending or lost. When it is not pending the replies may be read.
  QueueStatus status() const {
    return static_cast<QueueStatus>(state_.load(std::memory_order_acquire));
  }
  // Waits until it is ready: some tens of microseconds awake, then asleep.
  QueueStatus wait() const {
    constexpr int looks = 1000;
    constexpr auto pending = static_cast<int32_t>(QueueStatus::pending);
    for (int i = 0; i < looks && !ready(); ++i) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    while (!ready()) state_.wait(pending, std::memory_order_acquire);
    return status();
  }

 private:
  friend struct isotherm::Submission;  // the queue's side of it

  std::atomic<int32_t> state_{static_cast<int32_t>(QueueStatus::ok)};
  Completion* next_ = nullptr;
  uint64_t unanswered_ = 0;
  TableRequests requests_;
};

struct QueueOptions {
  SchedulingOptions scheduling;
  // Rows that the queue holds, waiting or on the device; at most 2^28. Pinned memory: 51 bytes
  // each.
  uint64_t rows = uint64_t{1} << 20;
  // Rows of one batch, and batches on the device at once. Device memory: 34 bytes for each row of
  // each.
  uint32_t batch_rows = 1 << 18;
  uint32_t batches = 4;
  // Whether the adaptive policy has an express path, a kernel that stays on the device; see
  // TableOptions.
  bool express = true;
  // How long the queue's thread looks for work before it sleeps.
  int64_t spin_ns = 50'000;
};

struct QueueStats {
  uint64_t submissions = 0;  // that were answered
  uint64_t rows = 0;
  uint64_t read_batches = 0;
  uint64_t write_batches = 0;    // those with writes
  uint64_t express_batches = 0;  // of both
  uint64_t sleeps = 0;
  // Fitted to batches that had the device for themselves; the latest count most. 0 without any
  // batch.
  BatchCost read_cost;
  BatchCost write_cost;
};

class Queue {
 public:
  // The table must outlive the queue, and may be used beside it. Throws std::invalid_argument for
  // options that cannot work (for example a cycle below what the costs allow), std::bad_alloc,
  // std::runtime_error when the device fails.
  explicit Queue(Table& table, const QueueOptions& options = {});
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // ok: the completion tells when the replies are there. retry, lost: nothing was done.
  QueueStatus submit(const TableRequests& requests, Completion& completion);
  QueueStats stats() const;
  // Why the device is lost; empty while it is not.
  std::string failure() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isotherm::gpu
