// Floor server: answers every command with what it expects, and stores nothing.
//
// Its CPU time a request is what the kernel's sockets and the least parsing cost on this machine,
// in the same run: no store can be cheaper, so a server's distance from it is the server's own
// work. It understands just what the codecs of this program send, and believes every length.
//
// Threads. One epoll loop, in a process of its own so that its CPU time can be told apart.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "isotherm_bench/codec.h"
#include "isotherm_bench/workload.h"

namespace isotherm::bench {

// Takes whole commands off the front of `input`, appends a reply for each to `output`, and returns
// the bytes taken.
size_t answer_floor(WireProtocol protocol, std::string_view input, std::string_view value,
                    std::string& output);

// Forks the server on 127.0.0.1 and returns its process id and port; -1 where it cannot.
pid_t fork_floor_server(WireProtocol protocol, const Workload& workload, uint16_t* port);

}  // namespace isotherm::bench
