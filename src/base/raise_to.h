// A number that several threads raise, for all of them to see the largest.
//
// Threads. Any.
#pragma once

#include <atomic>
#include <cstdint>

namespace isotherm {

// Returns what it was. Where it is not raised, nothing is written.
template <class Number>
Number raise_to(std::atomic<Number>& to, Number value,
                std::memory_order order = std::memory_order_release) {
  Number seen = to.load(std::memory_order_relaxed);
  while (seen < value && !to.compare_exchange_weak(seen, value, order)) {
  }
  return seen;
}

}  // namespace isotherm
