// start_threads: as many threads as the system and memory give, up to a count.
#pragma once

#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "base/lasting_thread.h"

namespace isotherm {

// Each runs `work(i)`, i from 0 on; perhaps there are none.
template <class Work>
void start_threads(std::vector<std::thread>& threads, uint32_t count, const Work& work) {
  try {
    threads.reserve(count);
    for (uint32_t i = 0; i < count; ++i) threads.push_back(lasting_thread([work, i] { work(i); }));
  } catch (const std::exception&) {
    // Fewer will do.
  }
}

}  // namespace isotherm
