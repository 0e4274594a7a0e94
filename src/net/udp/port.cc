#include "net/udp/port.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "base/hash.h"
#include "net/memcached/protocol.h"

namespace isotherm::net {
namespace {

constexpr size_t longest_datagram = 64 << 10;
constexpr size_t first_exchanges = 8;
constexpr std::string_view too_long_answer = "SERVER_ERROR reply too large for UDP\r\n";
constexpr std::string_view no_walk_answer = "SERVER_ERROR not over UDP\r\n";

bool turn_on(int descriptor, int level, int option) {
  const int on = 1;
  return ::setsockopt(descriptor, level, option, &on, sizeof on) == 0;
}

// Loops share a port. A socket that asks for any port says so only afterwards: the system would
// give it one that another server of the same user shares.
bool bind_shared(int descriptor, const SocketAddress& address) {
  const auto share = [descriptor] { return turn_on(descriptor, SOL_SOCKET, SO_REUSEPORT); };
  const auto bind = [&] { return ::bind(descriptor, address.data(), address.size()) == 0; };
  return address.port() == 0 ? bind() && share() : share() && bind();
}

int bind_to(const SocketAddress& address) {
  constexpr int kind = SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  const int descriptor = ::socket(address.family(), kind, 0);
  if (descriptor >= 0 && (!address.is_v6() || turn_on(descriptor, IPPROTO_IPV6, IPV6_V6ONLY)) &&
      bind_shared(descriptor, address)) {
    // Bursts wait in this buffer, which the system may keep smaller.
    const int buffer_bytes = 4 << 20;
    ::setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    ::setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
    return descriptor;
  }
  const int why = errno;
  if (descriptor >= 0) ::close(descriptor);
  throw std::system_error(why, std::system_category(), "bind");
}

// Whether all lines are gets, which may be answered twice.
bool only_gets(std::string_view text) {
  while (!text.empty()) {
    if (!text.starts_with("get ") && !text.starts_with("gets ")) return false;
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  }
  return true;
}

}  // namespace

void UdpPort::check_free(const SocketAddress& address) {
  const int probe = ::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool is_free = probe >= 0 &&
                       (!address.is_v6() || turn_on(probe, IPPROTO_IPV6, IPV6_V6ONLY)) &&
                       ::bind(probe, address.data(), address.size()) == 0;
  const int why = errno;
  if (probe >= 0) ::close(probe);
  if (!is_free) throw std::system_error(why, std::system_category(), "bind");
}

struct UdpPort::Exchange {
  Exchange(ServerState& server, BufferPool& pool)
      : input(pool.take(longest_datagram)),
        protocol(make_memcached_protocol(server)),
        output(&pool, &server.engine) {}

  std::string_view bytes() const { return {input.bytes.get(), received}; }
  std::string_view rest() const { return bytes().substr(parsed); }

  Buffer input;
  SocketAddress from;
  size_t received = 0;
  size_t parsed = 0;
  UdpFrame frame;
  std::unique_ptr<Protocol> protocol;
  Output output;
  const LoopTurn* turn = nullptr;  // that has its rows
  Batch::Row first_row = 0;
  Batch::Row end_row = 0;
  size_t counted = 0;  // of unsent_bytes_
};

UdpPort::UdpPort(ServerState& server, LoopCounters& counters, BufferPool& pool,
                 const SocketAddress& address)
    : server_(server),
      loop_counters_(counters),
      counters_(counters.udp),
      pool_(pool),
      descriptor_(bind_to(address)),
      port_(SocketAddress::local_of(descriptor_).port()),
      seed_(hash_bytes(server.run_id, 0)) {
  make_exchanges(first_exchanges);
}

UdpPort::~UdpPort() {
  send_all();
  for (const auto& exchange : all_) {
    exchange->output.clear();
    pool_.give(std::move(exchange->input));
  }
  ::close(descriptor_);
}

void UdpPort::make_exchanges(size_t count) {
  for (size_t i = 0; i < count && all_.size() < most_exchanges; ++i) {
    all_.push_back(std::make_unique<Exchange>(server_, pool_));
    free_.push_back(all_.back().get());
  }
}

void UdpPort::on_events(uint32_t events) {
  if ((events & (EPOLLIN | EPOLLERR)) != 0) readable_ = true;
  if ((events & (EPOLLOUT | EPOLLERR)) != 0) full_ = false;
}

uint64_t UdpPort::parse(LoopTurn& turn) {
  const size_t before = in_turns_.size();
  rows_end_ = turn.batch.size() + most_rows;
  if (!held_) {
    continued_.swap(again_);
    for (Exchange* exchange : continued_) parse_if_room(*exchange, turn);
    continued_.clear();
  }
  if (readable_ && !free_.empty() && turn.batch.size() < rows_end_) receive(turn);
  uint64_t with_rows = 0;
  for (size_t i = before; i < in_turns_.size(); ++i) {
    with_rows += in_turns_[i]->end_row != in_turns_[i]->first_row;
  }
  return with_rows;
}

void UdpPort::receive(LoopTurn& turn) {
  std::array<mmsghdr, most_exchanges> messages;
  std::array<iovec, most_exchanges> inputs;
  const size_t room = free_.size();
  for (size_t i = 0; i < room; ++i) {
    Exchange& exchange = *free_[room - 1 - i];
    inputs[i] = {exchange.input.bytes.get(), exchange.input.capacity};
    messages[i] = {};
    messages[i].msg_hdr.msg_name = exchange.from.storage();
    messages[i].msg_hdr.msg_namelen = SocketAddress::storage_bytes;
    messages[i].msg_hdr.msg_iov = &inputs[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  const int result =
      ::recvmmsg(descriptor_, messages.data(), static_cast<unsigned>(room), MSG_DONTWAIT, nullptr);
  if (result < 0) {
    if (errno != EINTR) readable_ = false;
    return;
  }
  const auto received = static_cast<size_t>(result);
  readable_ = received == room;
  turn.turn.received();
  std::array<Exchange*, most_exchanges> taken;
  std::reverse_copy(free_.end() - static_cast<ptrdiff_t>(received), free_.end(), taken.begin());
  free_.resize(room - received);
  for (size_t i = 0; i < received; ++i) {
    Exchange& exchange = *taken[i];
    const bool cut = (messages[i].msg_hdr.msg_flags & MSG_TRUNC) != 0;
    if (takes(exchange, messages[i].msg_len, cut, turn.turn.now_ms())) {
      parse_if_room(exchange, turn);
    } else {
      free_.push_back(&exchange);
    }
  }
  if (readable_) make_exchanges(room);
}

// Whether it is a request; else it is counted.
bool UdpPort::takes(Exchange& exchange, size_t bytes, bool cut, int64_t now_ms) {
  counters_.received.add();
  loop_counters_.bytes_in.add(bytes);
  exchange.received = bytes;
  exchange.parsed = UdpFrame::header_bytes;
  UdpFrame::Fault fault = UdpFrame::read(exchange.bytes(), exchange.frame);
  const uint16_t port = exchange.from.port();
  if (fault == UdpFrame::Fault::none && (port == 0 || port == port_)) {
    fault = UdpFrame::Fault::foreign;
  }
  counters_.malformed.add(fault == UdpFrame::Fault::malformed);
  counters_.several.add(fault == UdpFrame::Fault::several);
  counters_.foreign.add(fault == UdpFrame::Fault::foreign);
  if (fault != UdpFrame::Fault::none) return false;
  if (cut) {
    counters_.truncated.add();
    return false;
  }
  const uint64_t sender = hash_bytes(exchange.from.bytes(), seed_);
  const bool repeated = repeats_.note(hash_bytes(exchange.bytes(), sender), now_ms);
  counters_.repeated.add(repeated);
  return !repeated || only_gets(exchange.rest());
}

// Parses it where the turn has room for more rows; else the next turn does.
void UdpPort::parse_if_room(Exchange& exchange, LoopTurn& turn) {
  turn.batch.size() < rows_end_ ? parse_one(exchange, turn) : again_.push_back(&exchange);
}

void UdpPort::parse_one(Exchange& exchange, LoopTurn& turn) {
  exchange.turn = &turn;
  exchange.first_row = turn.batch.size();
  exchange.parsed += exchange.protocol->parse(exchange.rest(), turn.turn);
  exchange.end_row = turn.batch.size();
  in_turns_.push_back(&exchange);
}

void UdpPort::reply(LoopTurn& turn, bool ended) {
  if (in_turns_.empty()) return;
  const auto is_ready = [&](const Exchange& exchange) {
    for (Batch::Row row = exchange.first_row; row < exchange.end_row; ++row) {
      if (!turn.batch.ready(row)) return false;
    }
    return true;
  };
  size_t waiting = 0;
  for (Exchange* exchange : in_turns_) {
    if (exchange->turn == &turn && (ended || is_ready(*exchange))) {
      reply_one(*exchange, turn);
    } else {
      in_turns_[waiting++] = exchange;
    }
  }
  in_turns_.resize(waiting);
}

void UdpPort::reply_one(Exchange& exchange, LoopTurn& turn) {
  Protocol& protocol = *exchange.protocol;
  const size_t full = std::exchange(turn.turn.full_output, exchange.output.size() + output_bound);
  const size_t left = protocol.reply(turn.turn, exchange.output);
  turn.turn.full_output = full;
  exchange.turn = nullptr;
  exchange.parsed -= left;
  const bool alone = protocol.waits_alone();
  if (alone) run_alone(exchange, turn.turn);
  const size_t reply_bytes = exchange.output.size();
  bound_reply(exchange);
  account(exchange);
  if (exchange.output.size() != reply_bytes || unsent_bytes_ > most_unsent) {
    return finish(exchange);
  }
  if (protocol.held()) held_ = true;
  const bool more = left != 0 || alone || protocol.stopped_early();
  if (more && !exchange.rest().empty() && !protocol.closing()) return again_.push_back(&exchange);
  if (!exchange.rest().empty() && !protocol.closing()) counters_.truncated.add();
  finish(exchange);
}

void UdpPort::run_alone(Exchange& exchange, Turn& turn) {
  if (!exchange.protocol->walks()) return exchange.protocol->run_alone(turn, exchange.output);
  exchange.output.append(no_walk_answer);
  exchange.parsed = exchange.received;
}

// Behind its last answer, or where it was dropped.
void UdpPort::finish(Exchange& exchange) {
  exchange.protocol->restart();
  const size_t bytes = exchange.output.size();
  if (bytes == 0) return free(exchange);
  if (unsent_bytes_ > most_unsent) {
    counters_.unsent.add();
    return free(exchange);
  }
  exchange.frame.number = 0;
  exchange.frame.count = static_cast<uint16_t>(UdpFrame::datagrams(bytes));
  unsent_.push_back(&exchange);
}

void UdpPort::bound_reply(Exchange& exchange) {
  const size_t bytes = UdpFrame::sent_bytes(exchange.output.size());
  const size_t most = exchange.received * server_.options.memcached_udp_amplification;
  if (bytes <= longest_reply && (bytes <= most || is_trusted(exchange))) return;
  counters_.too_long.add();
  exchange.output.clear();
  if (UdpFrame::sent_bytes(too_long_answer.size()) <= most) {
    exchange.output.append(too_long_answer);
  }
}

void UdpPort::account(Exchange& exchange) {
  unsent_bytes_ += exchange.output.size();
  unsent_bytes_ -= std::exchange(exchange.counted, exchange.output.size());
}

bool UdpPort::is_trusted(const Exchange& exchange) const {
  const UdpTrust trust = server_.options.memcached_udp_trusted;
  if (trust == UdpTrust::all) return true;
  if (trust == UdpTrust::loopback && exchange.from.is_loopback()) return true;
  return server_.proven.has(exchange.from.text());
}

void UdpPort::free(Exchange& exchange) {
  unsent_bytes_ -= std::exchange(exchange.counted, 0);
  exchange.output.clear();
  free_.push_back(&exchange);
}

// Datagrams for one system call.
struct UdpPort::Sending {
  static constexpr size_t most = 64;
  static constexpr size_t most_pieces = 8 * most;

  std::array<mmsghdr, most> messages;
  std::array<std::array<char, UdpFrame::header_bytes>, most> headers;
  std::array<Exchange*, most> of;
  std::array<size_t, most> bytes;  // of the reply
  std::array<iovec, most_pieces> pieces;
  size_t count = 0;
  size_t piece_count = 0;

  bool full() const { return count == most || piece_count + 2 > most_pieces; }
};

// Datagrams of what is left of a reply, as far as there is room. Returns their bytes of it.
size_t UdpPort::gather(Exchange& exchange, Sending& sending) {
  constexpr size_t most_parts = 32;
  std::array<iovec, most_parts> parts;
  const size_t part_count = exchange.output.iovecs(parts);
  size_t part = 0;
  size_t gathered = 0;
  const size_t all = exchange.output.size();
  UdpFrame frame = exchange.frame;
  while (gathered < all && !sending.full()) {
    const size_t wanted = std::min(all - gathered, UdpFrame::payload_bytes);
    const size_t first_piece = sending.piece_count;
    sending.pieces[sending.piece_count++] = {sending.headers[sending.count].data(),
                                             UdpFrame::header_bytes};
    size_t has = 0;
    while (has < wanted && part < part_count && sending.piece_count < Sending::most_pieces) {
      iovec& from = parts[part];
      const size_t bytes = std::min(from.iov_len, wanted - has);
      sending.pieces[sending.piece_count++] = {from.iov_base, bytes};
      has += bytes;
      from.iov_base = static_cast<char*>(from.iov_base) + bytes;
      from.iov_len -= bytes;
      if (from.iov_len == 0) ++part;
    }
    if (has < wanted) {  // next time
      sending.piece_count = first_piece;
      break;
    }
    frame.write(sending.headers[sending.count].data());
    ++frame.number;
    mmsghdr& message = sending.messages[sending.count];
    message = {};
    message.msg_hdr.msg_name = exchange.from.storage();
    message.msg_hdr.msg_namelen = exchange.from.size();
    message.msg_hdr.msg_iov = &sending.pieces[first_piece];
    message.msg_hdr.msg_iovlen = sending.piece_count - first_piece;
    sending.of[sending.count] = &exchange;
    sending.bytes[sending.count++] = has;
    gathered += has;
  }
  return gathered;
}

// Returns how many exchanges at the front have all of their reply sent.
size_t UdpPort::note_sent(const Sending& sending, size_t sent) {
  size_t done = 0;
  for (size_t i = 0; i < sent; ++i) {
    Exchange& exchange = *sending.of[i];
    counters_.sent.add();
    loop_counters_.bytes_out.add(sending.bytes[i] + UdpFrame::header_bytes);
    ++exchange.frame.number;
    exchange.output.consume(sending.bytes[i]);
    if (exchange.output.empty()) ++done;
  }
  return done;
}

void UdpPort::send() {
  size_t done = 0;
  for (int calls = 0; calls < most_sends && done < unsent_.size() && !full_; ++calls) {
    Sending sending;
    for (size_t i = done; i < unsent_.size() && !sending.full(); ++i) {
      const size_t left = unsent_[i]->output.size();
      if (gather(*unsent_[i], sending) < left) break;
    }
    const int result = ::sendmmsg(descriptor_, sending.messages.data(),
                                  static_cast<unsigned>(sending.count), MSG_NOSIGNAL);
    if (result > 0) {
      const size_t ended = done + note_sent(sending, static_cast<size_t>(result));
      for (; done < ended; ++done) free(*unsent_[done]);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      full_ = true;
    } else if (errno != EINTR) {
      // Its address cannot be reached, or an earlier one could not.
      counters_.unsent.add();
      free(*unsent_[done++]);
    }
  }
  unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<ptrdiff_t>(done));
}

void UdpPort::send_all() {
  constexpr int patience_ms = 100;
  for (send(); !unsent_.empty(); send()) {
    pollfd socket{descriptor_, POLLOUT, 0};
    if (full_ && ::poll(&socket, 1, patience_ms) <= 0) return counters_.unsent.add(unsent_.size());
    full_ = false;
  }
}

}  // namespace isotherm::net
