// Flags that nothing would use as they are given: each says which others it needs.
//
// Those of Redis that are for a part which may be off (`--appendfsync`, `--maxmemory-policy` and
// the like) are taken all the same, as Redis does: scripts have them, and `CONFIG SET` may switch
// some of these parts on. `--gpus` may name one GPU for later.
//
// Threads. One.
#pragma once

#include <CLI/CLI.hpp>

#include "net/server_options.h"

namespace isotherm {

// Throws CLI::ValidationError for the first that was given and that `options` have no use for.
void check_for_idle(const CLI::App& app, const net::ServerOptions& options);

}  // namespace isotherm
