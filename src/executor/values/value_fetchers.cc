#include "executor/values/value_fetchers.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/start_threads.h"

namespace isotherm {

ValueFetchers::ValueFetchers(uint32_t threads, std::function<void(ValueReader&)> finish)
    : finish_(std::move(finish)) {
  start_threads(threads_, threads, [this](uint32_t) { work(); });
  if (threads_.empty()) throw std::system_error(EAGAIN, std::generic_category(), "no threads");
}

ValueFetchers::~ValueFetchers() {
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ValueFetchers::fetch(ValueReader& reader, Awaited::Waiter& waiter) {
  {
    const std::lock_guard guard(mutex_);
    jobs_.push_back({&reader, &waiter});
  }
  changed_.notify_one();
}

void ValueFetchers::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const Job job = jobs_.front();
    jobs_.erase(jobs_.begin());
    lock.unlock();
    finish_(*job.reader);
    job.waiter->there();
    lock.lock();
  }
}

}  // namespace isotherm
