// Flag words of the server: what its command line and the file before it say, as CLI11 reads it
// (base/flag_words.h).
//
// Threads. One.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "net/server_options.h"
#include "server/config_file.h"

namespace isotherm {

// The words behind the program's name, with those of a file that the first one may name before
// them, each of which `check` has been shown. Fills `options.config_file`. Throws
// CLI::ValidationError where the file is wrong, or a flag of `app` lacks its value.
std::vector<std::string> flag_words(int argc, const char* const* argv, const CLI::App& app,
                                    const CheckFlag& check, net::ServerOptions& options);

// The same of words that stand alone.
std::vector<std::string> flag_words(const std::vector<std::string>& words, const CLI::App& app);

}  // namespace isotherm
