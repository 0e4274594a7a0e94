#include "net/loop/listener.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/reason_of.h"
#include "net/log.h"

namespace isotherm::net {
namespace {

constexpr int accepts_per_event = 256;

std::string_view refusal(Speaks speaks) {
  return speaks == Speaks::resp ? "-ERR max number of clients reached\r\n"
                                : "ERROR Too many open connections\r\n";
}

bool set_option(int descriptor, int level, int option) {
  const int on = 1;
  return ::setsockopt(descriptor, level, option, &on, sizeof on) == 0;
}

[[noreturn]] void fail_to_listen(int descriptor) {
  const int why = errno;
  if (descriptor >= 0) ::close(descriptor);
  throw std::system_error(why, std::system_category(), "listen");
}

int listen_on(const SocketAddress& address) {
  constexpr int kind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  const int descriptor = ::socket(address.family(), kind, 0);
  if (descriptor >= 0 && set_option(descriptor, SOL_SOCKET, SO_REUSEADDR) &&
      (!address.is_v6() || set_option(descriptor, IPPROTO_IPV6, IPV6_V6ONLY)) &&
      ::bind(descriptor, address.data(), address.size()) == 0 &&
      ::listen(descriptor, listen_backlog) == 0) {
    return descriptor;
  }
  fail_to_listen(descriptor);
}

// Whether nobody listens there for certain. One that may not be asked, or of another kind, is
// somebody's.
bool is_left(int descriptor, const sockaddr_un& address) {
  return ::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
         errno == ECONNREFUSED;
}

// A file that is no socket stays.
void remove_left_socket(const sockaddr_un& address) {
  struct stat found {};
  if (::stat(address.sun_path, &found) != 0) return;
  if (!S_ISSOCK(found.st_mode)) {
    // A bind would say that the address is in use, as beside another server.
    throw std::system_error(EEXIST, std::system_category(), "listen");
  }
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (probe < 0) return;
  if (is_left(probe, address)) ::unlink(address.sun_path);
  ::close(probe);
}

int listen_on_path(const std::string& path, uint32_t mode) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw std::system_error(ENAMETOOLONG, std::system_category(), "listen");
  }
  path.copy(address.sun_path, path.size());
  remove_left_socket(address);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor >= 0 &&
      ::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      (mode == 0 || ::chmod(address.sun_path, mode) == 0) &&
      ::listen(descriptor, listen_backlog) == 0) {
    return descriptor;
  }
  fail_to_listen(descriptor);
}

}  // namespace

Listener::Listener(ServerState& server, const std::vector<std::unique_ptr<Loop>>& loops,
                   const std::string& path, uint32_t mode, Speaks speaks)
    : server_(server),
      loops_(loops),
      descriptor_(listen_on_path(path, mode)),
      speaks_(speaks),
      path_(path) {}

Listener::Listener(ServerState& server, const std::vector<std::unique_ptr<Loop>>& loops,
                   const SocketAddress& address, Speaks speaks)
    : server_(server), loops_(loops), descriptor_(listen_on(address)), speaks_(speaks) {}

void Listener::close() {
  if (descriptor_ < 0) return;
  // In this order: what a next server has put there stays.
  if (!path_.empty()) ::unlink(path_.c_str());
  ::close(std::exchange(descriptor_, -1));
}

void Listener::wait() {
  if (descriptor_ < 0 || loops_.front()->events().add_listening(descriptor_, *this)) return;
  loops_.front()->at_tick([this] { wait(); });
}

// Clients that still wait when this returns cause another event.
void Listener::on_events(uint32_t /*events*/) {
  for (int i = 0; i < accepts_per_event; ++i) {
    const int descriptor = ::accept4(descriptor_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0) {
      if (!admit(descriptor)) continue;
      loops_[next_loop_]->adopt(descriptor, speaks_);
      next_loop_ = (next_loop_ + 1) % loops_.size();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      loops_.front()->events().remove(descriptor_);
      return loops_.front()->at_tick([this, why = errno] {
        wait();
        log(LogLevel::warning, "cannot accept a client: " + reason_of(why));
      });
    }
    // Anything else happened to that one client.
  }
}

// Counts the client in, or sends it away.
bool Listener::admit(int descriptor) {
  auto& clients = speaks_ == Speaks::resp ? server_.resp_clients : server_.memcached_clients;
  clients.fetch_add(1);
  const uint32_t own = server_.options.memcached_max_connections;
  const bool over_own = speaks_ == Speaks::memcached && own != 0 && clients > own;
  if (!over_own && server_.resp_clients + server_.memcached_clients <= server_.live.maxclients) {
    return true;
  }
  clients.fetch_sub(1);
  server_.rejected_connections.fetch_add(1, std::memory_order_relaxed);
  const std::string_view text = refusal(speaks_);
  // Best effort: the client is told if its window takes a line.
  [[maybe_unused]] const ssize_t sent =
      ::send(descriptor, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::close(descriptor);
  return false;
}

}  // namespace isotherm::net
