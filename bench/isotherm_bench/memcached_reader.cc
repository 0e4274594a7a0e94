#include "isotherm_bench/memcached_reader.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "net/udp/frame.h"

namespace isotherm::bench {
namespace {

using net::UdpFrame;

constexpr size_t key_width = 12;

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void append_key(std::string& to, uint64_t key) {
  to += "key:";
  to.append(key_width, '0');
  for (char* at = to.data() + to.size(); key != 0; key /= 10) {
    *--at = static_cast<char>('0' + key % 10);
  }
}

// The digits of the key, the last one first, again and again.
void append_value(std::string& to, uint64_t key, size_t bytes) {
  uint64_t left = key;
  for (size_t i = 0; i < bytes; ++i, left /= 10) {
    if (i % key_width == 0) left = key;
    to += static_cast<char>('0' + left % 10);
  }
}

void append_request(std::string& to, bool mg, uint64_t key) {
  to += mg ? "mg " : "get ";
  append_key(to, key);
  to += mg ? " v\r\n" : "\r\n";
}

void append_reply(std::string& to, bool mg, uint64_t key, size_t value_bytes) {
  to += mg ? "VA " : "VALUE ";
  if (!mg) append_key(to, key);
  to += mg ? "" : " 0 ";
  to += std::to_string(value_bytes) + "\r\n";
  append_value(to, key, value_bytes);
  to += mg ? "\r\n" : "\r\nEND\r\n";
}

void send_all(int socket, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) fail("send");
    if (sent > 0) text.remove_prefix(static_cast<size_t>(sent));
  }
}

}  // namespace

int connect_to(uint16_t port, int kind) {
  const int descriptor = ::socket(AF_INET, kind | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (descriptor < 0 || ::connect(descriptor, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
    const int why = errno;
    if (descriptor >= 0) ::close(descriptor);
    errno = why;
    fail("connect");
  }
  return descriptor;
}

void store_keys(uint16_t port, uint64_t keys, size_t value_bytes) {
  constexpr uint64_t most_at_once = 64;
  constexpr std::string_view stored = "STORED\r\n";
  const int socket = connect_to(port, SOCK_STREAM);
  std::string text;
  for (uint64_t key = 0; key < keys;) {
    const uint64_t some = std::min(keys - key, most_at_once);
    text.clear();
    for (const uint64_t end = key + some; key < end; ++key) {
      text += "set ";
      append_key(text, key);
      text += " 0 0 " + std::to_string(value_bytes) + "\r\n";
      append_value(text, key, value_bytes);
      text += "\r\n";
    }
    send_all(socket, text);
    text.resize(some * stored.size());
    if (::recv(socket, text.data(), text.size(), MSG_WAITALL) !=
        static_cast<ssize_t>(text.size())) {
      fail("replies to sets");
    }
    for (size_t at = 0; at < text.size(); at += stored.size()) {
      if (text.compare(at, stored.size(), stored) != 0) {
        throw std::runtime_error("a set was not stored: " + text.substr(at));
      }
    }
  }
  ::close(socket);
}

MemcachedReader::MemcachedReader(uint16_t port, const Load& load,
                                 std::function<uint64_t()> next_key, ReaderCounts& counts)
    : load_(load),
      next_key_(std::move(next_key)),
      counts_(counts),
      socket_(connect_to(port, load.tcp ? SOCK_STREAM : SOCK_DGRAM)),
      slots_(load.window),
      id_step_(std::bit_ceil(load.window)) {
  for (uint32_t i = 0; i < load.window; ++i) {
    slots_[i].id = static_cast<uint16_t>(i);
    idle_.push_back(static_cast<uint16_t>(i));
  }
}

MemcachedReader::~MemcachedReader() { ::close(socket_); }

void MemcachedReader::send(int64_t now_ns) {
  if (idle_.empty() || idle_.size() < load_.burst) return;
  for (const uint16_t number : idle_) {
    Slot& slot = slots_[number];
    slot.key = next_key_();
    slot.id = static_cast<uint16_t>(slot.id + id_step_);
    slot.began_ns = slot.sent_ns = now_ns;
    slot.waits = true;
  }
  send_requests(idle_);
  idle_.clear();
}

void MemcachedReader::send_lost_again(int64_t before_ns, int64_t now_ns) {
  std::vector<uint16_t> lost;
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (!slot.waits || slot.sent_ns >= before_ns) continue;
    slot.sent_ns = now_ns;
    lost.push_back(static_cast<uint16_t>(i));
  }
  counts_.lost += lost.size();
  send_requests(lost);
}

void MemcachedReader::send_requests(const std::vector<uint16_t>& slots) {
  if (load_.tcp) {
    std::string& text = requests_[0];
    text.clear();
    for (const uint16_t slot : slots) append_request(text, load_.mg, slots_[slot].key);
    return send_all(socket_, text);
  }
  for (size_t done = 0; done < slots.size();) {
    const size_t some = std::min(slots.size() - done, most_at_once);
    for (size_t i = 0; i < some; ++i) {
      const Slot& slot = slots_[slots[done + i]];
      requests_[i].resize(UdpFrame::header_bytes);
      UdpFrame{slot.id}.write(requests_[i].data());
      append_request(requests_[i], load_.mg, slot.key);
      pieces_[i] = {requests_[i].data(), requests_[i].size()};
      messages_[i] = {};
      messages_[i].msg_hdr.msg_iov = &pieces_[i];
      messages_[i].msg_hdr.msg_iovlen = 1;
    }
    const int sent = ::sendmmsg(socket_, messages_.data(), static_cast<unsigned>(some), 0);
    if (sent < 0 && errno != EINTR) fail("sendmmsg");
    if (sent > 0) done += static_cast<size_t>(sent);
  }
}

void MemcachedReader::receive(int64_t now_ns) {
  load_.tcp ? receive_stream(now_ns) : receive_datagrams(now_ns);
}

void MemcachedReader::receive_stream(int64_t now_ns) {
  std::array<char, 64 << 10> bytes;
  const ssize_t came = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (came == 0) throw std::runtime_error("the server has closed the connection");
  if (came < 0) {
    if (errno == EAGAIN || errno == EINTR) return;
    fail("recv");
  }
  rest_.append(bytes.data(), static_cast<size_t>(came));
  // All replies are of one length.
  if (expected_.empty()) append_reply(expected_, load_.mg, 0, load_.value_bytes);
  const size_t each = expected_.size();
  size_t at = 0;
  for (; at + each <= rest_.size(); at += each) {
    take_reply(oldest_, std::string_view(rest_).substr(at, each), now_ns);
    oldest_ = static_cast<uint16_t>((oldest_ + 1u) % slots_.size());
  }
  rest_.erase(0, at);
}

void MemcachedReader::receive_datagrams(int64_t now_ns) {
  for (size_t i = 0; i < most_at_once; ++i) {
    pieces_[i] = {replies_[i].data(), replies_[i].size()};
    messages_[i] = {};
    messages_[i].msg_hdr.msg_iov = &pieces_[i];
    messages_[i].msg_hdr.msg_iovlen = 1;
  }
  const int came = ::recvmmsg(socket_, messages_.data(), most_at_once, MSG_DONTWAIT, nullptr);
  if (came < 0 && errno != EAGAIN && errno != EINTR) fail("recvmmsg");
  for (int i = 0; i < came; ++i) {
    const auto at = static_cast<size_t>(i);
    take_datagram({replies_[at].data(), messages_[at].msg_len}, now_ns);
  }
}

void MemcachedReader::take_datagram(std::string_view datagram, int64_t now_ns) {
  UdpFrame frame;
  const auto fault = UdpFrame::read(datagram, frame);
  const auto number = static_cast<uint16_t>(frame.id & (id_step_ - 1));
  if (fault != UdpFrame::Fault::none || number >= slots_.size()) {
    throw std::runtime_error("no reply to a read: " + std::string(datagram));
  }
  if (slots_[number].id == frame.id && slots_[number].waits) {
    return take_reply(number, datagram.substr(UdpFrame::header_bytes), now_ns);
  }
  if (++counts_.late > counts_.lost) {
    throw std::runtime_error("a reply to nothing that was asked: " + std::string(datagram));
  }
}

void MemcachedReader::take_reply(uint16_t number, std::string_view reply, int64_t now_ns) {
  Slot& slot = slots_[number];
  expected_.clear();
  append_reply(expected_, load_.mg, slot.key, load_.value_bytes);
  if (!slot.waits || reply != expected_) {
    throw std::runtime_error("a wrong reply, not " + expected_ + ": " + std::string(reply));
  }
  slot.waits = false;
  idle_.push_back(number);
  ++counts_.answered;
  counts_.ns.record(static_cast<uint64_t>(std::max<int64_t>(now_ns - slot.began_ns, 0)));
}

}  // namespace isotherm::bench
