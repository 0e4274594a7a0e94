// Options of a store: what an embedding program may set. The server adds its own (ports, limits of
// clients) in src/net/server_options.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isotherm/scheduling.h"

namespace isotherm {

// What happens to a write when `maxmemory` is reached. Names as in redis.conf.
enum class EvictionPolicy : uint8_t {
  noeviction,      // writes fail with Status::out_of_memory
  allkeys_lru,     // the least recently used items go (CLOCK, Mega-KV section 6.2)
  allkeys_random,  // random items go
  volatile_lru,    // as allkeys_lru, among items with an expiry
  volatile_ttl,    // among items with an expiry, those that expire first
};

std::string_view to_string(EvictionPolicy policy);  // "noeviction", "allkeys-lru", …
std::optional<EvictionPolicy> parse_eviction_policy(std::string_view name);

// Whether it frees memory by items of any kind.
constexpr bool evicts_any_key(EvictionPolicy policy) {
  return policy == EvictionPolicy::allkeys_lru || policy == EvictionPolicy::allkeys_random;
}

// Where the index lies. Keys are in host memory in either case.
enum class DeviceChoice : uint8_t {
  cpu,        // in host memory
  cuda,       // in the memory of a GPU; an error without one
  automatic,  // in that of a GPU if there is one that can be used
};

std::string_view to_string(DeviceChoice choice);  // "cpu", "cuda", "auto"
std::optional<DeviceChoice> parse_device_choice(std::string_view name);

// Which index a store has. Those but the first have a fixed size: where there is no room for a new
// key, an older one is evicted, whatever memory there is.
enum class IndexChoice : uint8_t {
  line,    // grows and shrinks with the keys
  cuckoo,  // a new key takes the place of one of 16 by CLOCK (Mega-KV)
  set,     // a new key takes the place of the least recently used of 16 (MemcachedGPU)
};

std::string_view to_string(IndexChoice choice);  // "line", "cuckoo", "set"
std::optional<IndexChoice> parse_index_choice(std::string_view name);

// Whether keys that are asked for often are found by a table of their own, before the index, and
// who says which they are.
enum class RouterChoice : uint8_t {
  off,        // none are
  histogram,  // bins of keys with more than a share of the requests (KVCG)
  budget,     // the hottest bins of keys for which the table has room
  chance,     // bins of keys by a coin, again and again; for tests
};

std::string_view to_string(RouterChoice choice);  // "off", "histogram", …
std::optional<RouterChoice> parse_router_choice(std::string_view name);

struct RouterOptions {
  static constexpr uint32_t most_bins = 1 << 24;
  static constexpr uint64_t least_memory = 64 << 10;

  // Else the index must be on the host, also that of a cache of a tree, or of items on GPUs.
  RouterChoice choice = RouterChoice::off;
  // Ranges of hashes, each of which is hot or cold as a whole; 1 to most_bins.
  uint32_t bins = 1 << 20;
  // Bytes that the table and the bins may take, at least least_memory, and part of maxmemory; 0: an
  // eighth of maxmemory as the store is opened, or 1 GiB without one.
  uint64_t memory = 0;
  // Of all requests, what a bin of `histogram` must have to be hot; 0 to 1.
  double threshold = 1.3e-5;
  // Milliseconds between two looks at the requests; 1 to 60,000.
  uint32_t interval_ms = 100;
};

struct Options {
  // Bytes that items, index, buffers and what waits to be freed may take together, at least
  // least_maxmemory, or least_with_tree; 0: no cap.
  uint64_t maxmemory = 0;
  // With less an empty store has no room for its first item.
  static constexpr uint64_t least_maxmemory = 768 << 10;
  // With a tree. Below it what that begins with leaves no room for items, and each write looks for
  // it in vain.
  static constexpr uint64_t least_with_tree = 2 << 20;
  EvictionPolicy maxmemory_policy = EvictionPolicy::noeviction;
  // Databases (Redis's SELECT), each with an index of its own. 1 to 16,384.
  uint32_t databases = 16;
  // The longest value and the longest key, in bytes; 1 to 2^32 - 1.
  uint64_t max_value_bytes = 512ull << 20;
  // Seed of the hash; empty: drawn at random when the store opens.
  std::optional<uint64_t> hash_seed = {};
  RouterOptions router = {};

  // Other ones than `line` need a cap, a policy that evicts from all keys (allkeys_lru,
  // allkeys_random), the index on the host, no router and no tree.
  IndexChoice index = IndexChoice::line;
  // Bytes that an item takes on average, from which an index of a fixed size gets its own: it has
  // room for as many items as fit into `maxmemory`, as the store is opened, beside it. Where items
  // are smaller, keys are evicted though there is memory; where they are larger, the index takes
  // more of it than it needs. The index of each further database is made for what those before it
  // have left, from the third on for a part of that: half, a third, and so on. At least 16.
  uint64_t index_item_bytes = 128;

  // A folder for more items than memory holds: memory is then a cache of a tree of files there
  // (RocksDB), `maxmemory_policy` says what stays in it (allkeys_random, or else allkeys_lru), and
  // nothing is lost by eviction. What was changed is in the files when the store has been closed,
  // or some time later; a journal keeps the rest (the server's). Objects cannot be stored. Needs
  // the index on the host. Empty: none.
  std::string tree = {};
  // RocksDB's options for it, as its own text: "name=value;name=value". Those by which keys would
  // be lost are refused (FIFO compaction, another comparator or table factory).
  std::string tree_options = {};
  // Bytes of the first GPU's memory, at least 16 MiB, for a sorted copy of these files, which
  // answers many gets (of a thread of the library), and many ranges (isotherm/db_batch.h), at once.
  // It is filled when the store is opened. Where it has no room for all keys, or the GPU fails,
  // the files answer alone. Needs a GPU. 0: none.
  uint64_t gpu_sorted = 0;

  DeviceChoice device = DeviceChoice::cpu;
  // The GPUs' numbers, as CUDA counts them, 1 to 16; they share the index, or the items of
  // `gpu_items`. Not empty, also where none is used.
  std::vector<uint32_t> gpus = {0};
  // Bytes of each GPU's memory that the index may take; 0: no cap. The part of the index that finds
  // no room there lies on the host: its bins that are read least.
  uint64_t gpu_memory = 0;
  // Bytes of each GPU's memory, taken at once, for values that nobody reads. With a cap on host
  // memory a value goes there when the host has no room for it, before anything is evicted or
  // refused; without a cap all such values go. 0: values stay on the host; else at least 256 KiB.
  // What lies there is lost with the GPU.
  uint64_t gpu_values = 0;
  // The shortest value that goes there, in bytes; at least 64. The longest has 1 MiB.
  uint64_t gpu_values_from = 256;
  // Bytes of each GPU's memory for whole items, at least 256 MiB (with `device` cuda, or
  // automatic): they live there, each on the GPU that its key's hash says, host memory is a cache
  // of them as large as `maxmemory`, and the index of what is cached lies on the host.
  // `maxmemory_policy` says what happens where the GPUs' memory ends: noeviction refuses writes,
  // allkeys_lru and allkeys_random let items go; those with an expiry alone cannot be chosen. Keys
  // of more than 65,535 bytes and values of more than 8 MiB stay on the host. Objects cannot be
  // stored. Needs no tree and no `gpu_values`; a router finds what is hot in the cache. What lies
  // there is lost when one of the GPUs fails, and when the store is closed, unless a journal has it
  // (the server's). 0: none.
  uint64_t gpu_items = 0;
  // Bytes of pinned host memory for items that `gpu_items` has no room for; the GPUs find and read
  // them there, which is slow. A GPU keeps 29 bytes for each item in either memory, so where this
  // is several times `gpu_items`, few items lie on the GPU. Part of `maxmemory` from the start, of
  // which it may be half. Needs `gpu_items`. 0: none.
  uint64_t gpu_items_host = 0;
  // When the batches of all threads go to the GPUs.
  RoundOptions rounds = {};
  // Threads that take batches there for those that do not wait (Handle::start), at most 256; 0: as
  // many as cores, from 2 to 8.
  uint32_t gpu_threads = 0;
  // Batches that wait for these threads at most, at least 1.
  uint32_t gpu_queue = 1024;
};

}  // namespace isotherm
