#include "net/udp/port.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "base/hash.h"
#include "net/memcached/protocol.h"
#include "net/udp/sending.h"
#include "net/udp/socket_options.h"
#include "net/udp/trust.h"

namespace isotherm::net {
namespace {

constexpr size_t longest_datagram = 64 << 10;
constexpr size_t first_exchanges = 8;

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
    make_room_for_bursts(descriptor);
    return descriptor;
  }
  const int why = errno;
  if (descriptor >= 0) ::close(descriptor);
  throw std::system_error(why, std::system_category(), "bind");
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
  ReplyEnds ends;
  size_t ends_counted = 0;
  size_t datagrams = 0;            // of the replies that were counted
  ReplyCursor next;                // to be sent
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
      seed_(hash_bytes(server.run_id, 0)),
      divides_(divides_messages(descriptor_)) {
  for (Exchanges* const list : {&free_, &in_turns_, &again_, &continued_, &unsent_}) {
    list->reserve(most_exchanges);
  }
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
  try {
    if (readable_) make_exchanges(room);
  } catch (const std::bad_alloc&) {
    // Fewer at a time will do.
  }
}

// Whether it is a request; else it is counted.
bool UdpPort::takes(Exchange& exchange, size_t bytes, bool cut, int64_t now_ms) {
  counters_.received.add();
  loop_counters_[LoopCount::bytes_in].add(bytes);
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
  return !repeated || UdpRepeats::only_gets(exchange.rest());
}

// Parses it where the turn has room for more rows; else the next turn does.
void UdpPort::parse_if_room(Exchange& exchange, LoopTurn& turn) {
  turn.batch.size() < rows_end_ ? parse_one(exchange, turn) : again_.push_back(&exchange);
}

void UdpPort::parse_one(Exchange& exchange, LoopTurn& turn) {
  exchange.turn = &turn;
  exchange.first_row = turn.batch.size();
  try {
    exchange.parsed += exchange.protocol->parse(exchange.rest(), turn.turn);
  } catch (const std::bad_alloc&) {
    turn.batch.drop(exchange.first_row);
    return give_up(exchange);
  }
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

// There is no memory for it, as if it were lost on its way.
void UdpPort::give_up(Exchange& exchange) {
  exchange.turn = nullptr;
  exchange.protocol->restart();
  counters_.unsent.add();
  free(exchange);
}

void UdpPort::reply_one(Exchange& exchange, LoopTurn& turn) {
  const size_t full = turn.turn.full_output;
  try {
    answer(exchange, turn);
  } catch (const std::bad_alloc&) {
    turn.turn.reply_ends = nullptr;
    turn.turn.full_output = full;
    give_up(exchange);
  }
}

void UdpPort::answer(Exchange& exchange, LoopTurn& turn) {
  Protocol& protocol = *exchange.protocol;
  const size_t full = std::exchange(turn.turn.full_output, exchange.output.size() + output_bound);
  turn.turn.reply_ends = &exchange.ends;
  const size_t left = protocol.reply(turn.turn, exchange.output);
  turn.turn.reply_ends = nullptr;
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
  if (!exchange.protocol->walks()) {
    exchange.protocol->run_alone(turn, exchange.output);
  } else {
    exchange.output.append(no_walk_by_udp);
    exchange.parsed = exchange.received;
  }
  exchange.ends.note(exchange.output.size());
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
  exchange.ends.note(bytes);
  exchange.next = ReplyCursor(exchange.ends.all(), exchange.frame.id);
  unsent_.push_back(&exchange);
}

// Bytes of what is answered so far. The network's headers of the first datagram are paid for by
// those of the request.
size_t UdpPort::sent_bytes(Exchange& exchange) {
  const std::vector<size_t>& ends = exchange.ends.all();
  size_t begin = exchange.ends_counted == 0 ? 0 : ends[exchange.ends_counted - 1];
  for (; exchange.ends_counted < ends.size(); ++exchange.ends_counted) {
    exchange.datagrams += UdpFrame::datagrams(ends[exchange.ends_counted] - begin);
    begin = ends[exchange.ends_counted];
  }
  const size_t bytes = exchange.output.size();
  const size_t datagrams = exchange.datagrams + UdpFrame::datagrams(bytes - begin);
  if (datagrams == 0) return 0;
  constexpr size_t network_headers = 28;
  return bytes + datagrams * UdpFrame::header_bytes + (datagrams - 1) * network_headers;
}

void UdpPort::bound_reply(Exchange& exchange) {
  const size_t bytes = sent_bytes(exchange);
  const size_t most = exchange.received * server_.options.memcached_udp_amplification;
  if (bytes <= longest_reply && (bytes <= most || is_trusted(exchange))) return;
  counters_.too_long.add();
  clear_reply(exchange);
  if (UdpFrame::sent_bytes(too_long_by_udp.size()) <= most) {
    exchange.output.append(too_long_by_udp);
  }
}

void UdpPort::clear_reply(Exchange& exchange) {
  exchange.output.clear();
  exchange.ends.clear();
  exchange.ends_counted = exchange.datagrams = 0;
}

void UdpPort::account(Exchange& exchange) {
  unsent_bytes_ += exchange.output.size();
  unsent_bytes_ -= std::exchange(exchange.counted, exchange.output.size());
}

bool UdpPort::is_trusted(const Exchange& exchange) const {
  return is_trusted_by_udp(server_, exchange.from);
}

void UdpPort::free(Exchange& exchange) {
  unsent_bytes_ -= std::exchange(exchange.counted, 0);
  clear_reply(exchange);
  free_.push_back(&exchange);
}

// Datagrams of what is left of its replies, as far as there is room. Returns their bytes of it.
size_t UdpPort::gather(Exchange& exchange, bool divides, UdpSending& sending) {
  constexpr size_t most_parts = 32;
  std::array<iovec, most_parts> parts;
  const size_t part_count = exchange.output.iovecs(parts);
  size_t part = 0;
  size_t gathered = 0;
  for (ReplyCursor next = exchange.next; !next.at_end() && !sending.full(); next.advance()) {
    const size_t wanted = next.bytes();
    const size_t first_piece = sending.piece_count;
    sending.pieces[sending.piece_count++] = {sending.frames[sending.count].data(),
                                             UdpFrame::header_bytes};
    size_t has = 0;
    while (has < wanted && part < part_count && sending.piece_count < UdpSending::most_pieces) {
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
    next.frame().write(sending.frames[sending.count].data());
    sending.add(exchange.from, has, first_piece, divides);
    gathered += has;
  }
  return gathered;
}

// The first of them is of the exchange at `done`. Returns how many exchanges at the front have all
// of their replies sent.
size_t UdpPort::note_sent(const UdpSending& sending, size_t messages, size_t done) {
  const size_t sent = sending.datagrams_of(messages);
  for (size_t i = 0; i < sent; ++i) {
    Exchange& exchange = *unsent_[done];
    counters_.sent.add();
    loop_counters_[LoopCount::bytes_out].add(sending.bytes[i] + UdpFrame::header_bytes);
    exchange.next.advance();
    exchange.output.consume(sending.bytes[i]);
    if (exchange.output.empty()) ++done;
  }
  return done;
}

void UdpPort::send() {
  size_t done = 0;
  bool divides = divides_;
  for (int calls = 0; calls < most_sends && done < unsent_.size() && !full_; ++calls) {
    UdpSending sending;
    for (size_t i = done; i < unsent_.size() && !sending.full(); ++i) {
      const size_t left = unsent_[i]->output.size();
      if (gather(*unsent_[i], divides, sending) < left) break;
    }
    const int result = ::sendmmsg(descriptor_, sending.headers.data(),
                                  static_cast<unsigned>(sending.message_count), MSG_NOSIGNAL);
    if (result > 0) {
      const size_t ended = note_sent(sending, static_cast<size_t>(result), done);
      for (; done < ended; ++done) free(*unsent_[done]);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      full_ = true;
    } else if (sending.cannot_be_divided(errno)) {
      divides = false;
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
