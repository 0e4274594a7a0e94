#include "base/worker_pool.h"

#include <system_error>

namespace isotherm {

WorkerPool::WorkerPool(uint32_t threads) {
  threads_.reserve(threads);
  try {
    for (uint32_t worker = 1; worker < threads; ++worker) {
      threads_.emplace_back([this, worker] { wait_for_work(worker); });
    }
  } catch (const std::system_error&) {  // as many as the system gives
  }
}

WorkerPool::~WorkerPool() {
  ends_ = true;
  run_.fetch_add(1, std::memory_order_release);
  run_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::run(const Job& job, uint32_t pieces) {
  if (pieces <= 1 || threads_.empty()) {
    for (uint32_t piece = 0; piece < pieces; ++piece) job(piece, 0);
    return;
  }
  job_ = job;
  pieces_ = pieces;
  next_.store(0, std::memory_order_relaxed);
  busy_.store(static_cast<uint32_t>(threads_.size()), std::memory_order_relaxed);
  run_.fetch_add(1, std::memory_order_release);
  run_.notify_all();
  take_pieces(0);
  for (uint32_t busy; (busy = busy_.load(std::memory_order_acquire)) != 0;) busy_.wait(busy);
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
    job_(piece, worker);
  }
}

}  // namespace isotherm
