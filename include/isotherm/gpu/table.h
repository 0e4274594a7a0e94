// gpu::Table: u64 keys to u64 values in the memory of one or more GPUs, and of the host beyond
// them, for arrays on either side.
//
//   isotherm::gpu::Table table;
//   table.put(keys, values, n, stream);                // device pointers, in stream order
//   table.get(keys, values_out, found_out, n, stream);
//   table.get(keys, values, found);                    // arrays in host memory
//
// Every key and every value may be stored, 0 and 2^64 - 1 included; nothing is reserved. The table
// grows by itself; at 100 million entries it takes 27 to 28 bytes an entry.
//
// Host memory. With `host_index_memory` the table may grow beyond the GPU's memory, or
// `gpu_memory`: the bins of keys that are read least then lie on the host, and threads of the host
// answer requests for them. From then on a call waits on the host, first for what is queued before
// it in its stream and then until these requests are answered; other callers wait meanwhile. A cap
// too small to be shared (some megabytes beside the work space) leaves all keys on the GPU.
//
// Several GPUs. With `devices` each key lies on the GPU that its hash says, and everything else
// here holds as well. A call with arrays on the GPUs has a *slice* on each of them: requests as
// columns in that GPU's memory, of any number of rows, 0 included, for any keys. Rows travel to the
// GPUs that hold their keys, and replies back. The rows of slice 0 come before those of slice 1,
// and so on: requests for one key take effect in that order. What slice i reads and writes belongs
// to the call until stream i, which belongs to that GPU, has passed it; a call of one pointer of
// each kind is one whose rows all lie on the first GPU. Such a call waits on the host until its
// rows are sorted by GPU, and so for what is queued before it in its streams; calls that only read
// do not wait for each other on the GPUs. `distinct_keys` is a promise about all slices together,
// and counts if all slices with rows make it. Host arrays are cut by position, so that every GPU's
// bus carries its share. Beside its shard each GPU has work space: that of calls with writes, and
// buffers in which rows travel, at most 1.1 GB; both count towards gpu_memory, of which the buffers
// take a seventh at most.
//
// Order. The requests of one call take effect in the order of the arrays, also where several are
// for one key, and calls take effect in the order they were made, whatever their streams (later
// calls wait on the device, not on the host). A call returns when its work is queued; what it reads
// and writes belongs to it until the stream has passed it. A call waits on the host only where it
// cannot know whether the table must grow before earlier calls have counted their entries.
//
// Replies. found[i] is 1 where the key was present before the request, 0 where it was absent, and
// 255 (`reply_retry`) where memory was full. Then nothing was done for the request, nor, if the key
// lies on the GPU, for other requests on that key in the same part of the call. values[i] is the
// value before the request; it is untouched where found[i] is 0 and has no meaning where it is 255.
//
// Threads. Any; calls take turns. The GPU that the calling thread has chosen (cudaSetDevice) is the
// same after a call. Errors. std::runtime_error without a GPU or when any of its devices fails,
// after which the table is lost and every call throws; std::invalid_argument for columns that are
// missing or not aligned to 8 bytes, for a stream that is being captured for a graph, and for other
// numbers of slices or streams than GPUs; std::bad_alloc without memory for the empty table or for
// the work space of a call with writes. Limits. 32 GPUs of one host, 31 with host memory. Sources.
// Mega-KV, sections 3 (index and batches in device memory) and 7.1 (data sharded over GPUs);
// H-Rocks, section 5 (arrival order within a batch).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "isotherm/gpu/common.h"

namespace isotherm::gpu {

struct TableOptions {
  // GPUs by CUDA's numbers; empty: all there are.
  std::vector<int> devices = {0};
  // Bytes of each GPU's memory that the table may take; 0: no cap. The last 128 MiB of a GPU stay
  // free in any case: kernels that are loaded later need some. Gets from and to pinned memory take
  // up to 55 MB beside the cap, where there is as much.
  uint64_t gpu_memory = 0;
  // Bytes of host memory that the index may take beyond that; 0: none. Beside it some 40 MB are
  // pinned.
  uint64_t host_index_memory = 0;
  // Threads that answer requests for keys on the host, the caller's among them; 0: one a core.
  uint32_t host_threads = 0;
  // Entries to make room for at once, on all GPUs together, and work space for putting a 32nd of
  // them in one call; more are taken in by growth.
  uint64_t expected_entries = 0;
  // Whether calls of at most 512 requests in host memory go to a kernel that stays on the GPU,
  // which takes a few microseconds where launching one takes ten. It runs on 8 multiprocessors at
  // most, and only while such calls come; memory of the GPU that is freed meanwhile may wait for it
  // a few milliseconds.
  bool express = true;
  // Seed of the hash; empty: drawn at random.
  std::optional<uint64_t> hash_seed;
};

class Table {
 public:
  explicit Table(const TableOptions& options = {});
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // Device pointers, n each.
  void get(const uint64_t* keys, uint64_t* values, uint8_t* found, uint64_t n, Stream stream);
  void put(const uint64_t* keys, const uint64_t* values, uint64_t n, Stream stream);
  void erase(const uint64_t* keys, uint64_t n, Stream stream);
  // Any mix of operations.
  void run(const TableRequests& requests, Stream stream);
  // Slice i lies on GPU i of the list, and its replies are there when stream i has passed the call.
  void run(std::span<const TableRequests> slices, std::span<const Stream> streams);

  size_t gpus() const;
  // Whether all GPUs reach each other's memory; else rows go by copies, and slower.
  bool peer_access() const;

  // The same for arrays in pinned host memory (cudaMallocHost, cudaHostRegister), which the
  // functions above take, too: they read and write it directly, more slowly than the bus allows.
  void get_pinned(const uint64_t* keys, uint64_t* values, uint8_t* found, uint64_t n,
                  Stream stream);

  // Arrays in host memory, of equal lengths; each returns when its replies are there. Gets from and
  // to pinned memory are the fastest way over the bus. Throws std::invalid_argument for unequal
  // lengths.
  void get(std::span<const uint64_t> keys, std::span<uint64_t> values, std::span<uint8_t> found);
  void put(std::span<const uint64_t> keys, std::span<const uint64_t> values);
  void erase(std::span<const uint64_t> keys);
  // Any mix of operations, all pointers to host memory.
  void run_host(const TableRequests& requests);

  // Arrays in pinned host memory, which need not be looked for then.
  void get_pinned(std::span<const uint64_t> keys, std::span<uint64_t> values,
                  std::span<uint8_t> found);

  // Sums over all GPUs. Waits for all calls made so far.
  TableStats stats();

 private:
  friend class Queue;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isotherm::gpu
