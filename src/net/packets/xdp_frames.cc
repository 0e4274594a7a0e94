#include "net/packets/xdp_frames.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>

#include "base/hash.h"

namespace isotherm::net {
namespace {

constexpr uint32_t chunk_bytes = XdpSocket::chunk_bytes;

uint32_t chunks_of_each(uint32_t queues) {
  constexpr uint32_t all = 4 * 4096;
  return std::clamp(std::bit_floor(all / queues), 512u, 4096u);
}

// The same for all frames to one address and port.
uint64_t hash_of_receiver(std::string_view frame) {
  constexpr size_t type = 12, v4_receiver = 30, v6_receiver = 38;
  const bool v6 = frame.size() > type + 1 && frame[type] == '\x86' && frame[type + 1] == '\xdd';
  // Both ports, or options, are behind the address.
  const size_t begin = std::min(frame.size(), v6 ? v6_receiver : v4_receiver);
  return hash_bytes(frame.substr(begin, v6 ? 20 : 8), 0);
}

}  // namespace

// Drivers that do not tell have as many as the kernel has made for them.
XdpFrames::QueueCounts XdpFrames::count_queues(const std::string& interface) {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  ifreq request{};
  interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  request.ifr_data = reinterpret_cast<char*>(&channels);
  if (::ioctl(socket.number(), SIOCETHTOOL, &request) == 0) {
    return {std::max(1u, channels.rx_count + channels.combined_count),
            std::max(1u, channels.tx_count + channels.combined_count)};
  }
  QueueCounts counts{0, 0};
  std::error_code none;
  const std::filesystem::directory_iterator queues("/sys/class/net/" + interface + "/queues", none);
  for (const auto& queue : queues) {
    const std::string name = queue.path().filename().string();
    counts.receiving += name.starts_with("rx-") ? 1 : 0;
    counts.sending += name.starts_with("tx-") ? 1 : 0;
  }
  return {std::max(1u, counts.receiving), std::max(1u, counts.sending)};
}

XdpFrames::XdpFrames(const std::string& interface, uint16_t port, uint32_t chunks)
    : index_(interface_index(interface)),
      counts_(count_queues(interface)),
      queue_count_(counts_.receiving),
      sending_(std::min({counts_.receiving, counts_.sending, most_sending})),
      replies_of_each_(std::bit_floor(replies / sending_)),
      chunks_(chunks != 0 ? chunks : chunks_of_each(queue_count_)),
      port_(port),
      memory_((uint64_t{chunks_} * queue_count_ + replies) * chunk_bytes,
              HugeBlock::Pages::huge_2m),
      program_(port, queue_count_) {
  program_.attach(interface);
  for (uint32_t i = 0; i < queue_count_; ++i) {
    const XdpSocket::Rings rings{chunks_, i < sending_ ? replies_of_each_ : 0};
    queues_.push_back(i == 0 ? std::make_unique<Queue>(area(), rings)
                             : std::make_unique<Queue>(queues_[0]->socket, rings));
    open(*queues_.back(), i);
  }
  zero_copy_ = queues_[0]->socket.is_zero_copy();
  for (uint64_t i = 0; i < uint64_t{sending_} * replies_of_each_; ++i) {
    const uint64_t chunk = uint64_t{chunks_} * queue_count_ + i;
    queues_[i / replies_of_each_]->replies.push_back(chunk * chunk_bytes);
  }
}

void XdpFrames::open(Queue& queue, uint32_t number) {
  for (uint64_t i = 0; i < chunks_; ++i) {
    queue.free.push_back((uint64_t{number} * chunks_ + i) * chunk_bytes);
  }
  refill(queue);
  queue.socket.bind(index_, number, !program_.in_driver());
  program_.add(number, queue.socket.number());
}

std::string XdpFrames::way() const {
  return std::string(zero_copy_ ? "zero-copy" : "copied") +
         (program_.in_driver() ? ", program in the driver, " : ", program behind the driver, ") +
         std::to_string(queue_count_) + (queue_count_ == 1 ? " queue" : " queues");
}

uint64_t XdpFrames::dropped() const {
  uint64_t all = 0;
  for (const auto& queue : queues_) all += queue->socket.statistics().rx_dropped;
  return all;
}

void XdpFrames::refill(Queue& queue) {
  if (queue.free.empty()) return;
  for (const uint64_t chunk : queue.free) queue.socket.fill.put(chunk);
  queue.socket.fill.publish();
  queue.free.clear();
}

uint32_t XdpFrames::receive(uint32_t most, FrameSink& sink) {
  uint32_t given = 0;
  for (uint32_t i = 0; i < queue_count_; ++i) {
    Queue& queue = *queues_[(next_queue_ + i) % queue_count_];
    refill(queue);
    if (queue.socket.fill.needs_wakeup()) queue.socket.wake_receiver();
    given += receive(queue, most - given, sink);
  }
  next_queue_ = (next_queue_ + 1) % queue_count_;
  return given;
}

uint32_t XdpFrames::receive(Queue& queue, uint32_t most, FrameSink& sink) {
  XdpRing<xdp_desc>& received = queue.socket.received;
  const uint32_t count = std::min(most, received.filled());
  for (uint32_t i = 0; i < count; ++i) {
    const xdp_desc& its = received.take();
    char* const frame = memory_.data() + its.addr;
    if (!zero_copy_ && is_checksum_unfinished(frame, its.len)) make_checksum(frame, its.len);
    sink.take({frame, its.len});
  }
  if (count != 0) received.give_back();
  return count;
}

void XdpFrames::release(std::string_view frame) {
  const uint64_t chunk = static_cast<uint64_t>(frame.data() - memory_.data()) / chunk_bytes;
  queues_[chunk / chunks_]->free.push_back(chunk * chunk_bytes);
}

void XdpFrames::wait(int timeout_ms) const {
  std::vector<pollfd> sockets;
  for (const auto& queue : queues_) sockets.push_back({queue->socket.number(), POLLIN, 0});
  ::poll(sockets.data(), sockets.size(), timeout_ms);
}

void XdpFrames::send(std::string_view frame) {
  Queue& queue = *queues_[sending_ == 1 ? 0 : hash_of_receiver(frame) % sending_];
  if (queue.replies.empty()) flush(queue);
  if (queue.replies.empty()) {
    ++unsent_;
    return;
  }
  xdp_desc its{};
  its.addr = queue.replies.back();
  its.len = static_cast<uint32_t>(frame.size());
  queue.replies.pop_back();
  frame.copy(memory_.data() + its.addr, frame.size());
  queue.socket.to_send.put(its);
}

// Where frames are copied, each call sends a few dozens.
void XdpFrames::flush(Queue& queue) {
  constexpr int most_calls = replies / 16;
  XdpSocket& socket = queue.socket;
  socket.to_send.publish();
  for (int i = 0; i < most_calls && socket.to_send.unread() != 0 && socket.to_send.needs_wakeup();
       ++i) {
    if (!socket.wake_sender()) break;
  }
  const uint32_t count = socket.sent.filled();
  if (count == 0) return;
  for (uint32_t i = 0; i < count; ++i) queue.replies.push_back(socket.sent.take());
  socket.sent.give_back();
}

void XdpFrames::flush() {
  for (uint32_t i = 0; i < sending_; ++i) flush(*queues_[i]);
  // Whoever has released frames may wait for others now.
  for (const auto& queue : queues_) refill(*queue);
}

}  // namespace isotherm::net
