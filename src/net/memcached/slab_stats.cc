#include "net/memcached/slab_stats.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "items/size_classes.h"
#include "net/server_state.h"

namespace isotherm::net {
namespace {

struct NamedSlabCounter {
  std::string_view name;
  uint64_t (*total)(const ServerState& server, const ItemClassStats& its, size_t slab);
};

template <auto counter>
uint64_t slab_total(const ServerState& server, const ItemClassStats& /*its*/, size_t slab) {
  return server.total(counter, slab);
}
template <auto member>
uint64_t of_class(const ServerState& /*server*/, const ItemClassStats& its, size_t /*slab*/) {
  return its.*member;
}

constexpr NamedSlabCounter slab_counters[] = {
    {"get_hits", slab_total<&SlabCounters::get_hits>},
    {"cmd_set", slab_total<&SlabCounters::cmd_set>},
    {"delete_hits", slab_total<&SlabCounters::delete_hits>},
    {"incr_hits", slab_total<&SlabCounters::incr_hits>},
    {"decr_hits", slab_total<&SlabCounters::decr_hits>},
    {"cas_hits", slab_total<&SlabCounters::cas_hits>},
    {"cas_badval", slab_total<&SlabCounters::cas_badval>},
    {"touch_hits", slab_total<&SlabCounters::touch_hits>},
    {"evicted", of_class<&ItemClassStats::evicted>},
    {"evicted_nonzero", of_class<&ItemClassStats::volatile_evicted>},
    {"reclaimed", of_class<&ItemClassStats::expired>},
};
constexpr size_t of_commands = 8;  // what stands before those of items
static_assert(std::size(slab_counters) == MemcachedReset::slab_counters);
static_assert(MemcachedCounters::slabs == MemcachedReset::slabs);

void stat(size_t slab, std::string_view before, std::string_view name, uint64_t value,
          Output& output) {
  output.append("STAT ");
  output.append(before);
  output.append_unsigned(slab);
  output.append(':');
  output.append(name);
  output.append(' ');
  output.append_unsigned(value);
  output.append("\r\n");
}

void write_counters(const ServerState& server, size_t slab, const ItemClassStats& its,
                    std::string_view before, size_t first, size_t end, Output& output) {
  for (size_t i = first; i < end; ++i) {
    const uint64_t reset = server.memcached.reset.slab_sums[slab][i];
    const uint64_t total = slab_counters[i].total(server, its, slab);
    stat(slab, before, slab_counters[i].name, total - std::min(total, reset), output);
  }
}

}  // namespace

void write_items(const ServerState& server, Output& output) {
  size_t slab = 0;
  for (const ItemClassStats& its : server.engine.item_classes()) {
    ++slab;
    if (its.items == 0) continue;
    stat(slab, "items:", "number", its.items, output);
    write_counters(server, slab, its, "items:", of_commands, std::size(slab_counters), output);
  }
}

void write_slabs(const ServerState& server, Output& output) {
  uint64_t slab = 0, active = 0, bytes = 0;
  for (const ItemClassStats& its : server.engine.item_classes()) {
    ++slab;
    const bool large = its.bytes == 0;
    if (its.chunks == 0 && !(large && its.items != 0)) continue;
    ++active;
    if (!large) {
      const uint64_t places = its.chunks * its.per_chunk;
      bytes += its.chunks * size_classes::chunk_bytes;
      stat(slab, "", "chunk_size", its.bytes, output);
      stat(slab, "", "chunks_per_page", its.per_chunk, output);
      stat(slab, "", "total_pages", its.chunks, output);
      stat(slab, "", "total_chunks", places, output);
      stat(slab, "", "used_chunks", its.items, output);
      stat(slab, "", "free_chunks", places - std::min(places, its.items), output);
      stat(slab, "", "free_chunks_end", 0, output);
    } else {
      stat(slab, "", "used_chunks", its.items, output);
    }
    write_counters(server, slab, its, "", 0, of_commands, output);
  }
  output.append("STAT active_slabs " + std::to_string(active) + "\r\n");
  output.append("STAT total_malloced " + std::to_string(bytes + server.engine.large_item_bytes()) +
                "\r\n");
}

void reset_slab_counters(ServerState& server) {
  size_t slab = 0;
  for (const ItemClassStats& its : server.engine.item_classes()) {
    ++slab;
    for (size_t i = 0; i < std::size(slab_counters); ++i) {
      server.memcached.reset.slab_sums[slab][i] = slab_counters[i].total(server, its, slab);
    }
  }
}

}  // namespace isotherm::net
