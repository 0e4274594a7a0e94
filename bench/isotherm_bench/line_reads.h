// Line reads: how many random lines of 128 bytes the machine reads a second.
//
// The limit of any table that reads one line a lookup, measured in the same run as what is held
// against it: memory in huge pages where there are any, addresses drawn at random and independent
// of each other, so the processor overlaps as many reads as it can.
#pragma once

#include <cstdint>

namespace isotherm::bench {

// All threads together; 0 where the memory cannot be had.
double random_line_reads(uint64_t bytes, uint32_t threads, double seconds);

}  // namespace isotherm::bench
