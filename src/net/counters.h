// Counters: what each event loop counts, for INFO and `stats`.
//
// Every loop owns one LoopCounters and is its only writer (base/counter.h); readers on other
// threads sum over the loops (`total`). Sums are never set back: CONFIG RESETSTAT remembers a
// snapshot and INFO subtracts it (server_state.h).
//
// Batch sizes fall into buckets of powers of two: bucket i counts batches of [2^i, 2^(i+1)) rows.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/counter.h"
#include "items/location.h"
#include "items/size_classes.h"
#include "net/command_counts.h"

namespace isotherm::net {

// Of one slab, as memcached calls the size classes of items.
struct SlabCounters {
  Counter get_hits, cmd_set, delete_hits, incr_hits, decr_hits, cas_hits, cas_badval, touch_hits;
};
static_assert(sizeof(SlabCounters) == 64);

// The memcached commands, counted where `stats` names them.
struct MemcachedCounters {
  // Slabs have the numbers from 1 on, the last those of large items. 0: of no item that is known.
  static constexpr size_t slabs = size_classes::count + 2;

  Counter cmd_get, cmd_flush, cmd_touch;
  Counter get_misses;
  Counter delete_misses;
  Counter incr_misses, decr_misses;
  Counter cas_misses;
  Counter touch_misses;
  Counter cmd_meta;  // of which memcached counts `me` only
  Counter total_items, store_too_large, store_no_memory;
  alignas(64) std::array<SlabCounters, slabs> by_slab;

  // Without a branch: none has kind and class 0, an item in a chunk the kind 1, a large one the
  // kind 2 and no class.
  SlabCounters& slab_of(Location location) {
    static_assert(static_cast<int>(location::Kind::item) == 1 &&
                  static_cast<int>(location::Kind::large) == 2);
    const auto kind = static_cast<size_t>(location::kind(location));
    return by_slab[location::size_class(location) + (kind & 1) + (kind >> 1) * (slabs - 1)];
  }
};

// Datagrams of memcached clients; what became of those that were dropped (net/udp/port.h).
struct UdpCounters {
  Counter received, sent;
  Counter malformed, truncated, several, foreign, repeated;
  Counter too_long;  // replies that were, for their address
  Counter unsent;    // replies that the kernel refused, or that were too many
};

// Gets in frames (net/packets/packet_server.h).
struct PacketCounters {
  Counter batches;
  Counter by_device;           // answers
  Counter by_cpu;              // requests
  Counter overtaken, changed;  // of these, gets that a device had answered
  Counter missed;              // frames that found no room before they were read
  Counter fragments;           // frames that were parts of datagrams
  Counter joined;              // datagrams that were made of them
};

// What INFO shows as sums over all loops.
enum class LoopCount : uint8_t {
  connections,  // ever given to this loop
  commands,     // answered, both protocols
  bytes_in,
  bytes_out,
  // Clients that were disconnected: for a request, for replies that they did not read, and because
  // all clients together held too much.
  over_query_limit,
  over_output_limit,
  evicted_clients,
  batches,            // submitted
  batch_rows,         // requests in them
  batch_connections,  // connections that had requests in them, summed over batches
  last = batch_connections
};

template <class Number>
struct LoopCounts {
  std::array<Number, static_cast<size_t>(LoopCount::last) + 1> counts{};
  Number& operator[](LoopCount count) { return counts[static_cast<size_t>(count)]; }
  const Number& operator[](LoopCount count) const { return counts[static_cast<size_t>(count)]; }
};

struct alignas(64) LoopCounters : LoopCounts<Counter> {
  static constexpr size_t batch_buckets = 24;

  std::array<Counter, batch_buckets> batch_histogram;
  Counter batch_rows_max;
  Counter batch_connections_max;
  MemcachedCounters memcached;
  UdpCounters udp;
  PacketCounters packets;
  CommandCounts by_command;  // of RESP

  void reset_maxima() {
    batch_rows_max.clear();
    batch_connections_max.clear();
  }

  void record_batch(uint64_t rows, uint64_t connections_in_batch) {
    using enum LoopCount;
    (*this)[batches].add();
    (*this)[batch_rows].add(rows);
    (*this)[batch_connections].add(connections_in_batch);
    batch_rows_max.raise_to(rows);
    batch_connections_max.raise_to(connections_in_batch);
    batch_histogram[std::min<size_t>(std::bit_width(rows) - 1, batch_buckets - 1)].add();
  }
};

}  // namespace isotherm::net
