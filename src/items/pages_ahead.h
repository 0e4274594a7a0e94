// PagesAhead: a few pages whose memory the kernel has given before they are needed.
//
// The first write to a fresh page of 2 MiB waits while the kernel clears it: some 0.4 ms, and far
// more where the host of a virtual machine backs memory at its first use. A thread of its own waits
// instead, so that threads which serve requests practically never do: it keeps `most_ready` pages
// and sleeps while there are as many. A thread that asks faster than pages are made gets none here,
// and takes a page that is not ready.
//
// The thread starts when a store asks for its `least_pages`th page, so small stores have none. It
// takes no signals. A child of a fork has no such thread: it uses up the pages that are ready, and
// no more are made.
//
// The account. Ready pages count as used (`MemoryBudget::ahead`), but keep no memory from anybody,
// since the next thread that takes a page gets one of them. None is made unless there is room for
// twice the stock, and `trim` names those that do not fit after all.
//
// Invariants. A page is with its maker, in the stock, or taken.
// Threads. Any; one mutex, never held while a page is made.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "items/memory_budget.h"

namespace isotherm {

class PagesAhead {
 public:
  static constexpr uint64_t npos = ~uint64_t{0};
  static constexpr uint64_t page_bytes = 2 << 20;
  static constexpr uint32_t most_ready = 4;
  static constexpr uint64_t least_pages = 32;

  // `make` gives the offset of a page that is ready, or npos; the thread calls it.
  PagesAhead(std::function<uint64_t()> make, MemoryBudget& budget);
  // Ends the thread; what is ready stays where it is.
  ~PagesAhead();
  PagesAhead(const PagesAhead&) = delete;
  PagesAhead& operator=(const PagesAhead&) = delete;

  // The offset of a ready page, or npos, for a store that has `pages` already.
  uint64_t take(uint64_t pages);
  // A page to give back, since the budget has no room for all that are ready; npos: none.
  uint64_t trim();

  // Pages ready or in the making.
  uint64_t held() const;

 private:
  void start();
  void run();
  bool wanted() const;
  void account(int64_t pages);
  uint64_t pop();

  const std::function<uint64_t()> make_;
  MemoryBudget& budget_;

  mutable std::mutex mutex_;  // all below
  std::condition_variable wake_;
  std::vector<uint64_t> ready_;  // oldest first
  bool making_ = false;
  bool stopping_ = false;
  bool started_ = false;
  pid_t process_ = 0;  // that has the thread
  std::thread thread_;
};

}  // namespace isotherm
