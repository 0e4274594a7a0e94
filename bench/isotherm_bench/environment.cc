#include "isotherm_bench/environment.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

#ifndef ISOTHERM_VERSION
#define ISOTHERM_VERSION "unknown"
#endif

namespace isotherm::bench {
namespace {

// The value of the first line "name : value" (or "name: value kB") of a file of /proc.
std::string proc_value(const char* path, const std::string& name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, name.size(), name) != 0) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "unknown";
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? line : "unknown";
}

std::string usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return "unknown";
  return std::to_string(CPU_COUNT(&set)) + " of " + std::to_string(sysconf(_SC_NPROCESSORS_CONF));
}

}  // namespace

Environment environment() {
  utsname system{};
  uname(&system);
#ifdef __clang__
  const std::string compiler = "clang " __clang_version__;
#else
  const std::string compiler = "g++ " __VERSION__;
#endif
  return {
      {"processor", proc_value("/proc/cpuinfo", "model name")},
      {"cores", usable_cores()},
      {"memory", proc_value("/proc/meminfo", "MemTotal")},
      {"kernel", std::string(system.sysname) + " " + system.release},
      {"transparent huge pages", first_line("/sys/kernel/mm/transparent_hugepage/enabled")},
      {"reserved huge pages", proc_value("/proc/meminfo", "HugePages_Total")},
      {"compiler", compiler},
      {"isotherm", ISOTHERM_VERSION},
  };
}

}  // namespace isotherm::bench
