// wait_for_memory: repeats work that lacks memory until there is some. For what must be done, since
// something that others see, or that must be seen together with it, is done already. The work must
// leave everything as it was where it throws, and hold no lock that others need to give memory
// back.
#pragma once

#include <chrono>
#include <new>
#include <thread>

namespace isotherm {

template <class Work>
void wait_for_memory(const Work& work) {
  for (;;) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

}  // namespace isotherm
