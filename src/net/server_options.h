// ServerOptions: what the server may be told, named after redis.conf where redis.conf has the name.
//
// Plain values, filled from the command line (server/flags.h) or by a test, and never changed while
// a server runs; every thread may read them. What CONFIG SET changes is net/live_options.h.
//
// Limits. Ports: -1 (`off` on the command line) opens none; 0 lets the kernel choose, and the log
// says which one it chose. proto_max_bulk_len is 1 MiB to 2^32 - 1 bytes and also bounds what the
// store accepts as a value.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "durability/save_job.h"
#include "durability/sync_policy.h"
#include "isotherm/options.h"

namespace isotherm::net {

// From whom a request by UDP may have a long reply (net/udp/port.h).
// How frames of an interface are read (net/packets/ring_frames.h, net/packets/xdp_frames.h).
enum class PacketSource : uint8_t { ring, xdp };
enum class UdpTrust : uint8_t { none, loopback, all };

// Connections of a port that may wait to be accepted.
inline constexpr int listen_backlog = 511;

enum class LogLevel : uint8_t { debug, verbose, notice, warning };

struct ServerOptions {
  int32_t port = 6379;
  int32_t memcached_port = 11211;
  int32_t memcached_udp_port = -1;
  // How many times the bytes of a request its reply by UDP may have, to an address that anybody may
  // have written there.
  uint32_t memcached_udp_amplification = 3;
  UdpTrust memcached_udp_trusted = UdpTrust::loopback;
  // Frames whose gets a GPU answers (net/packets/packet_thread.h): of an interface, or, with their
  // headers made up, of a UDP socket at an address; both empty: there are none.
  std::string memcached_packets;
  PacketSource memcached_packets_source = PacketSource::ring;
  std::string memcached_packets_address;
  uint16_t memcached_packets_port = 11211;
  // Limits of memcached's clients, beside those of all.
  uint32_t memcached_max_connections = 0;      // 0: as many as maxclients
  uint32_t memcached_idle_timeout = 0;         // seconds; 0: as timeout
  uint64_t memcached_item_size_max = 1 << 20;  // bytes of an item as memcached would make it
  uint32_t memcached_reqs_per_event = 4096;    // of a connection in a turn
  bool memcached_flush = true;                 // flush_all is allowed
  bool memcached_dumps = true;                 // stats cachedump is
  // Paths of UNIX sockets, and who may connect; empty: none.
  std::string unixsocket;
  uint32_t unixsocketperm = 0;  // 0: as the process's umask has it
  std::string memcached_unixsocket;
  uint32_t memcached_unixsocket_mask = 0700;
  std::vector<std::string> bind = {"127.0.0.1"};
  uint32_t threads = 0;     // event loops; 0: one per core
  std::string requirepass;  // of Redis clients; empty: none
  uint32_t maxclients = 10'000;
  uint32_t timeout = 0;          // seconds after which a silent client is closed; 0: never
  uint32_t tcp_keepalive = 300;  // seconds between probes of a silent client; 0: none
  uint64_t proto_max_bulk_len = 512ull << 20;
  LogLevel loglevel = LogLevel::notice;
  int64_t slowlog_log_slower_than = 10'000;  // microseconds; negative: nothing is logged
  uint64_t slowlog_max_len = 128;
  std::string config_file;  // that options were read from; empty: none
  std::vector<std::pair<std::string, std::string>> client_limits;  // names and values
  bool appendonly = false;
  SyncPolicy appendfsync = SyncPolicy::everysec;
  std::string appendfilename = "appendonly.aof";
  uint32_t auto_aof_rewrite_percentage = 100;
  uint64_t auto_aof_rewrite_min_size = 64 << 20;
  SavePoints save;
  std::string dbfilename = "dump.rdb";
  std::string dir = ".";
  Options store;  // databases, maxmemory, maxmemory-policy

  bool has_packets() const {
    return !memcached_packets.empty() || !memcached_packets_address.empty();
  }
  bool serves_memcached() const {
    return memcached_port >= 0 || memcached_udp_port >= 0 || !memcached_unixsocket.empty() ||
           has_packets();
  }
};

}  // namespace isotherm::net
