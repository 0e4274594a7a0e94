// What all tables on GPUs share: how many GPUs there are, streams, and statistics.
#pragma once

#include <cstdint>

#include "isotherm/table_requests.h"

struct CUstream_st;

namespace isotherm::gpu {

using Stream = CUstream_st*;  // as cudaStream_t

// GPUs that this program can use; 0 where there is none, or no driver.
int count();

struct TableStats {
  uint64_t entries = 0;
  uint64_t bytes = 0;           // of device memory, all in but the work space
  uint64_t workspace = 0;       // bytes that batches with writes work in
  uint64_t overflow_lines = 0;  // linked
  uint64_t segments = 0;
  // Beyond the device's memory: entries that lie on the host, which `entries` counts, too, bytes of
  // host memory, requests that the host has answered, and bins of hashes that have moved.
  uint64_t host_entries = 0;
  uint64_t host_bytes = 0;
  uint64_t host_requests = 0;
  uint64_t bins_to_host = 0;
  uint64_t bins_to_device = 0;
  // Entries that went for others: of an index of a fixed size, and of rows with a score. Of the
  // first also those that moved for others.
  uint64_t evictions = 0;
  uint64_t displaced = 0;
};

}  // namespace isotherm::gpu
