// FailingMemory: makes one operator new of this thread fail, so that a test can try each of them in
// turn. server/allocation_test.cc has the operator.
//
// Threads. Each has a count of its own.
#pragma once

#include <cstdint>
#include <utility>

namespace isotherm {

class FailingMemory {
 public:
  // From now on the operator works so many times, fails once, and works again.
  explicit FailingMemory(int64_t works) { left = works; }
  ~FailingMemory() { left = never; }
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;

  // What a test's own parts take works, and is not counted.
  class Pause {
   public:
    Pause() : before_(std::exchange(left, never)) {}
    ~Pause() { left = before_; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    int64_t before_;
  };

  // Whether it has failed.
  static bool failed() { return left == never; }
  // Of the operator: whether it is to fail.
  static bool fails() { return left != never && left-- == 0; }

 private:
  static constexpr int64_t never = -1;
  static inline thread_local int64_t left = never;
};

}  // namespace isotherm
