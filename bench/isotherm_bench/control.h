// Control: how the thread that measures steers the threads that load.
//
// Phases go one way: prepare (connections are made), warm_up (load without counting), measure,
// stop (no new commands; what is on its way is awaited). Load threads look at the phase once a
// turn.
//
// Threads. Shared by all; the first failure wins and stops everybody.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "isotherm_bench/histogram.h"

namespace isotherm::bench {

int64_t now_ns();  // the monotonic clock

// How long the thread that measures sleeps between two looks.
inline constexpr uint32_t poll_us = 2'000;

enum class Phase : uint8_t { prepare, warm_up, measure, stop };

struct Control {
  std::atomic<Phase> phase{Phase::prepare};
  std::atomic<int64_t> measure_begin{0};  // set before the phase that it belongs to
  std::atomic<int64_t> measure_end{0};
  std::atomic<uint32_t> prepared{0};  // threads that are ready to begin
  std::atomic<uint32_t> finished{0};  // threads that have nothing left to do
  std::atomic<uint64_t> answered{0};  // requests, for progress; told in portions
  std::atomic<bool> has_failed{false};

  void fail(const std::string& what) {
    std::lock_guard lock(mutex);
    if (!has_failed.exchange(true)) failure = what;
    phase.store(Phase::stop, std::memory_order_release);
  }
  void stop(int64_t end) {
    measure_end.store(end, std::memory_order_relaxed);
    phase.store(Phase::stop, std::memory_order_release);
  }

  std::mutex mutex;
  std::string failure;  // once has_failed
};

// What one thread, or all of them together, saw in the measured time.
struct Counts {
  uint64_t requests = 0;  // operations on one key each; scans count one
  uint64_t commands = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t scanned = 0;
  uint64_t retries = 0;     // requests answered `retry` (in process)
  uint64_t backlog = 0;     // open loop: due in the measured time, never sent or never answered
  double busy_seconds = 0;  // in process: in the store
  double rate = 0;          // requests a second
  Histogram latency;        // nanoseconds, an entry a command

  void merge(const Counts& other);
};

}  // namespace isotherm::bench
