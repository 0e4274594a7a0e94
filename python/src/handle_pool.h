// HandlePool: handles of a table or store, lent to the calls of any number of threads.
//
// A handle belongs to one thread at a time, and there are 256 at most; Python's threads come and
// go. A call borrows one, and waits where all are out. Borrowers of tables give their handle back
// before they take the GIL again, so one that has the GIL may wait for them; borrowers of stores do
// not, and whoever waits for them gives up the GIL meanwhile (`with_gil`).
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "arrays.h"

namespace isotherm::python {

template <class Owner, class Handle>
class HandlePool {
 public:
  static constexpr size_t most = 240;

  explicit HandlePool(Owner& owner) : owner_(owner) {}

  class Lease {
   public:
    explicit Lease(HandlePool& pool) : pool_(pool), handle_(pool.take(true)) {}
    static Lease with_gil(HandlePool& pool) {
      std::unique_ptr<Handle> handle = pool.take(false);
      if (handle == nullptr) {
        const GilReleased released(GilReleased::worth_bytes);
        handle = pool.take(true);
      }
      return Lease(pool, std::move(handle));
    }
    ~Lease() { pool_.give(std::move(handle_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Handle* operator->() const { return handle_.get(); }
    Handle& operator*() const { return *handle_; }

   private:
    Lease(HandlePool& pool, std::unique_ptr<Handle> handle)
        : pool_(pool), handle_(std::move(handle)) {}

    HandlePool& pool_;
    std::unique_ptr<Handle> handle_;
  };

 private:
  // Null where all are out, unless it is to wait.
  std::unique_ptr<Handle> take(bool wait) {
    std::unique_lock lock(mutex_);
    const auto can = [&] { return !free_.empty() || made_ < most; };
    if (!wait && !can()) return nullptr;
    given_.wait(lock, can);
    if (free_.empty()) {
      free_.reserve(made_ + 1);  // so that giving back needs no memory
      auto handle = std::make_unique<Handle>(owner_);
      ++made_;
      return handle;
    }
    std::unique_ptr<Handle> handle = std::move(free_.back());
    free_.pop_back();
    return handle;
  }
  void give(std::unique_ptr<Handle> handle) {
    {
      const std::lock_guard lock(mutex_);
      free_.push_back(std::move(handle));
    }
    given_.notify_one();
  }

  Owner& owner_;
  std::mutex mutex_;
  std::condition_variable given_;
  std::vector<std::unique_ptr<Handle>> free_;
  size_t made_ = 0;
};

}  // namespace isotherm::python
