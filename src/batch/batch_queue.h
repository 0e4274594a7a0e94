// BatchQueue: the threads around a BatchScheduler: submitters, and the one that runs it.
//
// A submission is admitted if its rows fit beside those in the queue (one atomic addition), and
// pushed into the inbox (one compare-and-swap). The queue's thread takes all that has arrived,
// copies the rows in, and has the scheduler take a step. A submission costs the thread the same
// whether it has one row or a thousand, and a row costs no more than the copy of its bytes.
//
// While batches are on the device, and for some time after, the thread stays awake; then it sleeps
// until a submission arrives or the policy's time has come.
//
// When the device fails, the thread ends everything that waits as lost, and goes on to end what
// still arrives, so nobody waits for ever.
//
// Threads. Any submit; see isotherm/gpu/queue.h. Limits. A submission must fit into the queue.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "batch/batch_scheduler.h"
#include "batch/doorbell.h"

namespace isotherm {

class BatchQueue {
 public:
  struct Limits {
    uint64_t rows = 0;  // in the queue; at most those of the scheduler's rings
    int64_t spin_ns = 0;
  };

  BatchQueue(const BatchScheduler::Setup& setup, std::unique_ptr<SchedulingPolicy> policy,
             const Limits& limits)
      : limits_(limits),
        policy_(std::move(policy)),
        bulk_(*setup.bulk),
        express_(setup.express),
        scheduler_(completed(setup)),
        thread_([this] { run(); }) {}
  // Answers what waits.
  ~BatchQueue() {
    stopping_.store(true, std::memory_order_seq_cst);
    doorbell_.ring();
    thread_.join();
  }
  BatchQueue(const BatchQueue&) = delete;
  BatchQueue& operator=(const BatchQueue&) = delete;

  gpu::QueueStatus submit(const TableRequests& requests, gpu::Completion& completion) {
    check(requests);
    if (!completion.ready()) {
      throw std::invalid_argument("the completion belongs to a submission that is under way");
    }
    if (lost_.load(std::memory_order_acquire)) return gpu::QueueStatus::lost;
    if (!admit(requests.rows)) return gpu::QueueStatus::retry;
    Submission::begin(completion, requests);
    if (requests.rows == 0) {
      Submission::finish(&completion, gpu::QueueStatus::ok);
      return gpu::QueueStatus::ok;
    }
    inbox_.push(completion);
    doorbell_.ring();
    return gpu::QueueStatus::ok;
  }

  gpu::QueueStats stats() const {
    gpu::QueueStats stats = scheduler_.stats();
    stats.sleeps = sleeps_.load(std::memory_order_relaxed);
    return stats;
  }
  std::string failure() const {
    const std::lock_guard guard(failure_mutex_);
    return failure_;
  }

 private:
  BatchScheduler::Setup completed(BatchScheduler::Setup setup) {
    setup.policy = policy_.get();
    setup.held = &rows_;
    return setup;
  }

  void check(const TableRequests& requests) const {
    if (requests.rows == 0) return;
    if (requests.keys == nullptr) throw std::invalid_argument("requests need keys");
    if ((requests.values_out == nullptr) != (requests.found == nullptr)) {
      throw std::invalid_argument("values_out and found must both be given, or neither");
    }
    if (requests.rows > limits_.rows) {
      throw std::invalid_argument("a submission of " + std::to_string(requests.rows) +
                                  " rows, but the queue holds " + std::to_string(limits_.rows));
    }
    if (requests.ops == nullptr) {
      check_operation(requests.op, requests.found != nullptr);
      return;
    }
    for (uint64_t row = 0; row < requests.rows; ++row) {
      check_operation(requests.ops[row], requests.found != nullptr);
    }
  }
  static void check_operation(TableOp op, bool replies) {
    if (op > TableOp::add) throw std::invalid_argument("unknown operation");
    if (op == TableOp::get && !replies) {
      throw std::invalid_argument("gets need values_out and found");
    }
  }

  bool admit(uint64_t rows) {
    uint64_t held = rows_.load(std::memory_order_relaxed);
    do {
      if (rows > limits_.rows - held) return false;
    } while (!rows_.compare_exchange_weak(held, held + rows, std::memory_order_acq_rel,
                                          std::memory_order_relaxed));
    return true;
  }

  static int64_t clock() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  void run() {
    try {
      bulk_.enter();
      if (express_ != nullptr) express_->enter();
      while (step()) {
      }
    } catch (const std::exception& error) {
      lose(error.what());
    }
  }

  // False at the end.
  bool step() {
    int64_t now = clock();
    const bool arrived = take_arrivals(now);
    if (arrived) now = clock();
    const bool stopping = stopping_.load(std::memory_order_seq_cst);
    const bool moved = scheduler_.step(now, stopping) || arrived;
    if (moved) {
      awake_until_ = now + limits_.spin_ns;
    } else if (stopping && scheduler_.idle() && inbox_.empty()) {
      return false;
    } else {
      rest(now);
    }
    return true;
  }

  bool take_arrivals(int64_t now) {
    arriving_ = inbox_.take();
    if (arriving_ == nullptr) return false;
    while (arriving_ != nullptr) {
      gpu::Completion* next = Submission::next(*arriving_);
      scheduler_.take(*arriving_, now);
      arriving_ = next;
    }
    return true;
  }

  // Sleeps if nothing will happen for longer than it takes to wake up.
  void rest(int64_t now) {
    const int64_t again = scheduler_.again();
    const int64_t left = again == BatchDecision::never ? again : again - now - limits_.spin_ns;
    if (scheduler_.on_device() != 0 || now < awake_until_ || left <= 0) return pause();
    sleeps_.fetch_add(1, std::memory_order_relaxed);
    sleep(left);
  }
  void sleep(int64_t most_ns) {
    doorbell_.sleep(
        most_ns, [this] { return !inbox_.empty() || stopping_.load(std::memory_order_seq_cst); });
  }

  // From now on every submission ends as lost.
  void lose(const char* why) {
    {
      const std::lock_guard guard(failure_mutex_);
      failure_ = why;
    }
    lost_.store(true, std::memory_order_seq_cst);
    scheduler_.give_up();
    Submission::finish(arriving_, gpu::QueueStatus::lost);
    for (;;) {
      // Read `stopping_` first: what was submitted before the end is then in the inbox.
      const bool stopping = stopping_.load(std::memory_order_seq_cst);
      Submission::finish(inbox_.take(), gpu::QueueStatus::lost);
      if (stopping) return;
      sleep(BatchDecision::never);
    }
  }
  const Limits limits_;
  const std::unique_ptr<SchedulingPolicy> policy_;
  BatchPath& bulk_;
  BatchPath* const express_;

  // What submitters write lies apart from what the queue's thread writes.
  alignas(128) Inbox inbox_;
  alignas(128) std::atomic<uint64_t> rows_{0};  // in the queue
  alignas(128) Doorbell doorbell_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> lost_{false};
  std::atomic<uint64_t> sleeps_{0};
  mutable std::mutex failure_mutex_;
  std::string failure_;

  // The queue's thread's own.
  alignas(128) BatchScheduler scheduler_;
  gpu::Completion* arriving_ = nullptr;  // taken from the inbox, rows not yet copied in
  int64_t awake_until_ = 0;
  std::thread thread_;
};

}  // namespace isotherm
