// Sends of several messages at once, for sources of frames (net/packets/frame_source.h): what a
// socket does not take at once is dropped.
//
// Threads. Any, for a socket one at a time.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <span>

namespace isotherm::net {

// Returns how many were dropped.
inline uint64_t send_messages(int descriptor, std::span<mmsghdr> messages) {
  uint64_t dropped = 0;
  while (!messages.empty()) {
    const int sent = ::sendmmsg(descriptor, messages.data(), static_cast<unsigned>(messages.size()),
                                MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    // The address of the first cannot be reached, or the socket is full.
    if (sent <= 0) ++dropped;
    messages = messages.subspan(sent > 0 ? static_cast<size_t>(sent) : 1);
  }
  return dropped;
}

}  // namespace isotherm::net
