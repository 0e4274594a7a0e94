// Socket runs: one server, loaded and measured.
//
// A `System` is a server under test with the keys it holds. `load_records` stores the records,
// watching memory; `run_sockets` drives the workload for a time (or a number of requests) and
// returns what the clients counted and what CPU the server spent in just that time.
//
// Threads. The caller's thread measures; clients run in threads of their own, joined on return.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "isotherm_bench/control.h"
#include "isotherm_bench/process.h"
#include "isotherm_bench/progress.h"
#include "isotherm_bench/socket_client.h"
#include "isotherm_bench/workload.h"

namespace isotherm::bench {

struct System {
  std::string label;
  WireProtocol protocol = WireProtocol::redis;
  std::string host;
  uint16_t port = 0;
  pid_t pid = 0;  // 0: unknown, e.g. on another machine
  bool peer = false;
  bool stores = true;  // false: answers with values of its own, which are not to be verified
  KeySpace keys;
};

struct RunOptions {
  uint32_t threads = 1;
  uint32_t connections = 50;
  uint32_t pipeline = 1;
  double rate = 0;  // commands a second, all threads together; 0: closed loop
  bool poisson = true;
  double seconds = 5;
  double warm_up = 0.5;
  uint64_t requests = 0;
  int64_t patience_ns = 60'000'000'000;  // without any reply, of a closed loop
  bool verify = false;
};

struct RunResult {
  std::string failure;  // empty: it ran
  double seconds = 0;
  Counts counts;
  std::optional<CpuTime> server_cpu;
  std::optional<uint64_t> server_resident;
  CpuTime client_cpu;
};

struct LoadResult {
  std::string failure;
  double seconds = 0;
  uint64_t records = 0;
  std::optional<CpuTime> server_cpu;
  std::optional<uint64_t> resident_before;
  std::optional<uint64_t> resident_after;
  double worst_bytes_per_record = 0;  // between half of the records and all of them
};

LoadResult load_records(System& system, const Workload& workload, Progress& progress);

RunResult run_sockets(System& system, const Workload& workload, const RunOptions& options,
                      Progress& progress);

}  // namespace isotherm::bench
