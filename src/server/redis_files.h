// Redis files: what a server of Redis has left in --dir and this one does not read.
//
// An operator who starts this server where Redis ran expects the keys that Redis had. Snapshots are
// read, append-only files are not. So a start without a word would be a loss that shows when the
// next snapshot is written over the last one.
//
// So would be a start without --appendonly where the server had a journal before: what the journal
// has beside the snapshot is not there then, and comes back, without what was changed meanwhile,
// when --appendonly is there again.
//
// Threads. One, at the start.
#pragma once

#include <string>

#include "net/server_options.h"

namespace isotherm {

// What the log is to say of them, or nothing. std::runtime_error where a journal would begin beside
// an append-only file of Redis.
std::string look_for_redis_files(const net::ServerOptions& options);
// What the log is to say of a journal of this server that is not read, of a store without a tree.
std::string look_for_unread_journal(const net::ServerOptions& options);

}  // namespace isotherm
