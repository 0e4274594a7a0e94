// Points at which a test ends the process as a crash does, or has a thread stand still for good.
//
// Builds that break rules on demand (base/broken.h) are told by the environment:
// ISOTHERM_KILL_AT=name:n sends SIGKILL when a thread passes the point for the nth time,
// ISOTHERM_HANG_AT=name:n keeps that thread there. The calls of a file system are points, too,
// named by what the file is and by the call (tests/broken/kill_points.cc). In every other build
// nothing of it is compiled.
//
// Threads. Any.
#pragma once

#include <string_view>

#include "base/macros.h"

namespace isotherm {

#if defined(ISOTHERM_BROKEN)
void kill_point(std::string_view name);  // tests/broken/kill_points.cc
#else
ISOTHERM_INLINE constexpr void kill_point(std::string_view /*name*/) {}
#endif

}  // namespace isotherm
