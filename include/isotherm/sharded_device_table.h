// ShardedDeviceTable: one table of u64 keys to u64 values in the memory of several GPUs.
//
//   isotherm::ShardedDeviceTable table;                 // over all GPUs
//   table.run(slices, streams);                         // a slice on each GPU, in stream order
//   table.get(keys, values, found);                     // arrays in host memory
//
// Each key lies on the GPU that its hash says. A call with arrays on the GPUs has a *slice* on each
// of them: requests as columns in that GPU's memory, of any number of rows, 0 included, for any
// keys. Rows travel to the GPUs that hold their keys, and replies back.
//
// Order. As for a DeviceTable, where the rows of slice 0 come before those of slice 1, and so on:
// requests for one key take effect in that order, and calls in the order they were made. What slice
// i reads and writes belongs to the call until stream i has passed it. A call waits on the host
// until its rows are sorted by GPU, and so for what is queued before it in its streams. Calls that
// only read do not wait for each other on the GPUs.
//
// Replies are those of a DeviceTable; reply_retry where the memory of a key's GPU was full.
// `distinct_keys` is a promise about all slices together, and counts if all slices with rows make
// it.
//
// Memory. Beside its shard each GPU has work space: that of calls with writes, and buffers in which
// rows travel, at most 1.1 GB; both count towards gpu_memory, of which the buffers take a seventh
// at most.
//
// Threads. Any; calls take turns. Errors. std::invalid_argument for other numbers of slices or
// streams than GPUs, and for missing columns; std::runtime_error without a GPU or when any of them
// fails, after which the table is lost and every call throws; std::bad_alloc without memory for
// the empty table or for work space, before anything is done. The GPU that the calling thread has
// chosen (cudaSetDevice) is the same after a call.
// Limits. 32 GPUs of one host. Only a table on one GPU answers few requests by a kernel that stays
// (DeviceTableOptions::express).
// Sources. Mega-KV, section 7.1 (data sharded over GPUs).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "isotherm/device_table.h"

namespace isotherm {

struct ShardedDeviceTableOptions {
  // By CUDA's numbers; empty: all there are.
  std::vector<int> devices;
  // Bytes of each GPU's memory that the table may take; 0: no cap.
  uint64_t gpu_memory = 0;
  // Entries to make room for at once, on all GPUs together; more are taken in by growth.
  uint64_t expected_entries = 0;
  // With one GPU: see DeviceTableOptions.
  bool express = true;
  // Seed of the hash; empty: drawn at random.
  std::optional<uint64_t> hash_seed;
};

class ShardedDeviceTable {
 public:
  using Stream = DeviceTable::Stream;

  explicit ShardedDeviceTable(const ShardedDeviceTableOptions& options = {});
  ~ShardedDeviceTable();
  ShardedDeviceTable(const ShardedDeviceTable&) = delete;
  ShardedDeviceTable& operator=(const ShardedDeviceTable&) = delete;

  size_t gpus() const;
  // Whether all GPUs reach each other's memory; else rows go by copies, and slower.
  bool peer_access() const;

  // Slice i lies on GPU i of the list, and its replies are there when stream i, which belongs to
  // that GPU, has passed the call.
  void run(std::span<const DeviceRequests> slices, std::span<const Stream> streams);

  // Arrays in host memory, of equal lengths; each returns when its replies are there. The rows are
  // cut by position, so that every GPU's bus carries its share. Throws std::invalid_argument for
  // unequal lengths.
  void get(std::span<const uint64_t> keys, std::span<uint64_t> values, std::span<uint8_t> found);
  void put(std::span<const uint64_t> keys, std::span<const uint64_t> values);
  void erase(std::span<const uint64_t> keys);
  // Any mix of operations, all pointers to host memory.
  void run_host(const DeviceRequests& requests);
  // Arrays in pinned host memory (cudaMallocHost, cudaHostRegister), without a copy by the caller's
  // thread.
  void get_pinned(std::span<const uint64_t> keys, std::span<uint64_t> values,
                  std::span<uint8_t> found);

  // Sums over all GPUs. Waits for all calls made so far.
  DeviceTableStats stats();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isotherm
