// ServerState: what all connections of one server share.
//
// Statistics are sums over the loops' counters since the last CONFIG RESETSTAT, which remembers the
// sums of that moment instead of touching counters that belong to other threads.
//
// Threads. The references and `start_ms` are set before the loops start; the atomics may be touched
// by any thread. `loops` and `threads` are filled before the loops start and only read afterwards.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "durability/journal.h"
#include "durability/save_job.h"
#include "engine/engine.h"
#include "net/client.h"
#include "net/client_limits.h"
#include "net/counters.h"
#include "net/live_options.h"
#include "net/memcached_shared.h"
#include "net/password.h"
#include "net/pause.h"
#include "net/proven_addresses.h"
#include "net/rate_meter.h"
#include "net/resident_memory.h"
#include "net/server_options.h"
#include "net/shutdown.h"
#include "net/slow_log.h"

namespace isotherm::net {

class LoopControl;

// What INFO shows of one command.
struct CommandTotals {
  uint64_t calls = 0, rejected = 0, failed = 0, nanoseconds = 0;
};

struct Statistics : LoopCounts<uint64_t> {
  uint64_t rejected = 0;
  uint64_t batch_rows_max = 0, batch_connections_max = 0;
  std::array<uint64_t, LoopCounters::batch_buckets> batch_histogram{};
  std::vector<CommandTotals> by_command;  // by number (resp/command.h)
  ErrorTotals errors;
  EngineStats engine;
};

struct ServerState {
  ServerState(const ServerOptions& server_options, const Clock& server_clock, Engine& server_engine)
      : options(server_options),
        clock(server_clock),
        engine(server_engine),
        start_ms(server_clock.now_ms()),
        startup_bytes(server_engine.stats().used_memory),
        live(server_options) {
    saves.set_points(options.save);
    for (const auto& [name, text] : options.client_limits) {
      find_client_limit(name)->set(limits, text, false);
    }
  }

  // Those who serve connections; `loops` has the counters of who answers frames, too.
  size_t loop_count() const { return loops.size() - (options.has_packets() ? 1 : 0); }
  // The sum of one counter over all loops, e.g. total(LoopCount::commands).
  uint64_t total(LoopCount count) const {
    uint64_t sum = 0;
    for (const auto& loop : loops) sum += (*loop)[count].get();
    return sum;
  }
  uint64_t total(Counter MemcachedCounters::*counter) const {
    uint64_t sum = 0;
    for (const auto& loop : loops) sum += (loop->memcached.*counter).get();
    return sum;
  }

  uint64_t total(Counter SlabCounters::*counter, size_t slab) const {
    uint64_t sum = 0;
    for (const auto& loop : loops) sum += (loop->memcached.by_slab[slab].*counter).get();
    return sum;
  }
  uint64_t total(Counter SlabCounters::*counter) const {
    uint64_t sum = 0;
    for (size_t slab = 0; slab < MemcachedCounters::slabs; ++slab) sum += total(counter, slab);
    return sum;
  }

  // Whether a connection's requests behind a flush wait for the next batch. What is flushed keeps
  // its memory until its batch has ended, and an index of a fixed size is a good part of the cap.
  bool flush_ends_turn() const { return options.store.index != IndexChoice::line; }

  // That users are shown. With items on a GPU it is the GPU's, while host memory, their cache,
  // evicts in any case.
  EvictionPolicy policy() const {
    return options.store.gpu_items != 0 ? options.store.maxmemory_policy : engine.policy();
  }

  Statistics statistics() const;
  void reset_statistics();
  // Called ten times a second by one loop.
  void sample_rates();

  const ServerOptions& options;
  const Clock& clock;
  Engine& engine;
  const int64_t start_ms;
  const uint64_t startup_bytes;                  // that the store took empty
  const std::string run_id = draw_id();          // 40 hexadecimal digits
  const std::string replication_id = draw_id();  // likewise

  LiveOptions live;
  Password password{options.requirepass};
  SlowLog slow_log{options.slowlog_log_slower_than, options.slowlog_max_len};
  Pause pause;
  SaveJob saves;
  uint64_t loaded = 0;  // keys of the snapshot that was read at the start
  Shutdown shutdown;
  ClientList clients;
  Rates rates;
  ResidentMemory resident;

  ProvenAddresses proven;
  Journal* journal = nullptr;  // null: none
  ClientLimits limits;
  std::vector<std::unique_ptr<LoopCounters>> loops;
  std::vector<LoopControl*> threads;  // the loops themselves
  MemcachedShared memcached;          // delayed flush_all, stats reset
  std::atomic<uint64_t> next_client_id{1};
  std::atomic<uint32_t> resp_clients{0};       // connected now
  std::atomic<uint32_t> memcached_clients{0};  // connected now
  std::atomic<uint64_t> rejected_connections{0};
  std::atomic<uint64_t> being_written{0};  // bytes of large replies that loops write now
  std::atomic<uint16_t> resp_port{0};      // bound; 0: off
  std::atomic<uint16_t> memcached_port{0};
  std::atomic<uint16_t> memcached_udp_port{0};
  std::atomic<uint16_t> memcached_packets_port{0};

 private:
  static std::string draw_id();
  Statistics count() const;  // since the start

  mutable std::mutex baseline_mutex_;
  Statistics baseline_;
};

}  // namespace isotherm::net
