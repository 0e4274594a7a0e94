// gpu::Cache: u64 keys to u64 values in the memory of one GPU, of a size that is fixed when it is
// made: a new key that finds no room takes that of an older one.
//
//   isotherm::gpu::Cache cache({.index = isotherm::FixedIndexKind::set, .entries = 100'000'000});
//   cache.put(keys, values, n, stream);                // device pointers, in stream order
//   cache.get(keys, values_out, found_out, n, stream);
//
// `set` (sets of 16 ways, the least recently used goes) takes 22 bytes an entry and is the one to
// take; `cuckoo` (two buckets of 8 cells, CLOCK) takes 24.1, and can answer without comparing keys.
// Beside it the table has work space, for calls with writes. Every key and every value may be
// stored.
//
// Order. As a gpu::Table's: requests of one call take effect in the order of the arrays, and calls
// in the order in which they were made. A set has, after a batch, the entries that were put or
// found last in that order. Replies. As a gpu::Table's, but none is ever reply_retry: found[i] is
// 0 where the key was absent, or had been evicted.
//
// Threads. Any; calls take turns. Errors. std::runtime_error without a GPU or when it fails, after
// which the cache is lost and every call throws; std::invalid_argument for options that make no
// cache, and for missing columns; std::bad_alloc without memory. Sources. Mega-KV, section 4;
// MemcachedGPU, section 4.2.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "isotherm/gpu/common.h"

namespace isotherm::gpu {

struct CacheOptions {
  int device = 0;                              // by CUDA's numbers
  FixedIndexKind index = FixedIndexKind::set;  // or cuckoo
  uint64_t entries = 0;                        // for which it has room; at least 1
  uint64_t gpu_memory = 0;                     // bytes, work space included; 0: no cap
  // Lanes that look for one key of a cuckoo index together: 1, 2, 4 or 8.
  uint32_t lanes = 2;
  std::optional<uint64_t> hash_seed;  // empty: drawn at random
};

class Cache {
 public:
  explicit Cache(const CacheOptions& options);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // Device pointers, n each.
  void get(const uint64_t* keys, uint64_t* values, uint8_t* found, uint64_t n, Stream stream);
  void put(const uint64_t* keys, const uint64_t* values, uint64_t n, Stream stream);
  void erase(const uint64_t* keys, uint64_t n, Stream stream);
  // Any mix of operations.
  void run(const TableRequests& requests, Stream stream);
  // Gets that compare no keys: of each row the first entry that has the key's signature (32 bits;
  // of a set 8), and its key in `stored_keys`, which the caller compares. Another key may be there
  // in place of the one asked for, also where `get` finds that one.
  void get_stored(const uint64_t* keys, uint64_t* stored_keys, uint64_t* values, uint8_t* found,
                  uint64_t n, Stream stream);

  // Arrays in host memory, of equal lengths; each returns when its replies are there.
  void get(std::span<const uint64_t> keys, std::span<uint64_t> values, std::span<uint8_t> found);
  void put(std::span<const uint64_t> keys, std::span<const uint64_t> values);
  // Any mix of operations, all pointers to host memory.
  void run_host(const TableRequests& requests);

  // With `evictions` and `displaced`. Waits for all calls made so far.
  TableStats stats();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isotherm::gpu
