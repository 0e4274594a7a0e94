// Flag words: what the command line and the file before it say, as CLI11 reads it.
//
// CLI11 takes whatever word stands behind a flag for its value, another flag too, and so it does
// behind `--flag=`. Here a value is a word of its own, which may be empty. Behind a flag without
// `=` it is never a flag of ours: what lacks one is refused, before a later option is lost.
//
// Threads. One.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "net/server_options.h"

namespace isotherm {

// The words behind the program's name, with those of a file that the first one may name before
// them. Fills `options.config_file`. Throws CLI::ValidationError where the file is wrong, or a flag
// of `app` lacks its value.
std::vector<std::string> flag_words(int argc, const char* const* argv, const CLI::App& app,
                                    net::ServerOptions& options);

}  // namespace isotherm
