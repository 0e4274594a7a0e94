// Faults of flags that only show when all of them are known: some options exclude others, or need
// them. Each refusal names the flag that is at fault, and what it needs.
#pragma once

#include "net/server_options.h"

namespace isotherm {

// Throws CLI::ValidationError.
void check_together(const net::ServerOptions& options);

}  // namespace isotherm
