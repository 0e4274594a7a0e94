#include "net/listener.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/ip/v6_only.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>

namespace isotherm::net {
namespace {

constexpr int backlog = 511;
constexpr int accepts_per_event = 256;
constexpr auto descriptor_pause = std::chrono::milliseconds(100);

std::string_view refusal(Speaks speaks) {
  return speaks == Speaks::resp ? "-ERR max number of clients reached\r\n"
                                : "ERROR Too many open connections\r\n";
}

}  // namespace

Listener::Listener(ServerState& server, const std::vector<std::unique_ptr<Loop>>& loops,
                   const asio::ip::tcp::endpoint& endpoint, Speaks speaks)
    : server_(server),
      loops_(loops),
      acceptor_(loops.front()->context()),
      timer_(loops.front()->context()),
      speaks_(speaks) {
  acceptor_.open(endpoint.protocol());
  acceptor_.set_option(asio::socket_base::reuse_address(true));
  if (endpoint.address().is_v6()) acceptor_.set_option(asio::ip::v6_only(true));
  acceptor_.bind(endpoint);
  acceptor_.listen(backlog);
  acceptor_.non_blocking(true);
}

void Listener::close() {
  asio::error_code ignored;
  acceptor_.close(ignored);
  timer_.cancel();
}

void Listener::wait() {
  if (!loops_.front()->events().add_listening(acceptor_.native_handle(), *this)) pause();
}

// Who is left waiting when this returns is another event.
void Listener::on_events(uint32_t /*events*/) {
  for (int i = 0; i < accepts_per_event; ++i) {
    const int descriptor =
        ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0) {
      if (!admit(descriptor)) continue;
      loops_[next_loop_]->adopt(descriptor, speaks_);
      next_loop_ = (next_loop_ + 1) % loops_.size();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      spdlog::warn("cannot accept a client: {}", std::strerror(errno));
      loops_.front()->events().remove(acceptor_.native_handle());
      return pause();
    }
    // Anything else happened to that one client.
  }
}

void Listener::pause() {
  timer_.expires_after(descriptor_pause);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) wait();
  });
}

// Counts the client in, or sends it away.
bool Listener::admit(int descriptor) {
  auto& clients = speaks_ == Speaks::resp ? server_.resp_clients : server_.memcached_clients;
  clients.fetch_add(1);
  if (server_.resp_clients + server_.memcached_clients <= server_.live.maxclients) return true;
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
