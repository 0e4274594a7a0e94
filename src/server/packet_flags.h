// The server's options about raw frames (net/packets/packet_thread.h).
//
// Threads. One. Errors. CLI::ValidationError, when the words are read.
#pragma once

#include <CLI/CLI.hpp>

#include "net/server_options.h"

namespace isotherm {

void add_packet_options(CLI::App& app, net::ServerOptions& options);

}  // namespace isotherm
