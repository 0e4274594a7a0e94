// FixedRun and FixedLoops: how the code for arrays of a FixedTable, and for requests of any
// operations, is called, one set of loops per instruction set; see fixed_stages.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "index/fixed_index.h"
#include "isotherm/table_requests.h"

namespace isotherm {

// One call over arrays; absent columns are null.
struct FixedRun {
  FixedIndex& index;
  const uint64_t* keys;
  size_t rows;
  const uint64_t* values = nullptr;  // to store
  uint64_t* values_out = nullptr;    // found, or previous
  uint8_t* found_out = nullptr;
  bool only_absent = false;  // put: leave present keys alone; found_out: stored or not
};

// Rows that a loop answered before memory ended, and how many keys were found.
struct FixedDone {
  size_t rows = 0;
  size_t found = 0;
};

// The loops of one instruction set.
struct FixedLoops {
  FixedDone (*get)(const FixedRun&);
  FixedDone (*put)(const FixedRun&);
  FixedDone (*erase)(const FixedRun&);
  // One request after the other; where memory ends it is answered reply_retry and does nothing.
  void (*answer)(FixedIndex&, const TableRequests&);
};

extern const FixedLoops fixed_loops_plain;
extern const FixedLoops fixed_loops_avx2;
extern const FixedLoops fixed_loops_avx512;

// The best for this processor.
const FixedLoops& fixed_loops();

}  // namespace isotherm
