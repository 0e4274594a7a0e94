// The RESP protocol of one connection: parser, session and the answers it owes.
//
// `parse` takes request after request from the input, finds each in the command table, checks its
// arity and calls its handler (command.h), which appends rows to the turn's batch. It stops early
// at a command that CLIENT PAUSE holds back, at one that runs alone, and when the answers of this
// turn may pass the output's bound (protocol.h): the next turn, which waits for the socket, takes
// the rest. The flag `readonly` in the table of commands says which commands only read. While
// CLIENT REPLY leaves answers out, no command is parsed again, since the next answer may be one to
// send.
//
// Threads. Belongs to the connection's loop.
// Limits. parser.h.
#pragma once

#include <cstddef>
#include <memory>

#include "net/client.h"
#include "net/protocol.h"

namespace isotherm::net {

std::unique_ptr<Protocol> make_resp_protocol(ServerState& server, Client& client);

}  // namespace isotherm::net
