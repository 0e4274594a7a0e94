// The RESP protocol of one connection: parser, session and the answers it owes.
//
// `parse` takes request after request from the input, finds each in the command table, checks its
// arity and calls its handler (resp_command.h), which appends rows to the turn's batch. It stops
// early at a command that CLIENT PAUSE holds back, at one that runs alone, and when the answers of
// this turn may become so large that a client that does not read would make the server hold too
// much: the answers of a turn are held at once, so the next turn, which waits for the socket, takes
// the rest.
//
// Threads. Belongs to the connection's loop.
// Limits. resp_parser.h; about `answer_bytes_per_turn` of expected answers a turn.
#pragma once

#include <cstddef>
#include <memory>

#include "net/client.h"
#include "net/protocol.h"

namespace isotherm::net {

inline constexpr size_t answer_bytes_per_turn = 1 << 20;

std::unique_ptr<Protocol> make_resp_protocol(ServerState& server, Client& client);

}  // namespace isotherm::net
