// TestClient: a blocking client for tests of a server in the same process.
//
// Sends bytes as they are and reads replies by their length, so a test says what goes over the
// wire.
//
// Threads. Belongs to the test's thread.
// Limits. Every wait ends after two minutes, with what came until then.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace isotherm {

// Whether the condition becomes true before long: other threads may stand still meanwhile.
template <class Condition>
bool soon(Condition&& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
  }
  return true;
}

class TestClient {
 public:
  explicit TestClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{120, 0};
    const int on = 1;
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connected_ =
        ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~TestClient() { ::close(socket_); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool connected() const { return connected_; }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // What the socket takes without waiting; for clients that never read.
  size_t send_some(std::string_view bytes) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent > 0 ? static_cast<size_t>(sent) : 0;
  }

  // Exactly `bytes` bytes; less at the end of the stream.
  std::string receive(size_t bytes) {
    std::string all(bytes, '\0');
    all.resize(receive_into(all.data(), bytes));
    return all;
  }
  size_t receive_into(char* target, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
      const ssize_t got = ::recv(socket_, target + done, bytes - done, 0);
      if (got <= 0) break;
      done += static_cast<size_t>(got);
    }
    return done;
  }
  // Everything up to the end of the stream.
  std::string receive_all() {
    std::string all;
    char piece[4096];
    ssize_t got;
    while ((got = ::recv(socket_, piece, sizeof piece, 0)) > 0) {
      all.append(piece, static_cast<size_t>(got));
    }
    return all;
  }

  // Up to `end` and with it; less at the end of the stream.
  std::string receive_until(std::string_view end) {
    std::string all;
    while (!all.ends_with(end)) {
      const std::string more = receive(1);
      if (more.empty()) break;
      all += more;
    }
    return all;
  }

  // Whether something can be received at once.
  bool has_input() {
    char byte;
    return ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
  }

  // Whether the server has closed the connection, once everything was received.
  bool ended() {
    char byte;
    return ::recv(socket_, &byte, 1, 0) == 0;
  }

  // Sends `request` and reads a reply as long as `expected`.
  std::string ask(std::string_view request, std::string_view expected) {
    send(request);
    return receive(expected.size());
  }

  bool send_urgent(char byte) { return ::send(socket_, &byte, 1, MSG_OOB | MSG_NOSIGNAL) == 1; }
  // The end of what this client sends; it can still read.
  void end_input() { ::shutdown(socket_, SHUT_WR); }

 private:
  int socket_;
  bool connected_ = false;
};

// A request in RESP.
inline std::string resp(std::initializer_list<std::string_view> words) {
  std::string text = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string_view word : words) {
    text += "$" + std::to_string(word.size()) + "\r\n" + std::string(word) + "\r\n";
  }
  return text;
}

}  // namespace isotherm
