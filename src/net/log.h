// The server's log: lines to standard output, by spdlog, with Redis's levels.
//
// Nothing is written before `open_log`, so tests are silent. This is the only unit that includes
// spdlog. It uses the headers alone, so programs, static ones too, need no library of it.
//
// Threads. Any; a line is written whole.
#pragma once

#include <optional>
#include <string_view>

#include "net/server_options.h"

namespace isotherm::net {

// By the names of redis.conf.
std::string_view to_string(LogLevel level);
std::optional<LogLevel> parse_log_level(std::string_view name);  // in any case

// To be called once, before other threads log.
void open_log(LogLevel level);
// From now on the log takes lines of this level and above.
void use_log_level(LogLevel level);
void log(LogLevel level, std::string_view line);

}  // namespace isotherm::net
