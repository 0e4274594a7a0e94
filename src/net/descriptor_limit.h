// The limit on descriptors: one a client, a few for each loop, and some for the server itself.
//
// Threads. Any; the limit is the process's.
#pragma once

#include <cstdint>

namespace isotherm::net {

// Raises the limit as far as `clients` of a server with so many loops need, and returns how many
// clients it then allows: fewer than asked for where the system does not let it rise so far.
uint32_t allow_clients(uint32_t clients, uint32_t loops);

}  // namespace isotherm::net
