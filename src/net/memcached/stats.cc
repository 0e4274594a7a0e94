#include "net/memcached/stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "net/memcached/admin.h"
#include "net/memcached/line.h"
#include "net/memcached/slab_stats.h"
#include "net/output.h"
#include "net/server_state.h"

namespace isotherm::net {
namespace {

// What a reset sets to zero.
struct NamedCounter {
  std::string_view name;
  uint64_t (*total)(const ServerState& server);
};

template <auto counter>
uint64_t total_of(const ServerState& server) {
  return server.total(counter);
}

constexpr NamedCounter named_counters[] = {
    {"cmd_get", total_of<&MemcachedCounters::cmd_get>},
    {"cmd_set", total_of<&SlabCounters::cmd_set>},
    {"cmd_flush", total_of<&MemcachedCounters::cmd_flush>},
    {"cmd_touch", total_of<&MemcachedCounters::cmd_touch>},
    {"cmd_meta", total_of<&MemcachedCounters::cmd_meta>},
    {"get_hits", total_of<&SlabCounters::get_hits>},
    {"get_misses", total_of<&MemcachedCounters::get_misses>},
    {"delete_misses", total_of<&MemcachedCounters::delete_misses>},
    {"delete_hits", total_of<&SlabCounters::delete_hits>},
    {"incr_misses", total_of<&MemcachedCounters::incr_misses>},
    {"incr_hits", total_of<&SlabCounters::incr_hits>},
    {"decr_misses", total_of<&MemcachedCounters::decr_misses>},
    {"decr_hits", total_of<&SlabCounters::decr_hits>},
    {"cas_misses", total_of<&MemcachedCounters::cas_misses>},
    {"cas_hits", total_of<&SlabCounters::cas_hits>},
    {"cas_badval", total_of<&SlabCounters::cas_badval>},
    {"touch_hits", total_of<&SlabCounters::touch_hits>},
    {"touch_misses", total_of<&MemcachedCounters::touch_misses>},
    {"store_too_large", total_of<&MemcachedCounters::store_too_large>},
    {"store_no_memory", total_of<&MemcachedCounters::store_no_memory>},
    {"total_items", total_of<&MemcachedCounters::total_items>},
    {"total_connections", total_of<LoopCount::connections>},
    {"rejected_connections",
     [](const ServerState& server) { return server.rejected_connections.load(); }},
    {"bytes_read", total_of<LoopCount::bytes_in>},
    {"bytes_written", total_of<LoopCount::bytes_out>},
    {"evictions", [](const ServerState& server) { return server.engine.stats().evicted; }},
    {"reclaimed", [](const ServerState& server) { return server.engine.stats().expired; }},
};
constexpr std::string_view no_dump_answer = "CLIENT_ERROR stats cachedump not allowed\r\n";
constexpr std::string_view first_command = "cmd_get", last_command = "store_no_memory";
static_assert(std::size(named_counters) == MemcachedReset::counters);

void stat(Output& output, std::string_view name, std::string_view value) {
  output.append("STAT ");
  output.append(name);
  output.append(' ');
  output.append(value);
  output.append("\r\n");
}

void stat(Output& output, std::string_view name, uint64_t value) {
  stat(output, name, std::string_view(std::to_string(value)));
}

void stat(Output& output, std::string_view name, const timeval& time) {
  char text[48];
  std::snprintf(text, sizeof text, "%lld.%06ld", static_cast<long long>(time.tv_sec),
                static_cast<long>(time.tv_usec));
  stat(output, name, std::string_view(text));
}

void write_process(const ServerState& server, Output& output) {
  const int64_t now_ms = server.clock.now_ms();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  stat(output, "pid", static_cast<uint64_t>(getpid()));
  stat(output, "uptime", static_cast<uint64_t>((now_ms - server.start_ms) / 1000));
  stat(output, "time", static_cast<uint64_t>(now_ms / 1000));
  stat(output, "version", "1.6.18");
  stat(output, "pointer_size", 8 * sizeof(void*));
  stat(output, "rusage_user", usage.ru_utime);
  stat(output, "rusage_system", usage.ru_stime);
}

uint64_t since_reset(const ServerState& server, size_t counter) {
  const uint64_t before = server.memcached.reset.sums[counter].load(std::memory_order_relaxed);
  return named_counters[counter].total(server) - before;
}

// Those from one name to another.
void write_counters(const ServerState& server, std::string_view first, std::string_view last,
                    Output& output) {
  size_t i = 0;
  while (named_counters[i].name != first) ++i;
  for (;; ++i) {
    stat(output, named_counters[i].name, since_reset(server, i));
    if (named_counters[i].name == last) return;
  }
}

void write_counter(const ServerState& server, std::string_view name, Output& output) {
  write_counters(server, name, name, output);
}

uint64_t most_connections(const ServerState& server) {
  const uint32_t own = server.options.memcached_max_connections;
  return own != 0 ? std::min(own, server.live.maxclients.load()) : server.live.maxclients.load();
}

uint64_t idle_seconds(const ServerState& server) {
  const uint32_t own = server.options.memcached_idle_timeout;
  return own != 0 ? own : server.live.timeout.load();
}

void write_connections(const ServerState& server, Output& output) {
  stat(output, "max_connections", most_connections(server));
  stat(output, "curr_connections",
       uint64_t{server.memcached_clients.load()} + server.resp_clients.load());
  write_counter(server, "total_connections", output);
  write_counter(server, "rejected_connections", output);
  stat(output, "connection_structures",
       uint64_t{server.memcached_clients.load()} + server.resp_clients.load());
}

void write_store(const ServerState& server, Output& output) {
  const EngineStats engine = server.engine.stats();
  stat(output, "auth_cmds", uint64_t{0});
  stat(output, "auth_errors", uint64_t{0});
  write_counters(server, "bytes_read", "bytes_written", output);
  stat(output, "limit_maxbytes", server.engine.maxmemory());
  stat(output, "accepting_conns", uint64_t{1});
  stat(output, "listen_disabled_num", uint64_t{0});
  stat(output, "time_in_listen_disabled_us", uint64_t{0});
  stat(output, "threads", server.loop_count());
  stat(output, "hash_bytes", engine.index_bytes);
  stat(output, "bytes", engine.item_bytes);
  stat(output, "curr_items", server.engine.database(0).keys);
  write_counter(server, "total_items", output);
  write_counters(server, "evictions", "reclaimed", output);
}

void write_datagrams(const ServerState& server, Output& output) {
  static constexpr std::pair<std::string_view, Counter UdpCounters::*> counters[] = {
      {"udp_received", &UdpCounters::received},   {"udp_sent", &UdpCounters::sent},
      {"udp_malformed", &UdpCounters::malformed}, {"udp_truncated", &UdpCounters::truncated},
      {"udp_several", &UdpCounters::several},     {"udp_foreign", &UdpCounters::foreign},
      {"udp_repeated", &UdpCounters::repeated},   {"udp_too_long", &UdpCounters::too_long},
      {"udp_unsent", &UdpCounters::unsent},
  };
  for (const auto& [name, counter] : counters) {
    uint64_t sum = 0;
    for (const auto& loop : server.loops) sum += (loop->udp.*counter).get();
    stat(output, name, sum);
  }
}

void write_packets(const ServerState& server, Output& output) {
  static constexpr std::pair<std::string_view, Counter PacketCounters::*> counters[] = {
      {"packet_batches", &PacketCounters::batches},
      {"packet_gets_by_gpu", &PacketCounters::by_device},
      {"packet_requests_by_cpu", &PacketCounters::by_cpu},
      {"packet_gets_overtaken", &PacketCounters::overtaken},
      {"packet_gets_changed", &PacketCounters::changed},
      {"packet_frames_missed", &PacketCounters::missed},
      {"packet_fragments", &PacketCounters::fragments},
      {"packet_datagrams_joined", &PacketCounters::joined},
  };
  for (const auto& [name, counter] : counters) {
    uint64_t sum = 0;
    for (const auto& loop : server.loops) sum += (loop->packets.*counter).get();
    stat(output, name, sum);
  }
}

void write_settings(const ServerState& server, Output& output) {
  const bool evicts = server.policy() != EvictionPolicy::noeviction;
  std::string addresses;
  for (const std::string& address : server.options.bind) {
    addresses += (addresses.empty() ? "" : ",") + address;
  }
  stat(output, "maxbytes", server.engine.maxmemory());
  stat(output, "maxconns", most_connections(server));
  stat(output, "tcpport", server.memcached_port.load());
  stat(output, "udpport", server.memcached_udp_port.load());
  stat(output, "inter", addresses);
  stat(output, "verbosity", verbosity_of(server));
  stat(output, "evictions", evicts ? "on" : "off");
  const std::string& path = server.options.memcached_unixsocket;
  char mask[16];
  std::snprintf(mask, sizeof mask, "%o", server.options.memcached_unixsocket_mask);
  stat(output, "domain_socket", path.empty() ? "NULL" : path);
  stat(output, "umask", mask);
  stat(output, "shutdown_command", "no");
  stat(output, "num_threads", server.loop_count());
  stat(output, "num_threads_per_udp", server.loop_count());
  stat(output, "stat_key_prefix", std::string_view(&MemcachedPrefixes::delimiter, 1));
  stat(output, "detail_enabled", server.memcached.prefixes.on() ? "yes" : "no");
  stat(output, "reqs_per_event", server.options.memcached_reqs_per_event);
  stat(output, "cas_enabled", "yes");
  stat(output, "tcp_backlog", static_cast<uint64_t>(listen_backlog));
  stat(output, "binding_protocol", "ascii");
  stat(output, "auth_enabled_sasl", "no");
  stat(output, "auth_enabled_ascii", "no");
  stat(output, "item_size_max", server.options.memcached_item_size_max);
  stat(output, "maxconns_fast", "yes");
  stat(output, "flush_enabled", server.options.memcached_flush ? "yes" : "no");
  stat(output, "dump_enabled", server.options.memcached_dumps ? "yes" : "no");
  stat(output, "idle_timeout", idle_seconds(server));
  stat(output, "track_sizes", server.memcached.tracks_sizes ? "yes" : "no");
  stat(output, "inline_ascii_response", "no");
  stat(output, "ssl_enabled", "no");
}

std::string transport(const std::string& address) {
  if (address.starts_with('/')) return "unix:" + address.substr(0, address.rfind(':'));
  return (address.starts_with('[') ? "tcp6:" : "tcp:") + address;
}

// The clients of this protocol, by descriptor.
void write_connections_each(const ServerState& server, Output& output) {
  const int64_t now_ms = server.clock.now_ms();
  server.clients.for_each([&](const Client& client) {
    if (client.speaks != Speaks::memcached) return;
    const std::string of = std::to_string(client.descriptor) + ":";
    const int64_t silent_ms = now_ms - client.last_ms;
    stat(output, of + "addr", transport(client.peer_address));
    stat(output, of + "listen_addr", transport(client.local_address));
    stat(output, of + "state", client.output_bytes == 0 ? "conn_read" : "conn_mwrite");
    stat(output, of + "secs_since_last_cmd",
         static_cast<uint64_t>(std::max<int64_t>(silent_ms, 0)) / 1000);
  });
}

void reset_counters(ServerState& server) {
  server.memcached.prefixes.clear();
  reset_slab_counters(server);
  for (size_t i = 0; i < std::size(named_counters); ++i) {
    server.memcached.reset.sums[i].store(named_counters[i].total(server),
                                         std::memory_order_relaxed);
  }
}

void run_detail(std::string_view what, MemcachedPrefixes& prefixes, Output& output) {
  if (what == "dump") {
    output.append(prefixes.lines());
    return output.append("END\r\n");
  }
  if (what != "on" && what != "off") {
    return output.append("CLIENT_ERROR usage: stats detail on|off|dump\r\n");
  }
  prefixes.turn(what == "on");
  output.append("OK\r\n");
}

// As memcached has it, without an END.
void track_sizes(bool tracks, MemcachedShared& shared, Output& output) {
  shared.tracks_sizes = tracks;
  stat(output, "sizes_status", tracks ? "enabled" : "disabled");
}

}  // namespace

void write_stats(std::string_view arguments, ServerState& server, Output& output) {
  const std::string_view which = take_word(arguments);
  if (which == "reset") {
    reset_counters(server);
    return output.append("RESET\r\n");
  }
  if (which == "detail") return run_detail(take_word(arguments), server.memcached.prefixes, output);
  if (which == "sizes_enable" || which == "sizes_disable") {
    return track_sizes(which == "sizes_enable", server.memcached, output);
  }
  // One that is allowed goes over the items instead.
  if (which == "cachedump") return output.append(no_dump_answer);
  if (which.empty()) {
    write_process(server, output);
    write_connections(server, output);
    write_counters(server, first_command, last_command, output);
    write_store(server, output);
    const bool has_packets = server.options.has_packets();
    if (server.memcached_udp_port != 0 || has_packets) write_datagrams(server, output);
    if (has_packets) write_packets(server, output);
  } else if (which == "settings") {
    write_settings(server, output);
  } else if (which == "items") {
    write_items(server, output);
  } else if (which == "slabs") {
    write_slabs(server, output);
  } else if (which == "sizes") {
    stat(output, "sizes_status", "disabled");
  } else if (which == "conns") {
    write_connections_each(server, output);
  } else {
    return output.append("ERROR\r\n");
  }
  output.append("END\r\n");
}

}  // namespace isotherm::net
