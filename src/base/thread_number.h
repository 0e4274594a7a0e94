// A number of the calling thread's own, for a hint at which of several places it should look first,
// so that threads that come again and again find each their own.
#pragma once

#include <atomic>
#include <cstdint>

namespace isotherm {

inline uint32_t thread_number() {
  static std::atomic<uint32_t> threads{0};
  thread_local const uint32_t number = threads.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace isotherm
