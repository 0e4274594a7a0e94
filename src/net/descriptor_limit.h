// The limit on descriptors: one a client, a few for each loop, some for the server itself, and
// those of a tree (tree/descriptors.h).
//
// Threads. Any; the limit is the process's.
#pragma once

#include <cstdint>

namespace isotherm::net {

// Raises the limit as far as `clients` of a server with so many loops need, beside its tree if it
// has one, and returns how many clients it then allows: fewer than asked for where the system does
// not let it rise so far.
uint32_t allow_clients(uint32_t clients, uint32_t loops, bool has_tree);

struct Descriptors {
  uint64_t needed;
  uint64_t limit;  // of the process now
};
// How many that many clients need, and how many there may be.
Descriptors descriptors_of(uint32_t clients, uint32_t loops, bool has_tree);

}  // namespace isotherm::net
