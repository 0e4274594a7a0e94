// Options of a store that exclude one another: said once, for the engine, which throws it, and for
// the server, whose flags have the same names with other dashes.
//
// Threads. A function of its argument.
#pragma once

#include <optional>
#include <string_view>

#include "isotherm/options.h"

namespace isotherm {

struct OptionClash {
  std::string_view option;  // its name in Options
  std::string_view needs;   // what would be right, with such names, too
};

// The first that there is.
std::optional<OptionClash> clash_in(const Options& options);

}  // namespace isotherm
