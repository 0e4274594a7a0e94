#include "net/memcached_stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "net/memcached_admin.h"
#include "net/memcached_line.h"
#include "net/output.h"
#include "net/server_state.h"

namespace isotherm::net {
namespace {

struct NamedCounter {
  std::string_view name;
  Counter MemcachedCounters::*counter;
};

constexpr NamedCounter named_counters[] = {
    {"cmd_get", &MemcachedCounters::cmd_get},
    {"cmd_set", &MemcachedCounters::cmd_set},
    {"cmd_flush", &MemcachedCounters::cmd_flush},
    {"cmd_touch", &MemcachedCounters::cmd_touch},
    {"get_hits", &MemcachedCounters::get_hits},
    {"get_misses", &MemcachedCounters::get_misses},
    {"delete_misses", &MemcachedCounters::delete_misses},
    {"delete_hits", &MemcachedCounters::delete_hits},
    {"incr_misses", &MemcachedCounters::incr_misses},
    {"incr_hits", &MemcachedCounters::incr_hits},
    {"decr_misses", &MemcachedCounters::decr_misses},
    {"decr_hits", &MemcachedCounters::decr_hits},
    {"cas_misses", &MemcachedCounters::cas_misses},
    {"cas_hits", &MemcachedCounters::cas_hits},
    {"cas_badval", &MemcachedCounters::cas_badval},
    {"touch_hits", &MemcachedCounters::touch_hits},
    {"touch_misses", &MemcachedCounters::touch_misses},
};
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

void write_connections(const ServerState& server, Output& output) {
  stat(output, "max_connections", server.live.maxclients);
  stat(output, "curr_connections",
       uint64_t{server.memcached_clients.load()} + server.resp_clients.load());
  stat(output, "total_connections", server.total(&LoopCounters::connections));
  stat(output, "rejected_connections", server.rejected_connections.load());
}

void write_counters(const ServerState& server, Output& output) {
  for (size_t i = 0; i < std::size(named_counters); ++i) {
    const uint64_t before = server.memcached.reset.sums[i].load(std::memory_order_relaxed);
    stat(output, named_counters[i].name, server.total(named_counters[i].counter) - before);
  }
}

void write_store(const ServerState& server, Output& output) {
  const EngineStats engine = server.engine.stats();
  stat(output, "bytes_read", server.total(&LoopCounters::bytes_in));
  stat(output, "bytes_written", server.total(&LoopCounters::bytes_out));
  stat(output, "limit_maxbytes", server.engine.maxmemory());
  stat(output, "accepting_conns", uint64_t{1});
  stat(output, "threads", server.loops.size());
  stat(output, "hash_bytes", engine.index_bytes);
  stat(output, "bytes", engine.item_bytes);
  stat(output, "curr_items", server.engine.database(0).keys);
  stat(output, "evictions", engine.evicted);
}

void write_settings(const ServerState& server, Output& output) {
  const bool evicts = server.engine.policy() != EvictionPolicy::noeviction;
  std::string addresses;
  for (const std::string& address : server.options.bind) {
    addresses += (addresses.empty() ? "" : ",") + address;
  }
  stat(output, "maxbytes", server.engine.maxmemory());
  stat(output, "maxconns", server.live.maxclients);
  stat(output, "tcpport", server.memcached_port.load());
  stat(output, "udpport", uint64_t{0});
  stat(output, "inter", addresses);
  stat(output, "evictions", evicts ? "on" : "off");
  stat(output, "domain_socket", "NULL");
  stat(output, "shutdown_command", "no");
  stat(output, "num_threads", server.loops.size());
  stat(output, "detail_enabled", "no");
  stat(output, "cas_enabled", "yes");
  stat(output, "binding_protocol", "ascii");
  stat(output, "auth_enabled_sasl", "no");
  stat(output, "auth_enabled_ascii", "no");
  stat(output, "item_size_max", uint64_t{1 << 20});
  stat(output, "maxconns_fast", "yes");
  stat(output, "flush_enabled", "yes");
  stat(output, "dump_enabled", "yes");
  stat(output, "idle_timeout", server.live.timeout);
  stat(output, "track_sizes", "no");
  stat(output, "inline_ascii_response", "no");
  stat(output, "ssl_enabled", "no");
}

std::string transport(const std::string& address) {
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
  for (size_t i = 0; i < std::size(named_counters); ++i) {
    server.memcached.reset.sums[i].store(server.total(named_counters[i].counter),
                                         std::memory_order_relaxed);
  }
}

}  // namespace

void write_stats(std::string_view arguments, ServerState& server, Output& output) {
  const std::string_view which = take_word(arguments);
  if (which == "reset") {
    reset_counters(server);
    return output.append("RESET\r\n");
  }
  if (which.empty()) {
    write_process(server, output);
    write_connections(server, output);
    write_counters(server, output);
    write_store(server, output);
  } else if (which == "settings") {
    write_settings(server, output);
  } else if (which == "items") {
    write_items(server.engine, output);
  } else if (which == "slabs") {
    write_slabs(server.engine, output);
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
