#include "base/worker_pool.h"

#include <utility>

#include "base/start_threads.h"

namespace isotherm {

WorkerPool::WorkerPool(uint32_t threads) {
  if (threads > 1)
    start_threads(threads_, threads - 1, [this](uint32_t i) { wait_for_work(i + 1); });
}

WorkerPool::~WorkerPool() {
  ends_.store(true, std::memory_order_relaxed);
  run_.fetch_add(1, std::memory_order_release);
  run_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::run(const Job& job, uint32_t pieces) {
  job_ = job;
  pieces_ = pieces;
  undone_.store(pieces, std::memory_order_relaxed);
  const uint32_t number = run_.load(std::memory_order_relaxed) + 1;
  left_.store(uint64_t{number} << 32 | pieces, std::memory_order_release);
  // Threads that are not told of a number take nothing of its run, so one piece is the caller's.
  // The order of all such stores: `notify_all` looks behind it who waits.
  if (pieces > 1 && !threads_.empty()) {
    run_.store(number, std::memory_order_seq_cst);
    run_.notify_all();
  }
  take_pieces(0, number);
  for (uint32_t left; (left = undone_.load(std::memory_order_acquire)) != 0;) undone_.wait(left);
  if (failed_ != nullptr) std::rethrow_exception(std::exchange(failed_, nullptr));
}

void WorkerPool::wait_for_work(uint32_t worker) {
  for (uint32_t last = 0;;) {
    run_.wait(last, std::memory_order_acquire);
    last = run_.load(std::memory_order_acquire);
    if (ends_.load(std::memory_order_relaxed)) return;
    take_pieces(worker, last);
  }
}

// A piece of this run, and how many were left with it; false: there is none any more.
bool WorkerPool::take(uint32_t number, uint32_t& left) {
  uint64_t seen = left_.load(std::memory_order_relaxed);
  do {
    left = static_cast<uint32_t>(seen);
    if (seen >> 32 != number || left == 0) return false;
  } while (!left_.compare_exchange_weak(seen, seen - 1, std::memory_order_acquire,
                                        std::memory_order_relaxed));
  return true;
}

void WorkerPool::take_pieces(uint32_t worker, uint32_t number) {
  for (uint32_t left; take(number, left);) {
    try {
      job_(pieces_ - left, worker);
    } catch (...) {
      const std::lock_guard guard(mutex_);
      if (failed_ == nullptr) failed_ = std::current_exception();
    }
    if (undone_.fetch_sub(1, std::memory_order_acq_rel) == 1) undone_.notify_one();
  }
}

}  // namespace isotherm
