// OfOneProcess: what belongs to the process that made it, and not to the children that it forks.
//
// A child has none of its parent's other threads, but the locks that these held at the fork, and
// what they had half written; a GPU's memory it does not have at all. So in a child each use is an
// error in words, before it can wait for a thread that is not there, and the end is left out: the
// memory goes with the process. But what is said to be for `ReadInChildren` can be read there if no
// thread was in a call at the fork: reads take no lock that a thread of the library's own holds.
//
// Whoever forks from Python has the GIL, so threads in calls are those that have given it up for
// them (GilReleased in arrays.h).
//
// Threads. Any; `count_forks` is called once, when the module is loaded.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

namespace isotherm::python {

// How many forks lie between this process and the one that has loaded the module; at how many of
// them threads were in calls; and how many are now.
inline std::atomic<uint64_t> forks{0};
inline std::atomic<uint64_t> busy_forks{0};
inline std::atomic<uint64_t> calls_without_gil{0};

inline void count_forks() {
  static bool busy = false;
  const auto before = [] { busy = calls_without_gil.load(std::memory_order_relaxed) != 0; };
  const auto in_child = [] {
    forks.fetch_add(1, std::memory_order_relaxed);
    if (busy) busy_forks.fetch_add(1, std::memory_order_relaxed);
    calls_without_gil.store(0, std::memory_order_relaxed);
  };
  if (pthread_atfork(before, nullptr, in_child) != 0) throw std::bad_alloc();
}

struct ReadInChildren {};

template <class Held>
class OfOneProcess {
 public:
  OfOneProcess() = default;
  explicit OfOneProcess(std::unique_ptr<Held> held) : held_(std::move(held)) {}
  OfOneProcess(std::unique_ptr<Held> held, ReadInChildren)
      : held_(std::move(held)), reads_in_children_(true) {}
  ~OfOneProcess() {
    if (in_a_child()) static_cast<void>(held_.release());
  }
  OfOneProcess(OfOneProcess&&) = default;
  OfOneProcess& operator=(OfOneProcess&&) = default;

  // Whether this is a child of the process that made it.
  bool in_a_child() const { return made_in_ != forks.load(std::memory_order_relaxed); }
  Held* operator->() const {
    if (in_a_child()) refuse();
    return held_.get();
  }
  Held& operator*() const { return *operator->(); }

  // For what reads only.
  Held& to_read() const {
    if (in_a_child() && !(reads_in_children_ && was_idle())) refuse();
    return *held_;
  }

 private:
  // At all forks since it was made.
  bool was_idle() const { return busy_before_ == busy_forks.load(std::memory_order_relaxed); }
  [[noreturn]] static void refuse() {
    throw std::runtime_error(
        "the table or store was made before this process was forked and belongs to its parent; "
        "start processes with 'spawn', and send tables by pickle or by save");
  }

  std::unique_ptr<Held> held_;
  uint64_t made_in_ = forks.load(std::memory_order_relaxed);
  uint64_t busy_before_ = busy_forks.load(std::memory_order_relaxed);
  bool reads_in_children_ = false;
};

}  // namespace isotherm::python
