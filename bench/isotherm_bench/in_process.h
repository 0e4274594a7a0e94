// In-process runs: the engine inside this program, without sockets.
//
// Each thread has a worker and one batch: it draws the requests, submits, and looks at the replies.
// Closed loop: only the time from submit to done counts, so the drawing of keys costs nothing; the
// rate is the sum over the threads of requests by seconds spent in the store (background work
// between batches included). Open loop: a batch is what is due, up to the batch size; latency
// counts from the time each request was due, over the wall clock.
//
// A read-modify-write is a get and a put in one batch. A scan ends the filling of a batch and runs
// before it.
#pragma once

#include <vector>

#include "isotherm_bench/options.h"
#include "isotherm_bench/progress.h"
#include "isotherm_bench/report.h"

namespace isotherm::bench {

struct InProcessResult {
  std::string failure;
  SystemResult system;
  Reference reference;  // random lines of 128 bytes read by the same threads
};

InProcessResult run_in_process(const Options& options, Progress& progress);

}  // namespace isotherm::bench
