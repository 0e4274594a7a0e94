// DbWorkers: workers of an engine for any number of threads: each call of a Db borrows one, with a
// batch, and waits where all are out.
//
// An idle worker lies in a slot. A thread has a slot of its own, where it looks first and which it
// gives back to, so threads that call again and again share nothing.
//
// Threads. Any; what was borrowed belongs to the one that borrowed it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/thread_number.h"
#include "engine/engine.h"
#include "isotherm/batch.h"

namespace isotherm {

class DbWorkers {
  struct One {
    explicit One(Engine& engine) : worker(engine) { batch.emplace(); }
    Worker worker;
    std::optional<Batch> batch;
  };

 public:
  // Gives the worker back, and what its batch has held.
  class Lease {
   public:
    explicit Lease(DbWorkers& workers) : workers_(workers), one_(workers.take()) {}
    // Null where all are out: for who must not wait, since he has another one.
    static std::unique_ptr<Lease> without_waiting(DbWorkers& workers) {
      std::unique_ptr<One> one = workers.take_free();
      return one == nullptr ? nullptr : std::unique_ptr<Lease>(new Lease(workers, std::move(one)));
    }
    ~Lease() {
      if (used_) clear();
      workers_.give_back(std::move(one_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    Worker& worker() { return one_->worker; }
    Batch& batch() {
      used_ = true;
      return *one_->batch;
    }
    void submit() { one_->worker.submit(batch()); }
    // Forgets the rows, of which so many bytes were written. `pool`: whose threads free very many;
    // may be null.
    void clear(uint64_t bytes = 0, WorkerPool* pool = nullptr) {
      const uint64_t rows = one_->batch->size();
      one_->batch->clear();
      one_->worker.maintain_behind(rows, bytes);
      if (one_->batch->memory() > most_kept) {
        if (pool != nullptr) one_->batch->free_columns(*pool);
        one_->batch.emplace();
      }
      used_ = false;
    }

   private:
    Lease(DbWorkers& workers, std::unique_ptr<One> one) : workers_(workers), one_(std::move(one)) {}
    static constexpr size_t most_kept = 1 << 20;
    DbWorkers& workers_;
    std::unique_ptr<One> one_;
    bool used_ = false;  // its batch, since it was clear
  };

  DbWorkers(Engine& engine, uint32_t most)
      : engine_(engine), most_(most), slots_(std::make_unique<Slot[]>(most)) {}
  // All were given back.
  ~DbWorkers() {
    for (uint32_t i = 0; i < most_; ++i) delete slots_[i].idle.load();
  }
  DbWorkers(const DbWorkers&) = delete;
  DbWorkers& operator=(const DbWorkers&) = delete;

 private:
  struct alignas(64) Slot {
    std::atomic<One*> idle{nullptr};
  };

  std::unique_ptr<One> find() {
    One* one = nullptr;
    find_place(most_, [&](uint32_t at) {
      std::atomic<One*>& idle = slots_[at].idle;
      return idle.load() != nullptr && (one = idle.exchange(nullptr)) != nullptr;
    });
    return std::unique_ptr<One>(one);
  }
  std::unique_ptr<One> take_free() {
    if (auto one = find()) return one;
    const std::lock_guard guard(mutex_);
    if (made_ == most_) return nullptr;
    auto one = std::make_unique<One>(engine_);
    ++made_;
    return one;
  }
  std::unique_ptr<One> take() {
    if (auto one = find()) return one;
    std::unique_lock lock(mutex_);
    if (made_ < most_) {
      auto one = std::make_unique<One>(engine_);
      ++made_;
      return one;
    }
    ++waiting_;
    std::unique_ptr<One> one;
    back_.wait(lock, [&] { return (one = find()) != nullptr; });
    --waiting_;
    return one;
  }
  // There is an empty slot: there are as many as workers.
  void give_back(std::unique_ptr<One> one) {
    One* const its = one.release();
    find_place(most_, [&](uint32_t at) {
      One* none = nullptr;
      return slots_[at].idle.compare_exchange_strong(none, its);
    });
    // Who waits has counted itself before it looked into the slots for the last time.
    if (waiting_.load() == 0) return;
    const std::lock_guard guard(mutex_);
    back_.notify_one();
  }

  Engine& engine_;
  const uint32_t most_;
  const std::unique_ptr<Slot[]> slots_;
  std::atomic<uint32_t> waiting_{0};
  std::mutex mutex_;  // of what follows
  std::condition_variable back_;
  uint32_t made_ = 0;
};

}  // namespace isotherm
