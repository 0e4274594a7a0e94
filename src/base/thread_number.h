// A number of the calling thread's own, the smallest that no other thread has: so threads that look
// for a place from their number on find each its own, and the places of few threads are the first
// ones.
//
// A thread gets its number when it first asks, and gives it back when it ends, for another one to
// have. If it asks once more while it ends, it has none.
#pragma once

#include <cstdint>

namespace isotherm {

inline constexpr uint32_t no_thread_number = uint32_t{1} << 31;  // and those behind it
inline constexpr uint32_t undecided_thread_number = no_thread_number + 1;
inline thread_local uint32_t own_thread_number = undecided_thread_number;
uint32_t take_thread_number();

inline uint32_t thread_number() {
  const uint32_t own = own_thread_number;
  return own != undecided_thread_number ? own : take_thread_number();
}

// The first of so many places that `takes` says it has taken, looked for from the thread's own on;
// `places`: none.
template <class Takes>
uint32_t find_place(uint32_t places, Takes&& takes) {
  const uint32_t own = thread_number() % places;
  for (uint32_t i = 0, at = own; i < places; ++i, at = at + 1 == places ? 0 : at + 1) {
    if (takes(at)) return at;
  }
  return places;
}

}  // namespace isotherm
