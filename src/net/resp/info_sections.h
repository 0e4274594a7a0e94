// The sections of INFO, each a function that writes its lines.
//
// A line that Redis 7.0.15 has, too, has its name and meaning. Lines of Isotherm's own have names
// that Redis does not use. Lines of Redis that mean nothing here are left out.
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
