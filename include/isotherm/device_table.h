// DeviceTable: u64 keys to u64 values in the memory of one or more GPUs, and of the host beyond
// them, for arrays on either side.
//
//   isotherm::DeviceTable table;
//   table.put(keys, values, n, stream);                // device pointers, in stream order
//   table.get(keys, values_out, found_out, n, stream);
//   table.get(keys, values, found);                    // arrays in host memory
//
// Every key and every value may be stored, 0 and 2^64 - 1 included; nothing is reserved. The table
// grows by itself; at 100 million entries it takes 27 to 28 bytes an entry.
//
// Host memory. With `host_memory` the table may grow beyond the GPU's memory, or `gpu_memory`: the
// bins of keys that are read least then lie on the host, and threads of the host answer requests
// for them. From then on a call waits on the host, first for what is queued before it in its stream
// and then until these requests are answered; other callers wait meanwhile. A cap too small to be
// shared (some megabytes beside the work space) leaves all keys on the GPU.
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
// after which the table is lost and every call throws; std::invalid_argument for missing columns,
// and for other numbers of slices or streams than GPUs; std::bad_alloc without memory for the empty
// table or for the work space of a call with writes. Limits. 32 GPUs of one host, 31 with host
// memory. Sources. Mega-KV, sections 3 (index and batches in device memory) and 7.1 (data sharded
// over GPUs); H-Rocks, section 5 (arrival order within a batch).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

struct CUstream_st;

namespace isotherm {

// GPUs that this program can use; 0 where there is none, or no driver.
int gpu_count();

// The last three are for items alone (isotherm/device_item_table.h), which take the first four,
// too.
enum class DeviceOp : uint8_t {
  get,
  put,
  erase,
  put_if_absent,
  compare_and_swap,
  add,
  put_if_present,
  put_if_version,
  erase_if_version,
};

inline constexpr uint8_t reply_retry = 255;

// What a table finds its entries by. The line index grows; the others are for caches, of a fixed
// size, and evict (isotherm/fixed_table.h, isotherm/device_cache.h).
enum class FixedIndexKind : uint8_t { line, cuckoo, set };

struct DeviceTableOptions {
  // GPUs by CUDA's numbers; empty: all there are.
  std::vector<int> devices = {0};
  // Bytes of each GPU's memory that the table may take; 0: no cap. Gets from and to pinned memory
  // take up to 55 MB beside it, where there is as much.
  uint64_t gpu_memory = 0;
  // Bytes of host memory that the index may take beyond that; 0: none. Beside it some 40 MB are
  // pinned.
  uint64_t host_memory = 0;
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

// Requests as columns in device memory, n rows each.
struct DeviceRequests {
  uint64_t rows = 0;
  const DeviceOp* ops = nullptr;  // null: all are `op`
  DeviceOp op = DeviceOp::get;
  const uint64_t* keys = nullptr;
  // Of put, put_if_absent, compare_and_swap and add, and of compare_and_swap; null: all 0.
  const uint64_t* values = nullptr;
  const uint64_t* expected = nullptr;
  // Replies; both null where none are wanted (then no request may be a get).
  uint64_t* values_out = nullptr;
  uint8_t* found = nullptr;
  // A promise that no key comes twice in the call, which makes writes faster. If it is broken, the
  // replies for that key and its state have no meaning.
  bool distinct_keys = false;
};

struct DeviceTableStats {
  uint64_t entries = 0;
  uint64_t bytes = 0;           // of device memory, all in but the work space
  uint64_t workspace = 0;       // bytes that batches with writes work in
  uint64_t overflow_lines = 0;  // linked
  uint64_t segments = 0;
  // Beyond the device's memory: entries that lie on the host, which `entries` counts, too, bytes of
  // host memory, requests that the host has answered, and bins of hashes that have moved.
  uint64_t host_entries = 0;
  uint64_t host_bytes = 0;
  uint64_t host_requests = 0;
  uint64_t bins_to_host = 0;
  uint64_t bins_to_device = 0;
  // Of an index of a fixed size: entries that went for others, and that moved for them.
  uint64_t evictions = 0;
  uint64_t displaced = 0;
};

class DeviceTable {
 public:
  using Stream = CUstream_st*;  // as cudaStream_t

  explicit DeviceTable(const DeviceTableOptions& options = {});
  ~DeviceTable();
  DeviceTable(const DeviceTable&) = delete;
  DeviceTable& operator=(const DeviceTable&) = delete;

  // Device pointers, n each.
  void get(const uint64_t* keys, uint64_t* values, uint8_t* found, uint64_t n, Stream stream);
  void put(const uint64_t* keys, const uint64_t* values, uint64_t n, Stream stream);
  void erase(const uint64_t* keys, uint64_t n, Stream stream);
  // Any mix of operations.
  void run(const DeviceRequests& requests, Stream stream);
  // Slice i lies on GPU i of the list, and its replies are there when stream i has passed the call.
  void run(std::span<const DeviceRequests> slices, std::span<const Stream> streams);

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
  void run_host(const DeviceRequests& requests);

  // Arrays in pinned host memory, which need not be looked for then.
  void get_pinned(std::span<const uint64_t> keys, std::span<uint64_t> values,
                  std::span<uint8_t> found);

  // Sums over all GPUs. Waits for all calls made so far.
  DeviceTableStats stats();

 private:
  friend class DeviceQueue;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isotherm
