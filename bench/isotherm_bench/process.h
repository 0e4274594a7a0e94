// Process: what the kernel says about a server process: CPU time, memory, who listens on a port.
//
// CPU seconds a request are the figure servers are compared by: client and server share the same
// few cores, so throughput alone would compare the client. They come from /proc/<pid>/stat, which
// counts in ticks of 10 ms, so a run should last some seconds.
//
// Threads. Free functions without state. Limits. Linux; foreign processes need their owner's
// rights.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace isotherm::bench {

struct CpuTime {
  double user = 0;
  double system = 0;
  double total() const { return user + system; }
  CpuTime operator-(const CpuTime& other) const {
    return {user - other.user, system - other.system};
  }
};

// Of all threads of a process; none where it cannot be read.
std::optional<CpuTime> process_cpu(pid_t pid);
CpuTime own_cpu();

// Resident memory in bytes.
std::optional<uint64_t> resident_bytes(pid_t pid);

// The process that listens on a TCP port of this machine.
std::optional<pid_t> listening_process(uint16_t port);

}  // namespace isotherm::bench
