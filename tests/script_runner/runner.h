// Runs a script against servers that already listen.
//
// The runner knows addresses and a clock, not who serves: the same script runs against Isotherm in
// this process, whose clock it turns by hand, and against Redis and memcached, where it waits
// instead. Each connection of a script is opened at its first use. When the script ends every open
// connection is asked one more question, so that a surplus byte behind the last reply is seen too.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "script_runner/client.h"
#include "script_runner/script.h"

namespace isotherm::scripts {

struct Address {
  std::string host = "127.0.0.1";
  uint16_t port = 0;
};

struct Target {
  Address resp;
  Address memcached;
  Address memcached_udp;
  Cut cut = Cut::whole;
  std::function<int64_t()> now_ms;
  // Turns the clock; false where that is not possible, and the script ends there.
  std::function<bool(int64_t ms)> advance;
};

// Returns an empty string, or what went wrong and where.
std::string run_script(const Script& script, const Target& target);

}  // namespace isotherm::scripts
