// Versions: what the server says it is.
//
// Clients choose their commands by the version that a server announces. So each protocol announces
// the version of the server whose replies it gives byte for byte. INFO and `--version` show
// Isotherm's own.
#pragma once

#include <string_view>

namespace isotherm::net {

inline constexpr std::string_view isotherm_version = ISOTHERM_VERSION;
inline constexpr std::string_view redis_version = "7.0.15";

}  // namespace isotherm::net
