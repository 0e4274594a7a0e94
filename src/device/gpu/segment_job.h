// SegmentJob: one whole segment of a table, for kernels that go over all its chains between
// batches.
#pragma once

#include <cstdint>

#include "index/bucket.h"

namespace isotherm {

struct SegmentJob {
  Bucket* lines = nullptr;
  int depth = 0;
  uint64_t first_hash = 0;  // its prefix, in the top bits

  // The least hash that belongs to a line.
  ISOTHERM_HOST_DEVICE uint64_t hash_of_line(uint64_t number, int line_bits) const {
    return first_hash | number << (64 - depth - line_bits);
  }
};

}  // namespace isotherm
