// What keeps rows from being safe (`Status::not_saved`): the place whose failure clients are told
// of.
//
// What fails now comes first. Behind a failure that has passed meanwhile it is the last that there
// was, and of the journal's and the tree's the journal's.
//
// Threads. Any.
#pragma once

#include <string_view>

#include "net/server_state.h"

namespace isotherm::net {

enum class Unsaved { by_journal, by_tree, by_gpu };

// Where some rows of a batch are `Batch::unsaved`.
Unsaved unsaved_by(const ServerState& server);
// The same for memcached's clients, as a whole line.
std::string_view unsaved_line(const ServerState& server);

inline constexpr std::string_view unreadable_line =
    "SERVER_ERROR the files of the tree cannot be read\r\n";

}  // namespace isotherm::net
