// The RESP protocol of one connection: parser, session and the answers it owes.
//
// `parse` takes request after request from the input, finds each in the command table, checks its
// arity and calls its handler (resp_command.h), which appends rows to the turn's batch. It stops
// early at a command that runs alone, and when the answers of this turn are expected to pass the
// output's bound, or would have to (protocol.h): the next turn, which waits for the socket, takes
// the rest. What only reads is known by the flag `readonly` in the table of commands.
//
// Threads. Belongs to the connection's loop.
// Limits. resp_parser.h.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "net/protocol.h"

namespace isotherm::net {

// What a new connection looks like from outside.
struct Peer {
  std::string peer_address;   // "127.0.0.1:40000"
  std::string local_address;  // "127.0.0.1:6379"
  int descriptor = -1;
};

std::unique_ptr<Protocol> make_resp_protocol(ServerState& server, Peer peer);

}  // namespace isotherm::net
