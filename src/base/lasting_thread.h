// lasting_thread: a thread that lives as long as its owner, whatever becomes of memory.
//
// What malloc has for a thread it takes at the thread's first call, and jemalloc ends the process
// where there is no memory for that. A thread that sleeps until it is needed, for a snapshot say,
// makes its first call when the store may have taken all that a limit allows. So it makes one
// before its owner goes on, at the start of the program, when there is memory.
#pragma once

#include <cstdlib>
#include <future>
#include <thread>
#include <utility>

namespace isotherm {

// Throws as std::thread does.
template <class Work>
std::thread lasting_thread(Work work) {
  std::promise<void> begun;
  std::future<void> begins = begun.get_future();
  std::thread thread([begun = std::move(begun), work = std::move(work)]() mutable {
    void* volatile first = std::malloc(1);  // volatile: a compiler would leave the call out
    std::free(first);
    begun.set_value();
    work();
  });
  begins.wait();
  return thread;
}

}  // namespace isotherm
