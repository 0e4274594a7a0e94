#include "isotherm_bench/control.h"

#include <time.h>

namespace isotherm::bench {

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

void Counts::merge(const Counts& other) {
  requests += other.requests;
  commands += other.commands;
  hits += other.hits;
  misses += other.misses;
  scanned += other.scanned;
  retries += other.retries;
  backlog += other.backlog;
  busy_seconds += other.busy_seconds;
  rate += other.rate;
  latency.merge(other.latency);
}

}  // namespace isotherm::bench
