#include "items/pages_ahead.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <system_error>
#include <utility>

namespace isotherm {
namespace {

// Signals are for the threads that the program knows.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

PagesAhead::PagesAhead(std::function<uint64_t()> make, MemoryBudget& budget)
    : make_(std::move(make)), budget_(budget) {
  ready_.reserve(most_ready);
}

PagesAhead::~PagesAhead() {
  if (thread_.joinable()) {
    if (process_ != getpid()) {
      thread_.detach();  // nobody would ever join
    } else {
      {
        std::lock_guard guard(mutex_);
        stopping_ = true;
      }
      wake_.notify_one();
      thread_.join();
    }
  }
  account(-static_cast<int64_t>(ready_.size()));
}

uint64_t PagesAhead::take(uint64_t pages) {
  uint64_t page = npos;
  {
    std::lock_guard guard(mutex_);
    if (!started_) {
      if (pages >= least_pages) start();
      return npos;
    }
    if (!ready_.empty()) page = pop();
  }
  wake_.notify_one();
  return page;
}

uint64_t PagesAhead::trim() {
  if (budget_.ahead.load(std::memory_order_relaxed) == 0) return npos;
  std::lock_guard guard(mutex_);
  return ready_.empty() || budget_.fits(ready_.size() * page_bytes) ? npos : pop();
}

uint64_t PagesAhead::held() const {
  std::lock_guard guard(mutex_);
  return ready_.size() + (making_ ? 1 : 0);
}

// A machine that has no thread to spare serves pages that are not ready.
void PagesAhead::start() {
  started_ = true;
  process_ = getpid();
  const SignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
  }
}

void PagesAhead::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!wanted()) {
      wake_.wait(lock);
      continue;
    }
    making_ = true;
    lock.unlock();
    const uint64_t page = make_();
    lock.lock();
    making_ = false;
    if (page != npos) {
      ready_.push_back(page);
      account(1);
    } else if (!stopping_) {
      wake_.wait(lock);
    }
  }
}

bool PagesAhead::wanted() const {
  return ready_.size() < most_ready && budget_.fits(2 * most_ready * page_bytes);
}

void PagesAhead::account(int64_t pages) {
  budget_.ahead.fetch_add(pages * static_cast<int64_t>(page_bytes), std::memory_order_relaxed);
}

uint64_t PagesAhead::pop() {
  const uint64_t page = ready_.front();
  ready_.erase(ready_.begin());
  account(-1);
  return page;
}

}  // namespace isotherm
