// Log levels by the names of redis.conf, and the one in use.
//
// Threads. Any.
#pragma once

#include <optional>
#include <string_view>

#include "net/server_options.h"

namespace isotherm::net {

std::string_view to_string(LogLevel level);
std::optional<LogLevel> parse_log_level(std::string_view name);  // in any case
// From now on the log takes lines of this level and above.
void use_log_level(LogLevel level);

}  // namespace isotherm::net
