// FakeFiber: a stack of its own on which tasks run until they switch away.
//
// The lanes of the fake device are fibers: thousands of them take turns on one thread, and each
// continues where it stopped. A fiber keeps its stack and runs one task after another:
//   start(task, argument)   the next switch to the fiber begins the task
//   switch_to(from, to)     stops in `from` and goes on in `to`; returns when somebody switches
//   back
// A task that ends names the fiber to go on in. A thread's own stack is a FakeFiber, too.
//
// A switch saves the six registers that a call preserves, and the stack pointer, in a few lines of
// assembly; swapcontext would enter the kernel at each switch to save a signal mask that nobody
// changes. The address sanitizer is told of every switch, since a stack has a shadow there. The
// thread sanitizer is not: to it, what runs in turns on one thread is one thread, which is right.
// The call stacks in its reports mix those of several fibers then.
//
// Fibers are lent: `take` gives one that waits for a task, and who has it gives it back with that.
// Tests make thousands of devices, and the kernel and the address sanitizer, which has a shadow for
// each stack, would take longer over new stacks than the lanes over their tasks.
//
// Below each stack lies a page that nobody may touch. Exceptions must not leave a task.
//
// Threads. A fiber may go on on another thread than it stopped on, but runs on one at a time.
// Limits. x86-64, System V.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace isotherm {

class FakeFiber {
 public:
  using Task = FakeFiber& (*)(void* argument);

  struct GiveBack {
    void operator()(FakeFiber* fiber) const;
  };
  using Lent = std::unique_ptr<FakeFiber, GiveBack>;

  // The stack of the thread that calls.
  FakeFiber() = default;
  ~FakeFiber();
  // One with a stack of its own. It is given back when it has ended its task, or never had one.
  static Lent take();
  FakeFiber(const FakeFiber&) = delete;
  FakeFiber& operator=(const FakeFiber&) = delete;

  void start(Task task, void* argument) {
    task_ = task;
    argument_ = argument;
  }
  static void switch_to(FakeFiber& from, FakeFiber& to);

 private:
  class Spare;
  static Spare& spare();
  explicit FakeFiber(uint32_t number);
  static void run(FakeFiber* self);
  void arrive();
  void map_stack();
  void end_run();

  void* stack_pointer_ = nullptr;
  char* mapping_ = nullptr;             // of the stack; null for the thread's own
  const void* stack_bottom_ = nullptr;  // what the address sanitizer is told
  size_t stack_bytes_ = 0;
  FakeFiber* came_from_ = nullptr;
  [[maybe_unused]] void* shadow_stack_ = nullptr;  // address sanitizer
  Task task_ = nullptr;
  void* argument_ = nullptr;
  bool runs_ = false;  // `run` has begun
  bool ending_ = false;
};

}  // namespace isotherm
