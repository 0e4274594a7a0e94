// Listener: accepts the clients of one port and deals them out to the loops in turn.
//
// It lives in one loop, whose events watch its socket; the loop that a connection goes to takes it
// over. A client beyond `maxclients` gets the error of its protocol and is disconnected. When the
// process runs out of descriptors, accepting pauses until the loop's next tick.
//
// Threads. Belongs to its loop's thread; made before that thread starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "net/loop/loop.h"
#include "net/server_state.h"
#include "net/socket_address.h"
#include "net/socket_events.h"

namespace isotherm::net {

class Listener final : public Watched {
 public:
  // Binds and listens; throws std::system_error.
  Listener(ServerState& server, const std::vector<std::unique_ptr<Loop>>& loops,
           const SocketAddress& address, Speaks speaks);
  // On a UNIX socket at `path`, in place of one that nobody listens on, with the permissions `mode`
  // (0: those of the umask).
  Listener(ServerState& server, const std::vector<std::unique_ptr<Loop>>& loops,
           const std::string& path, uint32_t mode, Speaks speaks);
  ~Listener() { close(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  SocketAddress address() const { return SocketAddress::local_of(descriptor_); }
  void start() { wait(); }
  void on_events(uint32_t events) override;
  // On the loop's thread, or when it has ended.
  void close();

 private:
  void wait();
  bool admit(int descriptor);

  ServerState& server_;
  const std::vector<std::unique_ptr<Loop>>& loops_;
  int descriptor_;  // -1: closed
  const Speaks speaks_;
  const std::string path_;  // of a UNIX socket, which goes when this closes
  size_t next_loop_ = 0;
};

}  // namespace isotherm::net
