// ValueFetchers: threads that fetch what readers await (executor/values/value_reader.h), so that
// nobody else waits for it: neither a network thread nor a round.
//
// Each takes a reader at a time, whose channel is its own, so as many fetches are under way as
// there are threads. A reader that is taken fetches all that its batch awaits.
//
// Threads. `fetch` may be called by any. The destructor ends what was begun.
// Limits. As many readers as there are batches under way.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "executor/awaited.h"

namespace isotherm {

class ValueReader;

class ValueFetchers {
 public:
  // `finish` ends what a reader awaits, and sees to it where a device fails. Throws
  // std::system_error without a thread.
  ValueFetchers(uint32_t threads, std::function<void(ValueReader&)> finish);
  ~ValueFetchers();
  ValueFetchers(const ValueFetchers&) = delete;
  ValueFetchers& operator=(const ValueFetchers&) = delete;

  // Tells the waiter when it is done.
  void fetch(ValueReader& reader, Awaited::Waiter& waiter);

 private:
  struct Job {
    ValueReader* reader;
    Awaited::Waiter* waiter;
  };
  void work();

  const std::function<void(ValueReader&)> finish_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<Job> jobs_;  // the oldest first; there are few
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace isotherm
