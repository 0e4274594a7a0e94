// Flags: the command line of the server program.
//
// `--name value` with the names of redis.conf, and its units of memory (base/memory_amount.h).
// Whatever is unknown or out of range is refused with a line that names it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "net/server_options.h"

namespace isotherm {

// The exit status for a wrong command line (EX_USAGE of sysexits.h).
inline constexpr int exit_usage = 64;

// Fills `options`. Returns the exit status where the program should end at once (help, version, a
// wrong flag), having said why; nothing where it should run.
std::optional<int> parse_flags(int argc, const char* const* argv, net::ServerOptions& options);

}  // namespace isotherm
