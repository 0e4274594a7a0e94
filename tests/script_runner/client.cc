#include "script_runner/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace isotherm::scripts {
namespace {

constexpr int deadline_ms = 120'000;
constexpr size_t single_bytes_at_start = 600;
constexpr size_t single_bytes_at_end = 40;
constexpr size_t middle_piece = 1021;
// Of what is longer than this all parts behind it are alike, and come in larger pieces.
constexpr size_t small_pieces_end = 64 << 10;
constexpr size_t large_piece = 16381;

}  // namespace

Client::Client(const std::string& host, uint16_t port, Over over) : over_(over) {
  const int kind = over == Over::tcp ? SOCK_STREAM : SOCK_DGRAM;
  socket_ = ::socket(AF_INET, kind | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    const int error = errno;
    ::close(socket_);
    throw std::system_error(error, std::generic_category(), "connect");
  }
  const int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Client::~Client() { ::close(socket_); }

bool Client::send(std::string_view bytes, Cut cut) {
  if (over_ == Over::udp) return send_datagram(bytes);
  if (cut == Cut::whole) return send_piece(bytes);
  size_t at = 0;
  while (at < bytes.size()) {
    const bool single = at < single_bytes_at_start || at + single_bytes_at_end >= bytes.size();
    const size_t left = bytes.size() - at;
    const size_t piece = at < small_pieces_end ? middle_piece : large_piece;
    const size_t size = single ? 1 : std::min(piece, left - single_bytes_at_end);
    if (!send_piece(bytes.substr(at, size))) return false;
    at += size;
  }
  return true;
}

bool Client::send_piece(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return false;
    pollfd ready{socket_, POLLIN | POLLOUT, 0};
    if (::poll(&ready, 1, deadline_ms) <= 0) return false;
    if ((ready.revents & POLLIN) != 0 && !fill(0)) return false;
  }
  return true;
}

bool Client::send_datagram(std::string_view bytes) {
  ++request_;
  expected_ = 0;
  std::string datagram{
      static_cast<char>(request_ >> 8), static_cast<char>(request_), 0, 0, 0, 1, 0, 0};
  datagram.append(bytes);
  return ::send(socket_, datagram.data(), datagram.size(), MSG_NOSIGNAL) > 0;
}

// What stands behind the header, if it is the next one of the reply. memcached begins another
// message for each command.
std::string_view Client::take_header(std::string_view datagram) {
  const auto u16 = [&](size_t at) {
    return static_cast<uint16_t>(static_cast<unsigned char>(datagram[at]) << 8 |
                                 static_cast<unsigned char>(datagram[at + 1]));
  };
  if (datagram.size() < 8 || datagram.size() > 1400) return "(a datagram of a wrong size)";
  if (u16(0) != request_) return "(another request's id)";
  if (u16(2) != expected_) return "(another number of datagram)";
  expected_ = u16(2) + 1 == u16(4) ? 0 : static_cast<uint16_t>(expected_ + 1);
  return datagram.substr(8);
}

bool Client::fill(int timeout_ms) {
  pollfd ready{socket_, POLLIN, 0};
  if (closed_ || ::poll(&ready, 1, timeout_ms) <= 0) return false;
  std::array<char, 65536> chunk;
  const ssize_t got = ::recv(socket_, chunk.data(), chunk.size(), 0);
  if (got <= 0) {
    closed_ = true;
    return false;
  }
  if (taken_ == buffer_.size()) {
    buffer_.clear();
    taken_ = 0;
  }
  const std::string_view bytes(chunk.data(), static_cast<size_t>(got));
  buffer_.append(over_ == Over::udp ? take_header(bytes) : bytes);
  return true;
}

std::string Client::read(size_t size) {
  while (buffer_.size() - taken_ < size && fill(deadline_ms)) {
  }
  std::string result = buffer_.substr(taken_, size);
  taken_ += result.size();
  return result;
}

std::string Client::read_line() {
  size_t end = buffer_.find("\r\n", taken_);
  while (end == std::string::npos && fill(deadline_ms)) end = buffer_.find("\r\n", taken_);
  if (end == std::string::npos) return read(buffer_.size() - taken_);
  std::string result = buffer_.substr(taken_, end - taken_);
  taken_ = end + 2;
  return result;
}

std::string Client::drain() {
  while (fill(200)) {
  }
  return read(buffer_.size() - taken_);
}

bool Client::wait_closed() {
  while (!closed_ && taken_ == buffer_.size() && fill(deadline_ms)) {
  }
  return closed_ && taken_ == buffer_.size();
}

}  // namespace isotherm::scripts
