// WorkerPool: a few threads that share the pieces of one job with the thread that brings it.
//
//   WorkerPool pool(8);                                  // the caller and seven others
//   pool.run(31, [&](uint32_t piece, uint32_t worker) { … });
//
// Each piece is taken once, by any free thread; `run` returns when all are done, whether or not
// every thread has come: one that the system lets run late finds its share done by others. A
// worker's number is below the number of threads, and no two threads have the same number at a
// time; the caller's is 0, and a piece alone is the caller's. Between two runs the threads sleep.
//
// Threads. One at a time. Errors. If the system gives fewer threads, these do all the work, at the
// least the caller alone. A run takes no memory. Where work throws, the other pieces are done all
// the same, and `run` throws the first exception then.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace isotherm {

class WorkerPool {
 public:
  // At least one thread, the caller's.
  explicit WorkerPool(uint32_t threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // The caller among them.
  uint32_t threads() const { return static_cast<uint32_t>(threads_.size()) + 1; }
  // `work(piece, worker)` for each piece.
  template <class Work>
  void run(uint32_t pieces, const Work& work) {
    run({&work, [](const void* its, uint32_t piece,
                   uint32_t worker) { (*static_cast<const Work*>(its))(piece, worker); }},
        pieces);
  }

 private:
  struct Job {
    const void* work = nullptr;
    void (*call)(const void* work, uint32_t piece, uint32_t worker) = nullptr;

    void operator()(uint32_t piece, uint32_t worker) const { call(work, piece, worker); }
  };

  void run(const Job& job, uint32_t pieces);
  void wait_for_work(uint32_t worker);
  void take_pieces(uint32_t worker, uint32_t number);
  bool take(uint32_t number, uint32_t& left);

  // The run under way. Who has a piece of it may read them.
  Job job_;
  uint32_t pieces_ = 0;
  std::atomic<uint64_t> left_{0};    // its number << 32 | pieces that nobody has taken
  std::atomic<uint32_t> undone_{0};  // pieces
  std::atomic<uint32_t> run_{0};     // its number
  std::atomic<bool> ends_{false};
  std::mutex mutex_;  // of what follows
  std::exception_ptr failed_;
  std::vector<std::thread> threads_;
};

// `work(first, end)` for pieces of `count` rows, of `at_once` each: by the threads of the pool, or,
// where it is null, by the caller for all of them.
template <class Work>
void run_pieces(WorkerPool* pool, uint32_t count, uint32_t at_once, const Work& work) {
  if (pool == nullptr) return work(uint32_t{0}, count);
  pool->run(count / at_once + 1, [&](uint32_t piece, uint32_t) {
    const uint32_t first = piece * at_once;
    work(first, first + std::min(at_once, count - first));
  });
}

}  // namespace isotherm
