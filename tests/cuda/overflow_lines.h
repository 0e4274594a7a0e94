// OverflowLines: overflow lines in device memory, handed out by a counter.
//
// A kernel takes from `free`, in order, and gives lines back to `returned`; what was returned can
// be taken again in the next batch, when the owner has put it on the free list
// (cuda/device_lines.h). So no line is taken and given at the same time, and two counters are all
// the synchronisation there is.
#pragma once

#include <cstdint>

#include "index/bucket.h"

namespace isotherm {

// Trivially copyable, for kernels.
struct OverflowLines {
  Bucket* const* free = nullptr;  // `count` cleared lines
  uint64_t count = 0;
  unsigned long long* taken = nullptr;  // may pass `count` when all are taken
  Bucket** returned = nullptr;
  unsigned long long* given = nullptr;
};

}  // namespace isotherm
