// LiveOptions: the options that may change while the server runs (CONFIG SET).
//
// Their first values are those of the command line. `maxmemory`, its policy and the longest value
// that the store takes are the engine's (engine/engine.h).
//
// Threads. Any may read and write; each is looked at where it takes effect: `maxclients` when a
// client comes, `tcp_keepalive` when it is taken over, `timeout` ten times a second, the longest
// bulk before each parse.
#pragma once

#include <atomic>
#include <cstdint>

#include "net/server_options.h"

namespace isotherm::net {

struct LiveOptions {
  explicit LiveOptions(const ServerOptions& options)
      : maxclients(options.maxclients),
        timeout(options.timeout),
        tcp_keepalive(options.tcp_keepalive),
        proto_max_bulk_len(options.proto_max_bulk_len),
        loglevel(options.loglevel),
        appendfsync(options.appendfsync),
        auto_aof_rewrite_percentage(options.auto_aof_rewrite_percentage),
        auto_aof_rewrite_min_size(options.auto_aof_rewrite_min_size) {}

  std::atomic<uint32_t> maxclients;
  std::atomic<uint32_t> timeout;
  std::atomic<uint32_t> tcp_keepalive;
  std::atomic<uint32_t> maxmemory_samples{5};
  std::atomic<uint64_t> proto_max_bulk_len;
  std::atomic<LogLevel> loglevel;
  std::atomic<SyncPolicy> appendfsync;
  std::atomic<uint32_t> auto_aof_rewrite_percentage;
  std::atomic<uint64_t> auto_aof_rewrite_min_size;
};

}  // namespace isotherm::net
