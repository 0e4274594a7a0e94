// EventLog: lines for who runs the store, told by what has failed or works again.
//
// What is told before anybody listens, the first listener hears: the first `most_kept` lines.
//
// Threads. Any; a listener is called by the thread that tells, without a lock.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace isotherm {

class EventLog {
 public:
  using Listener = std::function<void(const std::string& line)>;

  static constexpr size_t most_kept = 16;

  // In place of the listener before; null: nobody.
  void listen(const Listener& listener) {
    std::vector<std::string> missed;
    {
      const std::lock_guard guard(mutex_);
      listener_ = listener;
      if (listener) missed.swap(kept_);
    }
    for (const std::string& line : missed) listener(line);
  }
  void tell(const std::string& line) {
    Listener listener;
    {
      const std::lock_guard guard(mutex_);
      listener = listener_;
      if (!listener && kept_.size() < most_kept) kept_.push_back(line);
    }
    if (listener) listener(line);
  }

 private:
  std::mutex mutex_;
  Listener listener_;
  std::vector<std::string> kept_;
};

}  // namespace isotherm
