// SegmentJob: one whole segment of a table, for kernels that go over all its chains between
// batches; and how tiles go over the lines of any such jobs.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/tile_lanes.h"
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

// Calls work(job, number) once, in all lanes of one tile, for the number of each home line of each
// job's segment.
template <class Job, class Lane, class Work>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void each_home_line(const Lane& lane, const Job* jobs,
                                                         uint32_t job_count, int line_bits,
                                                         Work&& work) {
  const uint64_t lines = uint64_t{job_count} << line_bits;
  const uint64_t stride = uint64_t{lane.blocks()} * lane.threads() / tile_lanes;
  const uint64_t first = (uint64_t{lane.block()} * lane.threads() + lane.thread()) / tile_lanes;
  for (uint64_t i = first; i < lines; i += stride) {
    work(jobs[i >> line_bits], i & ((uint64_t{1} << line_bits) - 1));
  }
}

}  // namespace isotherm
