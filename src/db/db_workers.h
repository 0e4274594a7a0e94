// DbWorkers: workers of an engine for any number of threads: each call of a Db borrows one, with a
// batch, and waits where all are out. The one that was given back last is the next to go.
//
// Threads. Any; what was borrowed belongs to the one that borrowed it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

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
    ~Lease() {
      one_->batch->clear();
      if (one_->batch->memory() > most_kept) one_->batch.emplace();
      one_->worker.maintain();
      workers_.give_back(std::move(one_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    Worker& worker() { return one_->worker; }
    Batch& batch() { return *one_->batch; }
    void submit() { one_->worker.submit(*one_->batch); }

   private:
    static constexpr size_t most_kept = 1 << 20;
    DbWorkers& workers_;
    std::unique_ptr<One> one_;
  };

  DbWorkers(Engine& engine, uint32_t most) : engine_(engine), most_(most) { idle_.reserve(most); }

 private:
  std::unique_ptr<One> take() {
    std::unique_lock lock(mutex_);
    if (idle_.empty() && made_ < most_) {
      auto one = std::make_unique<One>(engine_);
      ++made_;
      return one;
    }
    back_.wait(lock, [&] { return !idle_.empty(); });
    auto one = std::move(idle_.back());
    idle_.pop_back();
    return one;
  }
  void give_back(std::unique_ptr<One> one) {
    const std::lock_guard guard(mutex_);
    idle_.push_back(std::move(one));
    back_.notify_one();
  }

  Engine& engine_;
  const uint32_t most_;
  std::mutex mutex_;  // of what follows
  std::condition_variable back_;
  uint32_t made_ = 0;
  std::vector<std::unique_ptr<One>> idle_;
};

}  // namespace isotherm
