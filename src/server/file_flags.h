// The server's options about what is on disk: journal, snapshots, tree.
//
// Threads. One. Errors. CLI::ValidationError, when the words are read.
#pragma once

#include <CLI/CLI.hpp>

#include "net/server_options.h"

namespace isotherm {

void add_file_options(CLI::App& app, net::ServerOptions& options);

}  // namespace isotherm
