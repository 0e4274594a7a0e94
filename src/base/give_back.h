// give_back: the memory of a range that is not used for now goes back to the system.
//
// The whole pages within it read as zeros from then on, and take memory again where they are
// written; the bytes before and behind these keep what they have. It is memory of `new` or of a
// mapping of its own.
//
// Threads. Any; others may read and write the range meanwhile, if they can do with the zeros.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace isotherm {

inline void give_back(void* from, void* to) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = (reinterpret_cast<uintptr_t>(from) + page - 1) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(to) / page * page;
  // What the system does not take stays, which costs memory and nothing else.
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

}  // namespace isotherm
