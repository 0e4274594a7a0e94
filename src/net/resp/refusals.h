// Reasons for which commands are neither run nor kept for EXEC, in the words of Redis.
//
// Threads. Any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "net/resp/command.h"
#include "net/server_state.h"

namespace isotherm::net {

inline constexpr std::string_view over_maxmemory =
    "OOM command not allowed when used memory > 'maxmemory'.";
inline constexpr std::string_view unreadable = "MISCONF Errors reading the files of the tree";

// Whether the client has yet to give the password.
inline bool lacks_password(const Session& session, const ServerState& server) {
  return !session.authenticated && server.password.is_set();
}
// Why a command of an unusual connection (Session) is refused; empty: it is run, or kept.
std::string refusal(const Command& command, size_t words, const Session& session,
                    const ServerState& server);
// Whether CLIENT PAUSE holds it back, or what it waits for, which it asks for here.
bool is_held(const Command& command, Arguments words, Session& session, ServerState& server,
             int64_t now_ms);
// Whether MULTI has it wait for EXEC.
bool is_kept(const Command& command, const Session& session);
// Whether it has the flag, or a command has that it would run as an EXEC.
bool has(const Command& command, const Session& session, uint32_t flag);
// The errno of the journal that cannot be written; 0: it can, or there is none.
int journal_error(const ServerState& server);

// As much of the unknown command's words as Redis repeats.
std::string unknown_command(Arguments words);
std::string unknown_subcommand(const Command& container, std::string_view name);
std::string wrong_arity(const Command& command);
// Of a subcommand that takes all words there are, and then looks. `container`: in capitals.
std::string too_many_arguments(std::string_view container, std::string_view subcommand);
// Of a row that could not be made safe: the error of the journal, the tree or the GPU.
std::string misconf(const ServerState& server);
// EXEC's, where it is refused for `reason`.
std::string aborted_by(std::string_view reason);

}  // namespace isotherm::net
