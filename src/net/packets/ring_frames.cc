#include "net/packets/ring_frames.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <span>
#include <system_error>

namespace isotherm::net {
namespace {

constexpr uint32_t block_patience_ms = 1;  // with a block that is not full

tpacket_block_desc& block_at(char* memory, uint32_t block) {
  return *reinterpret_cast<tpacket_block_desc*>(memory + size_t{block} * RingFrames::block_bytes);
}
std::atomic_ref<uint32_t> status_of(tpacket_block_desc& block) {
  return std::atomic_ref<uint32_t>(block.hdr.bh1.block_status);
}

// What the socket does not take at once is dropped. Returns how many were.
uint64_t send_messages(int descriptor, std::span<mmsghdr> messages) {
  uint64_t dropped = 0;
  while (!messages.empty()) {
    const int sent = ::sendmmsg(descriptor, messages.data(), static_cast<unsigned>(messages.size()),
                                MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) ++dropped;
    messages = messages.subspan(sent > 0 ? static_cast<size_t>(sent) : 1);
  }
  return dropped;
}

}  // namespace

RingFrames::RingFrames(const std::string& interface, uint16_t port, uint32_t blocks)
    : interface_(interface),
      index_(interface_index(interface)),
      ring_(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      port_(port) {
  if (ring_.number() < 0) fail_by_errno(interface);
  attach_filter(port);
  map_ring(blocks);
  const int yes = 1;
  set(SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes);
  sockaddr_ll at{};
  at.sll_family = AF_PACKET;
  at.sll_protocol = htons(ETH_P_ALL);
  at.sll_ifindex = index_;
  if (::bind(ring_.number(), reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) {
    const int error = errno;
    ::munmap(memory_, size_t{blocks_} * block_bytes);
    throw std::system_error(error, std::generic_category(), interface);
  }
}

RingFrames::~RingFrames() { ::munmap(memory_, size_t{blocks_} * block_bytes); }

void RingFrames::set(int level, int name, const void* value, socklen_t bytes) const {
  if (::setsockopt(ring_.number(), level, name, value, bytes) != 0) fail_by_errno(interface_);
}

// UDP to the port, as a whole or as the first fragment, and all other fragments of UDP, which do
// not say for which port they are.
void RingFrames::attach_filter(uint16_t port) const {
  constexpr uint32_t v4_offset = 0x1fff;
  constexpr uint32_t v6_offset = 0xfff8;
  constexpr uint32_t all = 0x40000;
  const std::array<sock_filter, 23> steps{{
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),  // the type
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 7),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),  // IPv4: the protocol, the offset, the port
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 18),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 20),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, v4_offset, 15, 0),
      BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
      BPF_STMT(BPF_LD | BPF_H | BPF_IND, 16),
      BPF_JUMP(BPF_JMP | BPF_JA, 11, 0, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 0, 12),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 20),  // IPv6: the protocol
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 7, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_FRAGMENT, 0, 9),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 54),  // that of the fragment, its offset, its port
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 7),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 56),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, v6_offset, 4, 0),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 64),
      BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 56),  // the port of a whole packet
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, all),
      BPF_STMT(BPF_RET | BPF_K, 0),
  }};
  const sock_fprog filter{static_cast<unsigned short>(steps.size()),
                          const_cast<sock_filter*>(steps.data())};
  set(SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

void RingFrames::map_ring(uint32_t blocks) {
  constexpr uint32_t frame_bytes = 2048;
  const int version = TPACKET_V3;
  set(SOL_PACKET, PACKET_VERSION, &version, sizeof version);
  tpacket_req3 wanted{};
  wanted.tp_block_size = block_bytes;
  wanted.tp_block_nr = blocks;
  wanted.tp_frame_size = frame_bytes;
  wanted.tp_frame_nr = block_bytes / frame_bytes * blocks;
  wanted.tp_retire_blk_tov = block_patience_ms;
  set(SOL_PACKET, PACKET_RX_RING, &wanted, sizeof wanted);
  void* const memory = ::mmap(nullptr, size_t{blocks} * block_bytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED, ring_.number(), 0);
  if (memory == MAP_FAILED) fail_by_errno(interface_);
  memory_ = static_cast<char*>(memory);
  blocks_ = blocks;
}

void RingFrames::wait(int timeout_ms) const {
  if (is_ours(block_)) return;
  pollfd socket{ring_.number(), POLLIN, 0};
  ::poll(&socket, 1, timeout_ms);
}

bool RingFrames::is_ours(uint32_t block) const {
  return (status_of(block_at(memory_, block)).load(std::memory_order_acquire) & TP_STATUS_USER) !=
         0;
}

void RingFrames::give_back() {
  status_of(block_at(memory_, block_)).store(TP_STATUS_KERNEL, std::memory_order_release);
  block_ = (block_ + 1) % blocks_;
  is_open_ = false;
}

uint32_t RingFrames::receive(uint32_t most, FrameSink& sink) {
  uint32_t given = 0;
  if (is_open_ && left_ == 0) give_back();
  if (!is_open_) {
    if (!is_ours(block_)) return 0;
    const tpacket_hdr_v1& head = block_at(memory_, block_).hdr.bh1;
    next_ = memory_ + size_t{block_} * block_bytes + head.offset_to_first_pkt;
    left_ = head.num_pkts;
    is_open_ = true;
  }
  for (; left_ != 0 && given < most; --left_, ++given) {
    const auto& head = *reinterpret_cast<const tpacket3_hdr*>(next_);
    char* const frame = next_ + head.tp_mac;
    if ((head.tp_status & TP_STATUS_CSUMNOTREADY) != 0) make_checksum(frame, head.tp_snaplen);
    sink.take({frame, head.tp_snaplen});
    next_ += head.tp_next_offset;
  }
  return given;
}

uint64_t RingFrames::dropped() const {
  tpacket_stats_v3 counts{};
  socklen_t bytes = sizeof counts;
  // The kernel begins anew with each call.
  if (::getsockopt(ring_.number(), SOL_PACKET, PACKET_STATISTICS, &counts, &bytes) == 0) {
    dropped_ += counts.tp_drops;
  }
  return dropped_;
}

void RingFrames::send(std::string_view frame) {
  if (waiting_ == most_at_once) flush();
  replies_[waiting_++].assign(frame);
}

void RingFrames::flush() {
  if (waiting_ == 0) return;
  std::array<mmsghdr, most_at_once> messages{};
  std::array<iovec, most_at_once> pieces;
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_ifindex = index_;
  for (uint32_t i = 0; i < waiting_; ++i) {
    pieces[i] = {replies_[i].data(), replies_[i].size()};
    messages[i].msg_hdr.msg_name = &to;
    messages[i].msg_hdr.msg_namelen = sizeof to;
    messages[i].msg_hdr.msg_iov = &pieces[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  unsent_ += send_messages(ring_.number(), {messages.data(), waiting_});
  waiting_ = 0;
}

}  // namespace isotherm::net
