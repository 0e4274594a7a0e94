#include "isotherm_bench/connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <utility>

namespace isotherm::bench {
namespace {

constexpr size_t input_bytes = size_t{64} << 10;
constexpr size_t least_room = size_t{16} << 10;

}  // namespace

Connection::Connection(uint32_t depth, uint32_t keys_per_slot)
    : depth_(depth),
      keys_per_slot_(keys_per_slot),
      slots_(depth),
      keys_(static_cast<size_t>(depth) * keys_per_slot),
      input_(input_bytes) {}

Connection::~Connection() {
  if (fd_ >= 0) close(fd_);
}

Connection::Connection(Connection&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      depth_(other.depth_),
      keys_per_slot_(other.keys_per_slot_),
      slots_(std::move(other.slots_)),
      keys_(std::move(other.keys_)),
      first_(other.first_),
      pending_(other.pending_),
      output_(std::move(other.output_)),
      written_(other.written_),
      input_(std::move(other.input_)),
      begin_(other.begin_),
      end_(other.end_) {}

std::string Connection::open(const std::string& host, uint16_t port) {
  const std::string service = std::to_string(port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), service.c_str(), &hints, &found); error != 0) {
    return host + ": " + gai_strerror(error);
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  int last_error = ECONNREFUSED;
  for (const addrinfo* at = found; at != nullptr && fd_ < 0; at = at->ai_next) {
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, at->ai_protocol);
    if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0) {
      fd_ = fd;
      break;
    }
    last_error = errno;
    if (fd >= 0) close(fd);
  }
  if (fd_ < 0) return host + ":" + service + ": " + strerror(last_error);
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(fd_, F_SETFL, O_NONBLOCK);
  return "";
}

Slot& Connection::expect() {
  const uint32_t at = (first_ + pending_) % depth_;
  ++pending_;
  return slots_[at];
}

std::span<uint64_t> Connection::keys_of(const Slot& slot) {
  const auto at = static_cast<size_t>(&slot - slots_.data());
  return {keys_.data() + at * keys_per_slot_, slot.key_count};
}

void Connection::pop() {
  first_ = first_ + 1 == depth_ ? 0 : first_ + 1;
  --pending_;
}

bool Connection::flush() {
  while (written_ < output_.size()) {
    const ssize_t sent =
        send(fd_, output_.data() + written_, output_.size() - written_, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK;
    }
    written_ += static_cast<size_t>(sent);
  }
  output_.clear();
  written_ = 0;
  return true;
}

bool Connection::read() {
  if (input_.size() - end_ < least_room) {
    if (begin_ > 0) {
      memmove(input_.data(), input_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    if (input_.size() - end_ < least_room) input_.resize(input_.size() * 2);
  }
  ssize_t got = 0;
  do {
    got = recv(fd_, input_.data() + end_, input_.size() - end_, 0);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
  end_ += static_cast<size_t>(got);
  return got > 0;
}

void Connection::consume(size_t bytes) {
  begin_ += bytes;
  if (begin_ == end_) begin_ = end_ = 0;
}

}  // namespace isotherm::bench
