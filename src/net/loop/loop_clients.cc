// What a Loop does for its clients beside their turns: they come and go, are silent for too long,
// wait for the end of a pause, or hold too much memory.
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "net/log.h"
#include "net/loop/loop.h"
#include "net/memcached/protocol.h"
#include "net/resp/protocol.h"
#include "net/socket_address.h"

namespace isotherm::net {
namespace {

// Lets the kernel find out when a client is gone without a word: after `seconds` of silence it is
// asked, and three times more before it is given up.
void keep_alive(int descriptor, uint32_t seconds) {
  if (seconds == 0) return;
  const int on = 1;
  const int idle = static_cast<int>(seconds);
  const int between = std::max(1, idle / 3);
  const int probes = 3;
  ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

}  // namespace

std::unique_ptr<Client> Loop::make_client(int descriptor, Speaks speaks) {
  auto client = std::make_unique<Client>();
  client->id = server_.next_client_id.fetch_add(1, std::memory_order_relaxed);
  client->speaks = speaks;
  client->loop = this;
  const std::string path = unix_path_of(descriptor);
  client->by_path = !path.empty();
  client->peer_address = path.empty() ? SocketAddress::peer_of(descriptor).text() : path;
  client->local_address = path.empty() ? SocketAddress::local_of(descriptor).text() : path;
  client->descriptor = descriptor;
  client->last_ms = client->connected_ms = server_.clock.now_ms();
  return client;
}

// Each connection is at most once in each list.
void Loop::make_places(size_t connections) {
  if (connections_.capacity() < connections) connections_.reserve(2 * connections);
  for (auto* const list : {&ready_, &ended_, &alone_, &answered_}) {
    list->reserve(connections_.capacity());
  }
}

void Loop::welcome(int descriptor, Speaks speaks) {
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  keep_alive(descriptor, server_.live.tcp_keepalive);
  std::unique_ptr<Connection> made;  // which has the socket
  try {
    make_places(connections_.size() + 1);
    std::unique_ptr<Client> client = make_client(descriptor, speaks);
    Client& its = *client;
    auto protocol = speaks == Speaks::resp ? make_resp_protocol(server_, its)
                                           : make_memcached_protocol(server_);
    made = std::make_unique<Connection>(*this, pool_, server_.engine, descriptor,
                                        std::move(protocol), std::move(client));
    server_.clients.add(its);
    if (proves_addresses()) server_.proven.add(its.peer_address);
  } catch (const std::bad_alloc&) {
    if (made == nullptr) {
      ::close(descriptor);
    } else {
      server_.clients.remove(made->client());
    }
    (speaks == Speaks::resp ? server_.resp_clients : server_.memcached_clients).fetch_sub(1);
    return log(LogLevel::warning, "a client is disconnected: there is no memory for it");
  }
  counters_[LoopCount::connections].add();
  made->index = connections_.size();
  Connection& connection = *connections_.emplace_back(std::move(made));
  if (!events_.add_client(descriptor, connection)) connection.close();
}

void Loop::ended(Connection& connection) {
  if (!std::exchange(connection.is_ended, true)) ended_.push_back(&connection);
}

void Loop::delete_ended() {
  for (Connection* connection : ended_) {
    connection->is_ended = false;
    // Otherwise the turn that it is queued for names it again.
    if (!connection->deletable()) continue;
    server_.clients.remove(connection->client());
    if (proves_addresses()) server_.proven.remove(connection->client().peer_address);
    const bool resp = connection->client().speaks == Speaks::resp;
    (resp ? server_.resp_clients : server_.memcached_clients).fetch_sub(1);
    const size_t index = connection->index;
    std::swap(connections_[index], connections_.back());
    connections_[index]->index = index;
    connections_.pop_back();
  }
  ended_.clear();
  if (crowded_) trim_pool();
}

// What a client has sent while the loop stood still is not read yet, and it was not silent.
void Loop::close_idle() {
  const int64_t all_ms = int64_t{1000} * server_.live.timeout;
  const int64_t own_ms = int64_t{1000} * server_.options.memcached_idle_timeout;
  if (all_ms == 0 && own_ms == 0) return;
  const int64_t now_ms = server_.clock.now_ms();
  for (const auto& connection : connections_) {
    const Client& client = connection->client();
    const bool waits = client.held || connection->waits() || connection->queued;
    const bool own = client.speaks == Speaks::memcached && own_ms != 0;
    const int64_t limit_ms = own ? own_ms : all_ms;
    if (limit_ms != 0 && now_ms - client.last_ms >= limit_ms && !waits) connection->close();
  }
}

void Loop::close_killed() {
  post([this] {
    for (const auto& connection : connections_) {
      if (connection->client().killed) connection->close();
    }
  });
}

void Loop::check_outputs() {
  const OutputLimit& limit = server_.limits.output[ClientLimits::normal];
  if (limit.soft.load(std::memory_order_relaxed) == 0) return;
  const int64_t now_ms = server_.clock.now_ms();
  for (auto& connection : connections_) connection->check_output(limit, now_ms);
}

// Who is held back by a pause that goes on says so again.
void Loop::release_held() {
  post([this] { release_all_held(); });
}

void Loop::release_if_over() {
  const int64_t now_ms = server_.clock.now_ms();
  if (server_.pause.holds(now_ms) != Pause::Holds::nothing) return;
  server_.pause.end_if_over(now_ms);
  release_all_held();
}

void Loop::release_all_held() {
  holds_some_ = false;
  for (const auto& connection : connections_) {
    if (connection->held()) ready(*connection);
  }
  for (const auto& port : udp_ports_) port->release();
}

void Loop::rests_some() {
  rests_some_ = true;
  rested_at_ = server_.engine.arrivals().announced;
}

// All of them, since a shorter value may find room before a longer one.
void Loop::release_resting() {
  if (!std::exchange(rests_some_, false)) return;
  for (const auto& connection : connections_) {
    if (!connection->rests()) continue;
    connection->go_on();
    ready(*connection);
  }
}

void Loop::release_resting_if_room() {
  if (server_.engine.arrivals().announced < rested_at_) release_resting();
}

// All that is free goes.
void Loop::trim_pool() {
  pool_.trim();
  pool_.trim();
  count_memory();
}

// Whether there is more than before. Beyond the bound nothing may grow unseen.
bool Loop::count_memory() {
  size_t bytes = held();
  for (const auto& turn : turns_) bytes += turn->batch.memory();
  const auto change = static_cast<int64_t>(bytes) - static_cast<int64_t>(reported_bytes_);
  const bool counts = static_cast<size_t>(std::abs(change)) >= unreported;
  if (counts) {
    server_.engine.add_buffer_bytes(change);
    reported_bytes_ = bytes;
  }
  const uint64_t most = server_.limits.all_clients(server_.engine.maxmemory());
  const bool over = most != 0 && server_.engine.client_bytes() > most;
  crowded_ = most != 0 && bytes > most / server_.loop_count() / 2;
  unseen_to_ = held() + (over ? 0 : unreported);
  return counts && change > 0;
}

bool Loop::fits_clients(size_t bytes) {
  const uint64_t most = server_.limits.all_clients(server_.engine.maxmemory());
  if (most == 0) return true;
  count_memory();
  if (server_.engine.client_bytes() + bytes <= most) return true;
  wanted_by_input_ = std::max({wanted_by_input_, bytes, size_t{1}});
  return false;
}

// Behind a turn, when nobody's input is borrowed any more. A loop that has no more than its share
// goes on slowly, so that the others, which see what all have, come to disconnect theirs.
void Loop::make_room_for_inputs() {
  const size_t wanted = std::exchange(wanted_by_input_, 0);
  grows_anyway_ = wanted != 0 && !evict_clients(wanted);
}

void Loop::note_being_written(size_t bytes) {
  server_.being_written.fetch_add(bytes - being_written_, std::memory_order_relaxed);
  being_written_ = bytes;
}

size_t Loop::most_unsent(size_t taken, bool evictable) {
  const uint64_t maxmemory = server_.engine.maxmemory();
  const size_t most = server_.limits.most_unsent(maxmemory, evictable);
  const uint64_t all = evictable ? server_.limits.all_clients(maxmemory) : 0;
  if (all == 0) return most;
  note_being_written(taken);
  const uint64_t others = server_.being_written.load(std::memory_order_relaxed) - taken;
  const uint64_t share = all / server_.loop_count();
  return std::min(most, std::max(share, all - std::min(all, others)));
}

// Values that this loop's clients store leave less room for values that clients of all loops still
// send, and those loops may be idle.
void Loop::watch_all_clients() {
  constexpr uint64_t worth_looking = 256 << 10;
  const uint64_t most = server_.limits.all_clients(server_.engine.maxmemory());
  const uint64_t bytes = server_.engine.client_bytes();
  if (most == 0 || bytes <= most) {
    watched_bytes_ = 0;
  } else if (bytes > watched_bytes_ + worth_looking) {
    watched_bytes_ = bytes;
    for (LoopControl* loop : server_.threads) loop->post([loop] { loop->bound_memory(); });
  }
}

void Loop::bound_resident() {
  const Engine& engine = server_.engine;
  const uint64_t cap = engine.maxmemory();
  server_.resident.bound(engine.used_memory(), cap != 0 ? cap : server_.limits.all_clients(0));
}

// Disconnects those that hold most, so that so many bytes more are within the bound; whether any
// was. What they hold is free when they are deleted, as what others hold that are closed already.
bool Loop::evict_clients(size_t more) {
  const Engine& engine = server_.engine;
  const uint64_t most = server_.limits.all_clients(engine.maxmemory());
  if (most == 0 || engine.client_bytes() + more <= most) return false;
  trim_pool();
  std::vector<std::pair<size_t, Connection*>> holders;
  uint64_t all = engine.client_bytes() + more;
  uint64_t own = reported_bytes_ + more;
  const auto gone = [&](uint64_t bytes) {
    own -= std::min(own, bytes);
    all -= std::min(all, bytes);
  };
  for (const auto& connection : connections_) {
    const size_t bytes = connection->memory();
    if (!connection->open()) {
      gone(bytes);
    } else if (bytes != 0 && !connection->client().no_evict) {
      holders.emplace_back(bytes, connection.get());
    }
  }
  std::sort(holders.begin(), holders.end(), std::greater<>());
  bool any = false;
  for (const auto& [bytes, connection] : holders) {
    if (all <= most || own <= most / server_.loop_count()) break;
    connection->close();
    counters_[LoopCount::evicted_clients].add();
    any = true;
    gone(bytes);
  }
  return any;
}

}  // namespace isotherm::net
