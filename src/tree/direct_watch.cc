#include "tree/direct_watch.h"

#include <cstdint>

#include "base/start_threads.h"

namespace isotherm {

DirectWatch::DirectWatch(bool serves) {
  start_threads(threads_, serves ? 1 : 0, [this](uint32_t) { work(); });
}

DirectWatch::~DirectWatch() {
  {
    const std::lock_guard guard(mutex_);
    stops_ = true;
  }
  changed_.notify_one();
  for (std::thread& thread : threads_) thread.join();
}

void DirectWatch::watch(DirectGets& gets, Awaited::Waiter& waiter) {
  std::list<One> one{{&gets, &waiter}};
  {
    const std::lock_guard guard(mutex_);
    news_.splice(news_.end(), one);
    has_news_.store(true, std::memory_order_relaxed);
  }
  changed_.notify_one();
}

void DirectWatch::work() {
  constexpr uint32_t often = 1 << 8;
  uint32_t looks = 0;
  while (take_news()) {
    std::erase_if(under_way_, [](const One& one) {
      if (!one.gets->done()) return false;
      one.waiter->there();
      return true;
    });
    if (++looks % often == 0) std::this_thread::yield();
  }
}

// Waits for some where nothing is under way; false: it ends.
bool DirectWatch::take_news() {
  if (!under_way_.empty() && !has_news_.load(std::memory_order_relaxed)) return true;
  std::unique_lock lock(mutex_);
  if (under_way_.empty()) {
    changed_.wait(lock, [this] { return stops_ || !news_.empty(); });
    if (news_.empty()) return false;
  }
  under_way_.splice(under_way_.end(), news_);
  has_news_.store(false, std::memory_order_relaxed);
  return true;
}

}  // namespace isotherm
