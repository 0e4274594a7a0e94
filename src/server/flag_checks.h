// What flags of the server are not to be given together.
//
// Errors. CLI::ValidationError, which names the flag.
#pragma once

#include "net/server_options.h"

namespace isotherm {

// Faults of flags that only show when all of them are known.
void check_together(const net::ServerOptions& options);

}  // namespace isotherm
