// The sections of INFO, each a function that writes its lines.
//
// Names and meanings are those of Redis 7.0.15 where it has the thing; what is Isotherm's own has
// names that Redis does not use. A line that would have to be made up is left out.
//
// Threads. Any.
#pragma once

#include "net/resp/info_lines.h"
#include "net/server_state.h"

namespace isotherm::net::info_sections {

using Write = void(ServerState& server, const Statistics& statistics, InfoLines& lines);

// info_sections.cc
Write server, clients, memory, persistence, replication, cpu, modules, cluster, isotherm, keyspace;
// info_statistics.cc
Write stats, batches, commandstats, errorstats;

}  // namespace isotherm::net::info_sections
