// The pass over a share of a round (executor/device/rounds.h): rows whose roots the device has
// found are answered in order, with their items prefetched some rows ahead.
#pragma once

#include "executor/device/rounds.h"
#include "executor/host/host_executor.h"

namespace isotherm {

// The device's key for a hash in a database: databases share one index, so that the same hash in
// two of them must not be the same key.
inline uint64_t key_on_device(uint64_t hash, uint32_t database) {
  return hash ^ mix(database, 0);  // 0 for the first
}

// Answers rows of `run`, in the order of their numbers: `numbers[0 … count)`, or 0 … count where
// that is null. `found` has them by their numbers. Number n is the row `rows[n]`, or n where that
// is null.
void run_round_stages(HostExecutor::Run& run, const RoundShare& share, const RootColumns& found,
                      const uint32_t* numbers, uint32_t count, const uint32_t* rows);

}  // namespace isotherm
