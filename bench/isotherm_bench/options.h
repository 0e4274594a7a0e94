// Options of isotherm-bench: the command line, checked.
//
// Flags are read once into `Options`; what contradicts itself is refused here with a sentence for
// the user, so the rest of the program meets valid options only.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "isotherm/options.h"
#include "isotherm_bench/codec.h"
#include "isotherm_bench/socket_run.h"
#include "isotherm_bench/workload.h"

namespace isotherm::bench {

inline constexpr int exit_usage = 64;

struct Address {
  WireProtocol protocol = WireProtocol::redis;
  std::string host;
  uint16_t port = 0;
};

// "redis://host:port" or "memcached://host:port".
std::optional<Address> parse_address(const std::string& text, std::string* error);
// A count as "1000", "50k", "20M", "1G" (powers of ten).
std::optional<uint64_t> parse_count(const std::string& text);

struct Options {
  Workload workload;
  RunOptions run;
  uint32_t batch = 512;  // requests a batch, in process
  uint32_t rounds = 1;
  bool in_process = false;
  bool fixed = false;       // in process: the table of u64 keys and values
  bool mica = false;        // in process: a comparator (isotherm_bench/mica_table.h)
  isotherm::Options store;  // in process: where the index lies
  bool load = true;
  bool load_only = false;
  bool quiet = false;
  bool floor = false;  // also measure a server that does nothing
  std::vector<Address> targets;
  std::vector<Address> peers;
  std::vector<std::pair<uint16_t, pid_t>> pids;  // of servers, by port
  std::string spawn_isotherm;                    // the program
  bool spawn_redis = false;
  bool spawn_memcached = false;
  std::vector<std::string> isotherm_arguments;
  std::vector<std::string> redis_arguments;
  std::vector<std::string> memcached_arguments;
  std::optional<WireProtocol> protocol;  // of a spawned isotherm-server without peers
  std::string json;                      // a file, "-" or empty
};

struct ParsedOptions {
  Options options;
  std::optional<int> exit_code;  // set where the program has nothing to do (help, an error)
};

// Prints help and errors itself.
ParsedOptions parse_options(int argc, char** argv);

}  // namespace isotherm::bench
