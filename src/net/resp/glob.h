// Glob patterns as Redis reads them, for KEYS, SCAN MATCH and CONFIG GET.
//
// ? any byte, * any bytes, [abc] [a-z] [^a] one of a set, \c the byte c itself. A set without its
// end runs to the end of the pattern; ends of a range may be in either order. Nothing is an error.
//
// Limits. Time is at most the product of the two lengths: of several stars only the last one is
// ever tried again.
#pragma once

#include <string_view>

namespace isotherm::net {

bool glob_matches(std::string_view pattern, std::string_view text, bool ignore_case = false);

}  // namespace isotherm::net
