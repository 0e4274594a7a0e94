#include "net/packets/xdp_socket.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace isotherm::net {
namespace {

constexpr const char* socket_words = "a socket of AF_XDP";

int make_socket() {
  const int socket = ::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (socket < 0) fail_by_errno(socket_words);
  return socket;
}

}  // namespace

XdpSocket::Mapping::Mapping(int socket, uint64_t ring, uint64_t bytes) : bytes_(bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                              socket, static_cast<off_t>(ring));
  if (memory == MAP_FAILED) fail_by_errno(socket_words);
  data_ = static_cast<char*>(memory);
}

XdpSocket::Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

XdpSocket::Mapping& XdpSocket::Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

XdpSocket::XdpSocket(std::span<char> memory, const Rings& rings) : socket_(make_socket()) {
  xdp_umem_reg its{};
  its.addr = reinterpret_cast<uint64_t>(memory.data());
  its.len = memory.size();
  its.chunk_size = chunk_bytes;
  set(XDP_UMEM_REG, &its, sizeof its);
  make_rings(rings);
}

XdpSocket::XdpSocket(const XdpSocket& first, const Rings& rings)
    : socket_(make_socket()), first_(first.number()) {
  make_rings(rings);
}

void XdpSocket::set(int option, const void* value, uint32_t bytes) const {
  if (::setsockopt(number(), SOL_XDP, option, value, bytes) != 0) fail_by_errno(socket_words);
}

void XdpSocket::get(int option, void* value, uint32_t bytes) const {
  socklen_t its = bytes;
  if (::getsockopt(number(), SOL_XDP, option, value, &its) != 0) fail_by_errno(socket_words);
}

template <class Entry>
XdpRing<Entry> XdpSocket::map(Mapping& mapping, uint64_t ring, const xdp_ring_offset& at,
                              uint32_t size) {
  mapping = Mapping(number(), ring, at.desc + size * sizeof(Entry));
  return XdpRing<Entry>(mapping.data(), at, size);
}

void XdpSocket::make_rings(const Rings& rings) {
  // The kernel wants one of these for each queue, even if nothing is sent by it.
  const uint32_t sends = rings.sends != 0 ? rings.sends : 1;
  set(XDP_UMEM_FILL_RING, &rings.receives, sizeof rings.receives);
  set(XDP_UMEM_COMPLETION_RING, &sends, sizeof sends);
  set(XDP_RX_RING, &rings.receives, sizeof rings.receives);
  if (rings.sends != 0) set(XDP_TX_RING, &rings.sends, sizeof rings.sends);
  xdp_mmap_offsets at{};
  get(XDP_MMAP_OFFSETS, &at, sizeof at);
  fill = map<uint64_t>(fill_memory_, XDP_UMEM_PGOFF_FILL_RING, at.fr, rings.receives);
  received = map<xdp_desc>(received_memory_, XDP_PGOFF_RX_RING, at.rx, rings.receives);
  if (rings.sends == 0) return;
  to_send = map<xdp_desc>(to_send_memory_, XDP_PGOFF_TX_RING, at.tx, rings.sends);
  sent = map<uint64_t>(sent_memory_, XDP_UMEM_PGOFF_COMPLETION_RING, at.cr, rings.sends);
}

void XdpSocket::bind(int interface, uint32_t queue, bool copies) {
  sockaddr_xdp at{};
  at.sxdp_family = AF_XDP;
  at.sxdp_ifindex = static_cast<uint32_t>(interface);
  at.sxdp_queue_id = queue;
  if (first_ >= 0) {
    at.sxdp_flags = XDP_SHARED_UMEM;
    at.sxdp_shared_umem_fd = static_cast<uint32_t>(first_);
  } else {
    at.sxdp_flags = copies ? XDP_USE_NEED_WAKEUP | XDP_COPY : XDP_USE_NEED_WAKEUP;
  }
  if (::bind(number(), reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) {
    fail_by_errno("queue " + std::to_string(queue));
  }
}

bool XdpSocket::is_zero_copy() const {
  xdp_options options{};
  get(XDP_OPTIONS, &options, sizeof options);
  return (options.flags & XDP_OPTIONS_ZEROCOPY) != 0;
}

void XdpSocket::wake_receiver() const {
  ::recvfrom(number(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
}

bool XdpSocket::wake_sender() const {
  return ::sendto(number(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) >= 0 || errno == EAGAIN ||
         errno == EBUSY || errno == ENOBUFS || errno == EINTR;
}

xdp_statistics XdpSocket::statistics() const {
  xdp_statistics counts{};
  get(XDP_STATISTICS, &counts, sizeof counts);
  return counts;
}

}  // namespace isotherm::net
