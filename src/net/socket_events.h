// SocketEvents: the sockets of one loop, and what happened on them since the loop looked last.
//
// A turn with few requests consists mostly of system calls. So a request costs one receive and one
// send, and a turn one look for events. The loop makes no second receive to find out that a socket
// is empty.
//
// Two ways to watch a descriptor:
//   clients    edge-triggered, registered once for both directions. An event says that something
//              changed; whoever watches remembers it until a call showed that the socket is empty,
//              or full (net/loop/connection.h has the rule).
//   listening  level-triggered: told again as long as somebody waits there.
// A descriptor leaves the set when it is closed, having no duplicate, or by `remove`.
//
// `wake` tells a waiting loop that something was posted; it is an eventfd in the same set. The set
// also has a timer that ticks ten times a second, so that no wait needs a time limit, for which the
// kernel would start and stop a timer each time.
//
// Threads. `wake` may be called by any; the rest belongs to the loop, or to nobody else yet.
// Limits. A look hands out at most `most_events`; the kernel passes the others on at the next one.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace isotherm::net {

// Whoever wants to know what happens on a descriptor.
class Watched {
 public:
  virtual void on_events(uint32_t events) = 0;  // bits of epoll

 protected:
  ~Watched() = default;
};

class SocketEvents {
 public:
  static constexpr size_t most_events = 512;
  static constexpr int tick_ms = 100;

  struct Seen {
    bool woken = false;
    bool tick = false;
  };

  SocketEvents();  // throws std::system_error
  ~SocketEvents();
  SocketEvents(const SocketEvents&) = delete;
  SocketEvents& operator=(const SocketEvents&) = delete;

  // False: the kernel refuses, errno says why.
  bool add_client(int descriptor, Watched& watched);
  bool add_listening(int descriptor, Watched& watched);
  void remove(int descriptor);

  // Waits for events, or only looks for them, and hands them out. Returns what it saw besides.
  Seen wait(bool until_there_are_some);
  void wake();

 private:
  bool add(int descriptor, uint32_t events, void* who);
  void close_all();

  const int set_;
  int wakes_;
  int ticks_;
  std::array<epoll_event, most_events> events_;
};

}  // namespace isotherm::net
