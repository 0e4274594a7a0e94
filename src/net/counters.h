// Counters: what each event loop counts, for INFO and `stats`.
//
// Every loop owns one LoopCounters and is its only writer, so a count is a load and a store without
// a lock prefix; readers on other threads sum over the loops (`total`) and see each counter a
// little late, never torn. Sums are never set back: CONFIG RESETSTAT remembers a snapshot and INFO
// subtracts it (server_state.h).
//
// Batch sizes fall into buckets of powers of two: bucket i counts batches of [2^i, 2^(i+1)) rows.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace isotherm::net {

class Counter {
 public:
  void add(uint64_t amount = 1) { value_.store(get() + amount, std::memory_order_relaxed); }
  void raise_to(uint64_t value) {
    if (value > get()) value_.store(value, std::memory_order_relaxed);
  }
  // Only for maxima, where a write of the owner that gets lost does no harm.
  void clear() { value_.store(0, std::memory_order_relaxed); }
  uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// The memcached commands, counted where `stats` names them.
struct MemcachedCounters {
  Counter cmd_get, cmd_set, cmd_flush, cmd_touch;
  Counter get_hits, get_misses, get_expired;
  Counter delete_hits, delete_misses;
  Counter incr_hits, incr_misses, decr_hits, decr_misses;
  Counter cas_hits, cas_misses, cas_badval;
  Counter touch_hits, touch_misses;
};

struct alignas(64) LoopCounters {
  static constexpr size_t batch_buckets = 24;

  Counter connections;  // ever given to this loop
  Counter commands;     // answered, both protocols
  Counter bytes_in, bytes_out;
  // Clients that were disconnected: for a request, for replies that they did not read, and because
  // all clients together held too much.
  Counter over_query_limit, over_output_limit, evicted_clients;
  Counter batches;            // submitted
  Counter batch_rows;         // requests in them
  Counter batch_connections;  // connections that had requests in them, summed over batches
  Counter batch_rows_max;
  Counter batch_connections_max;
  std::array<Counter, batch_buckets> batch_histogram;
  MemcachedCounters memcached;

  void reset_maxima() {
    batch_rows_max.clear();
    batch_connections_max.clear();
  }

  void record_batch(uint64_t rows, uint64_t connections_in_batch) {
    batches.add();
    batch_rows.add(rows);
    batch_connections.add(connections_in_batch);
    batch_rows_max.raise_to(rows);
    batch_connections_max.raise_to(connections_in_batch);
    batch_histogram[std::min<size_t>(std::bit_width(rows) - 1, batch_buckets - 1)].add();
  }
};

}  // namespace isotherm::net
