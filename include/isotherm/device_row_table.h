// DeviceRowTable: u64 keys to rows of one size in the memory of one GPU or more, such as
// embeddings.
//
//   isotherm::DeviceRowTableOptions options;
//   options.row_bytes = 128 * sizeof(float);
//   isotherm::DeviceRowTable table(options);
//   table.put(keys, rows, n, stream);             // [n], [n][row_bytes], device pointers
//   table.get(keys, rows_out, found, n, stream);  // rows_out[i] untouched where found[i] is 0
//   table.accumulate(keys, gradients, found, n, stream);
//
// Any key may be stored. Rows are copied in and out; of several rows for one key in a call the last
// stays. The table grows by itself; a key takes its row and 31 to 36 bytes.
//
// Several GPUs. With `devices` each key lies on the GPU that its hash says. The arrays of a call
// lie in the memory of one of them, which `place` names by its position in `devices`, and the
// stream is one of that GPU's. Such a call waits on the host for each part of it.
//
// Order, threads and streams: as DeviceTable. Memory. `stored` says of each row of a put whether
// its key found room: 1, or 255 (reply_retry) where device memory or `gpu_memory` ended. Errors.
// std::invalid_argument unless row_bytes is a multiple of 16 from 16 to 4096; otherwise those of
// DeviceTable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "isotherm/device_table.h"

namespace isotherm {

struct DeviceRowTableOptions {
  std::vector<int> devices = {0};  // by CUDA's numbers; empty: all that there are
  uint32_t row_bytes = 0;
  uint64_t gpu_memory = 0;  // bytes of each GPU; 0: no cap
  // Keys to make room for at once, with their rows; more are taken in by growth.
  uint64_t expected_entries = 0;
  std::optional<uint64_t> hash_seed;
};

class DeviceRowTable {
 public:
  using Stream = CUstream_st*;

  explicit DeviceRowTable(const DeviceRowTableOptions& options);
  ~DeviceRowTable();
  DeviceRowTable(const DeviceRowTable&) = delete;
  DeviceRowTable& operator=(const DeviceRowTable&) = delete;

  // Device pointers to n keys and n rows; those to rows are aligned to 16 bytes.
  void get(const uint64_t* keys, void* rows, uint8_t* found, uint64_t n, Stream stream,
           uint32_t place = 0);
  // `stored` may be null.
  void put(const uint64_t* keys, const void* rows, uint8_t* stored, uint64_t n, Stream stream,
           uint32_t place = 0);
  void erase(const uint64_t* keys, uint64_t n, Stream stream, uint32_t place = 0);
  // found[i] is 1 where the key was present, and rows[i] then becomes its row; 0 where it was
  // absent and rows[i] was inserted; 255 where there was no room for it. Of several requests for an
  // absent key the first inserts its row, and the others read that.
  void get_or_insert(const uint64_t* keys, void* rows, uint8_t* found, uint64_t n, Stream stream,
                     uint32_t place = 0);
  // Adds `deltas`, [n][row_bytes / 4], to the rows of keys that are present, as floats, in any
  // order; several of one key are all added. `found` may be null.
  void accumulate(const uint64_t* keys, const float* deltas, uint8_t* found, uint64_t n,
                  Stream stream, uint32_t place = 0);

  // Waits for all calls made so far.
  DeviceTableStats stats();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isotherm
