#include "base/worker_pool.h"

#include <utility>

#include "base/start_threads.h"

namespace isotherm {

WorkerPool::WorkerPool(uint32_t threads) {
  if (threads > 1)
    start_threads(threads_, threads - 1, [this](uint32_t i) { wait_for_work(i + 1); });
}

WorkerPool::~WorkerPool() {
  ends_ = true;
  run_.fetch_add(1, std::memory_order_release);
  run_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::run(const Job& job, uint32_t pieces) {
  job_ = job;
  pieces_ = pieces;
  next_.store(0, std::memory_order_relaxed);
  if (pieces > 1 && !threads_.empty()) {
    busy_.store(static_cast<uint32_t>(threads_.size()), std::memory_order_relaxed);
    run_.fetch_add(1, std::memory_order_release);
    run_.notify_all();
  }
  take_pieces(0);
  for (uint32_t busy; (busy = busy_.load(std::memory_order_acquire)) != 0;) busy_.wait(busy);
  if (failed_ != nullptr) std::rethrow_exception(std::exchange(failed_, nullptr));
}

void WorkerPool::wait_for_work(uint32_t worker) {
  for (uint32_t last = 0;; ++last) {
    run_.wait(last, std::memory_order_acquire);
    if (ends_) return;
    take_pieces(worker);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

void WorkerPool::take_pieces(uint32_t worker) {
  for (;;) {
    const uint32_t piece = next_.fetch_add(1, std::memory_order_relaxed);
    if (piece >= pieces_) return;
    try {
      job_(piece, worker);
    } catch (...) {
      const std::lock_guard guard(mutex_);
      if (failed_ == nullptr) failed_ = std::current_exception();
    }
  }
}

}  // namespace isotherm
