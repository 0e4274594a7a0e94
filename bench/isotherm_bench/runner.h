// Runner: one thread's access to a store inside this program.
//
// Requests are appended (`add`, outside the measured time) and executed together (`run`). A runner
// owns the bytes of the keys and values of its batch. `check` looks at the answers afterwards,
// again outside the measured time, and counts them.
//
// Threads. One owner each; runners of one store may run at the same time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "isotherm/options.h"
#include "isotherm_bench/control.h"
#include "isotherm_bench/workload.h"

namespace isotherm::bench {

class Runner {
 public:
  virtual ~Runner() = default;

  virtual void add(const Request& request) = 0;
  // No room for another request, or the last one has to run at once (a scan).
  virtual bool full() const = 0;
  virtual uint32_t size() const = 0;  // requests, each on one key
  virtual void run() = 0;
  // Counts the answers and empties the batch; returns what is wrong, if anything.
  virtual std::string check(Counts& counts) = 0;
  // Background work while there is nothing else to do.
  virtual void maintain() = 0;
};

// A store of either kind; makes a runner a thread.
class RunnerFactory {
 public:
  virtual ~RunnerFactory() = default;
  virtual std::unique_ptr<Runner> make(uint32_t batch, bool verify) = 0;
  virtual uint64_t memory() const = 0;  // bytes the store says it takes
  // Where its index lies now, for the name of the system; empty: in host memory.
  virtual std::string place() const { return {}; }
};

std::unique_ptr<RunnerFactory> make_store_runners(const Workload& workload,
                                                  const isotherm::Options& options);
std::unique_ptr<RunnerFactory> make_fixed_runners(const Workload& workload);
std::unique_ptr<RunnerFactory> make_mica_runners(const Workload& workload);

}  // namespace isotherm::bench
