// Environment: what the figures were measured on, since a figure without it says nothing.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace isotherm::bench {

// Pairs of name and value: processor, cores, memory, kernel, huge pages, compiler, version.
using Environment = std::vector<std::pair<std::string, std::string>>;
Environment environment();

}  // namespace isotherm::bench
