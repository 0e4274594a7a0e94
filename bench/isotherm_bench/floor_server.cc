#include "isotherm_bench/floor_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

namespace isotherm::bench {
namespace {

// The number in front of the line end at or behind `at`; moves `at` behind the line.
bool take_number_line(std::string_view input, size_t& at, uint64_t& number) {
  const size_t end = input.find('\n', at);
  if (end == std::string_view::npos) return false;
  size_t begin = end;
  while (begin > at &&
         (input[begin - 1] == '\r' || (input[begin - 1] >= '0' && input[begin - 1] <= '9'))) {
    --begin;
  }
  number = 0;
  std::from_chars(input.data() + begin, input.data() + end, number);
  at = end + 1;
  return true;
}

// One array of bulk strings: the number of arguments and the first letter of the command.
bool take_resp(std::string_view input, size_t& at, uint64_t& arguments, char& command) {
  if (!take_number_line(input, at, arguments)) return false;
  for (uint64_t i = 0; i < arguments; ++i) {
    uint64_t length = 0;
    if (!take_number_line(input, at, length)) return false;
    if (input.size() - at < length + 2) return false;
    if (i == 0) command = input[at];
    at += length + 2;
  }
  return true;
}

void append_bulk(std::string_view value, std::string& output) {
  output.append("$").append(std::to_string(value.size())).append("\r\n");
  output.append(value).append("\r\n");
}

bool answer_resp(std::string_view input, size_t& at, std::string_view value, std::string& output) {
  uint64_t arguments = 0;
  char command = 0;
  if (!take_resp(input, at, arguments, command)) return false;
  switch (command) {
    case 'S':
      output += arguments == 4 ? "*2\r\n$1\r\n0\r\n*0\r\n" : "+OK\r\n";
      break;
    case 'D':
      output += ":1\r\n";
      break;
    case 'M':
      output.append("*").append(std::to_string(arguments - 1)).append("\r\n");
      for (uint64_t i = 1; i < arguments; ++i) append_bulk(value, output);
      break;
    default:
      append_bulk(value, output);
      break;
  }
  return true;
}

void append_values(std::string_view keys, std::string_view value, std::string& output) {
  while (!keys.empty()) {
    const size_t end = std::min(keys.find(' '), keys.size());
    output.append("VALUE ").append(keys.substr(0, end)).append(" 0 ");
    output.append(std::to_string(value.size())).append("\r\n").append(value).append("\r\n");
    keys.remove_prefix(std::min(end + 1, keys.size()));
  }
  output += "END\r\n";
}

bool answer_memcached(std::string_view input, size_t& at, std::string_view value,
                      std::string& output) {
  const size_t end = input.find('\n', at);
  if (end == std::string_view::npos || end < at + 4) return false;
  if (input[at] == 's') {
    uint64_t length = 0;
    if (!take_number_line(input, at, length) || input.size() - at < length + 2) return false;
    at += length + 2;
    output += "STORED\r\n";
    return true;
  }
  if (input[at] == 'd') {
    output += "DELETED\r\n";
  } else {
    append_values(input.substr(at + 4, end - 1 - (at + 4)), value, output);
  }
  at = end + 1;
  return true;
}

struct Peer {
  std::string input;
  std::string output;
};

// False: the client has gone.
bool serve(int fd, Peer& peer, WireProtocol protocol, std::string_view value) {
  std::array<char, 65536> buffer;
  const ssize_t got = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
  if (got > 0) peer.input.append(buffer.data(), static_cast<size_t>(got));
  peer.input.erase(0, answer_floor(protocol, peer.input, value, peer.output));
  // Blocks where the client does not read: it has the whole window under way and will.
  for (size_t sent = 0; sent < peer.output.size();) {
    const ssize_t n = send(fd, peer.output.data() + sent, peer.output.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) sent += static_cast<size_t>(n);
  }
  peer.output.clear();
  return true;
}

void accept_client(int epoll, int listener, std::map<int, Peer>& peers) {
  const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return;
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
  peers[fd];
}

[[noreturn]] void run_floor_server(int listener, WireProtocol protocol, const std::string& value) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = listener;
  epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
  std::map<int, Peer> peers;
  std::array<epoll_event, 256> events;
  for (;;) {
    const int ready = epoll_wait(epoll, events.data(), events.size(), -1);
    for (int i = 0; i < ready; ++i) {
      const int fd = events[i].data.fd;
      if (fd == listener) {
        accept_client(epoll, listener, peers);
      } else if (!serve(fd, peers[fd], protocol, value)) {
        close(fd);
        peers.erase(fd);
      }
    }
  }
}

}  // namespace

size_t answer_floor(WireProtocol protocol, std::string_view input, std::string_view value,
                    std::string& output) {
  size_t taken = 0;
  for (size_t at = 0; taken < input.size(); taken = at) {
    const bool whole = protocol == WireProtocol::redis ? answer_resp(input, at, value, output)
                                                       : answer_memcached(input, at, value, output);
    if (!whole) break;
  }
  return taken;
}

pid_t fork_floor_server(WireProtocol protocol, const Workload& workload, uint16_t* port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  pid_t pid = -1;
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
      listen(listener, SOMAXCONN) == 0 &&
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    *port = ntohs(address.sin_port);
    const std::string value(workload.value_size_min, 'v');
    pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      run_floor_server(listener, protocol, value);
    }
  }
  close(listener);
  return pid;
}

}  // namespace isotherm::bench
