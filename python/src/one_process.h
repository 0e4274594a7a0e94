// OfOneProcess: what belongs to the process that made it, and not to the children that it forks.
//
// A child has none of its parent's other threads, but the locks that these held at the fork, and
// what they had half written; a GPU's memory it does not have at all. So in a child each use is an
// error in words, before it can wait for a thread that is not there, and the end is left out: the
// memory goes with the process.
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

// How many forks lie between this process and the one that has loaded the module.
inline std::atomic<uint64_t> forks{0};

inline void count_forks() {
  const auto in_child = [] { forks.fetch_add(1, std::memory_order_relaxed); };
  if (pthread_atfork(nullptr, nullptr, in_child) != 0) throw std::bad_alloc();
}

template <class Held>
class OfOneProcess {
 public:
  OfOneProcess() = default;
  explicit OfOneProcess(std::unique_ptr<Held> held) : held_(std::move(held)) {}
  ~OfOneProcess() {
    if (in_a_child()) static_cast<void>(held_.release());
  }
  OfOneProcess(OfOneProcess&&) = default;
  OfOneProcess& operator=(OfOneProcess&&) = default;

  // Whether this is a child of the process that made it.
  bool in_a_child() const { return made_in_ != forks.load(std::memory_order_relaxed); }
  Held* operator->() const {
    if (in_a_child()) {
      throw std::runtime_error(
          "the table or store was made before this process was forked and belongs to its parent; "
          "start processes with 'spawn', and send tables by pickle or by save");
    }
    return held_.get();
  }
  Held& operator*() const { return *operator->(); }

 private:
  std::unique_ptr<Held> held_;
  uint64_t made_in_ = forks.load(std::memory_order_relaxed);
};

}  // namespace isotherm::python
