#include "net/packets/store_packets.h"

#include <arpa/inet.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "net/memcached/protocol.h"
#include "net/socket_address.h"
#include "net/udp/frame.h"
#include "net/udp/trust.h"

namespace isotherm::net {
namespace {

// Of a batch, after which further datagrams are for the next one.
constexpr Batch::Row most_packet_rows = 1 << 13;

std::string_view request_text(const PacketAsk& ask) {
  return ask.datagram.substr(UdpFrame::header_bytes);
}

}  // namespace

struct StorePackets::Exchange {
  Exchange(ServerState& server, BufferPool& pool)
      : protocol(make_memcached_protocol(server)), output(&pool) {}

  std::unique_ptr<Protocol> protocol;
  bool under_way = false;
  size_t parsed = 0;
  Output output;
  ReplyEnds ends;
};

StorePackets::StorePackets(ServerState& server, LoopCounters& counters, Tree& tree,
                           const std::atomic<bool>& stops)
    : server_(server),
      counters_(counters),
      tree_(tree),
      stops_(stops),
      worker_(server.engine),
      turn_{batch_, worker_, server, counters, server.clock, copies_},
      seed_(hash_bytes(server.run_id, 0)) {}

StorePackets::~StorePackets() = default;

bool StorePackets::is_newest(uint64_t begun, std::string_view key, bool found) {
  const MemcachedShared& shared = server_.memcached;
  if (shared.prefixes.on()) return false;
  // The clock is read for a flush alone, as this is asked for each answer.
  if (shared.flush.is_set() && shared.flush.due(server_.clock.now_ms())) return false;
  return tree_.is_newest(begun, memcached_database, key, found);
}

void StorePackets::run(std::span<PacketAsk> asks, int64_t /*now_ms*/) {
  reply_bytes_ = 0;
  try {
    while (!asks.empty()) asks = asks.subspan(run_some(asks));
  } catch (const std::bad_alloc&) {
    give_up();
  }
  pool_.trim();
  worker_.maintain();
}

// Those that have no reply yet are lost, as if on their way.
void StorePackets::give_up() {
  counters_.udp.unsent.add();
  turn_.reply_ends = nullptr;
  batch_.clear();
  exchanges_.clear();
}

// Returns how many that were.
size_t StorePackets::run_some(std::span<PacketAsk> asks) {
  turn_.received();
  add_due_flush(server_, batch_, turn_.now_ms());
  size_t count = 0;
  bool more = true;
  while (more && count < std::min(asks.size(), most_at_once) && batch_.size() < most_packet_rows) {
    if (count == exchanges_.size())
      exchanges_.push_back(std::make_unique<Exchange>(server_, pool_));
    Exchange& exchange = *exchanges_[count];
    const PacketAsk& ask = asks[count++];
    exchange.parsed = 0;
    if (!is_repeat(ask)) more = parse(exchange, ask);
  }
  submit(count);
  more = false;
  for (size_t i = 0; i < count; ++i) more = reply(*exchanges_[i], asks[i]);
  batch_.clear();
  // The last of them goes on alone.
  while (more) {
    wait_for_pause();
    turn_.received();
    parse(*exchanges_[count - 1], asks[count - 1]);
    submit(1);
    more = reply(*exchanges_[count - 1], asks[count - 1]);
    batch_.clear();
  }
  return count;
}

bool StorePackets::is_repeat(const PacketAsk& ask) {
  if (UdpRepeats::only_gets(request_text(ask))) return false;
  const uint64_t sender = hash_bytes(ask.address, seed_ + ask.port);
  const bool repeated = repeats_.note(hash_bytes(ask.datagram, sender), turn_.now_ms());
  counters_.udp.repeated.add(repeated);
  return repeated;
}

// Whether another datagram may share its batch.
bool StorePackets::parse(Exchange& exchange, const PacketAsk& ask) {
  const Batch::Row before = batch_.size();
  exchange.under_way = true;
  exchange.parsed += exchange.protocol->parse(request_text(ask).substr(exchange.parsed), turn_);
  return !exchange.protocol->stopped_early() && batch_.size() - before <= 1;
}

void StorePackets::submit(size_t datagrams) {
  if (batch_.empty()) return;
  counters_.record_batch(batch_.size(), datagrams);
  const uint64_t copied = worker_.copied_bytes();
  worker_.submit(batch_, turn_.now_ms());
  copies_.learn(worker_.copied_bytes() - copied);
}

// Whether it has more for the next batch.
bool StorePackets::reply(Exchange& exchange, PacketAsk& ask) {
  if (!std::exchange(exchange.under_way, false)) return false;
  Protocol& protocol = *exchange.protocol;
  turn_.full_output = exchange.output.size() + output_bound;
  turn_.reply_ends = &exchange.ends;
  const size_t left = protocol.reply(turn_, exchange.output);
  turn_.reply_ends = nullptr;
  counters_.by_command.finish_turn(nanoseconds_since(server_.clock, turn_.now_us()));
  exchange.parsed -= left;
  const bool alone = protocol.waits_alone();
  if (alone) run_alone(exchange, ask);
  const bool has_rest = exchange.parsed < request_text(ask).size() && !protocol.closing();
  const bool more = left != 0 || alone || protocol.stopped_early();
  const bool gives_up = exchange.output.size() > longest_reply ||
                        (protocol.held() && stops_.load(std::memory_order_relaxed));
  if (has_rest && more && !gives_up) return true;
  counters_.udp.truncated.add(has_rest && !gives_up);
  finish(exchange, ask);
  return false;
}

void StorePackets::run_alone(Exchange& exchange, const PacketAsk& ask) {
  if (!exchange.protocol->walks()) {
    exchange.protocol->run_alone(turn_, exchange.output);
  } else {
    exchange.output.append(no_walk_by_udp);
    exchange.parsed = request_text(ask).size();
  }
  exchange.ends.note(exchange.output.size());
}

void StorePackets::finish(Exchange& exchange, PacketAsk& ask) {
  exchange.protocol->restart();
  exchange.ends.note(exchange.output.size());
  if (reply_bytes_ > most_unsent) {
    counters_.udp.unsent.add(!exchange.output.empty());
  } else if (exchange.output.size() <= longest_reply) {
    ask.reply = exchange.output.text();
    ask.ends = exchange.ends.all();
  } else {
    counters_.udp.too_long.add();
    ask.reply = too_long_by_udp;
    ask.ends = {ask.reply.size()};
  }
  reply_bytes_ += ask.reply.size();
  exchange.output.clear();
  exchange.ends.clear();
}

void StorePackets::wait_for_pause() const {
  constexpr std::chrono::milliseconds patience(1);
  while (server_.pause.holds(server_.clock.now_ms()) != Pause::Holds::nothing &&
         !stops_.load(std::memory_order_relaxed)) {
    std::this_thread::sleep_for(patience);
  }
}

bool StorePackets::is_trusted(const PacketAsk& ask) const {
  char text[INET6_ADDRSTRLEN];
  const int family = ask.address.size() == sizeof(in_addr) ? AF_INET : AF_INET6;
  if (::inet_ntop(family, ask.address.data(), text, sizeof text) == nullptr) return false;
  const auto address = SocketAddress::parse(text, ask.port);
  return address && is_trusted_by_udp(server_, *address);
}

void StorePackets::note(const PacketCounts& counts) {
  const auto add = [&](Counter& counter, uint64_t PacketCounts::*count) {
    counter.add(counts.*count - noted_.*count);
  };
  const uint64_t gets = counts.by_device - noted_.by_device;
  const uint64_t hits = counts.hits - noted_.hits;
  worker_.count_reads(hits, gets - hits);
  counters_[LoopCount::commands].add(gets);
  counters_.memcached.cmd_get.add(gets);
  counters_.memcached.slab_of(Location{}).get_hits.add(hits);
  counters_.memcached.get_misses.add(gets - hits);
  add(counters_[LoopCount::bytes_in], &PacketCounts::bytes_in);
  add(counters_[LoopCount::bytes_out], &PacketCounts::bytes_out);
  add(counters_.udp.received, &PacketCounts::received);
  add(counters_.udp.sent, &PacketCounts::sent);
  add(counters_.udp.too_long, &PacketCounts::too_long);
  add(counters_.udp.unsent, &PacketCounts::unsent);
  add(counters_.packets.batches, &PacketCounts::batches);
  add(counters_.packets.by_device, &PacketCounts::by_device);
  add(counters_.packets.by_cpu, &PacketCounts::by_cpu);
  add(counters_.packets.overtaken, &PacketCounts::overtaken);
  add(counters_.packets.changed, &PacketCounts::changed);
  add(counters_.packets.missed, &PacketCounts::missed);
  add(counters_.packets.fragments, &PacketCounts::fragments);
  add(counters_.packets.joined, &PacketCounts::joined);
  for (uint32_t i = 0; i < frame_kinds; ++i) {
    const uint64_t dropped = counts.dropped[i] - noted_.dropped[i];
    switch (static_cast<FrameKind>(i)) {
      case FrameKind::several:
      case FrameKind::fragment:
        counters_.udp.several.add(dropped);
        break;
      case FrameKind::foreign:
        counters_.udp.foreign.add(dropped);
        break;
      default:
        counters_.udp.malformed.add(dropped);
    }
  }
  noted_ = counts;
}

}  // namespace isotherm::net
