// GpuPart: tables on GPUs behind an interface that names no type of a device, for programs that
// learn at run time whether there is a GPU. Python's extension loads a library with this part where
// it finds the driver; engine/device_part.h fills the interface in for any device.
//
// A GpuTable has values of one size, `row_bytes`. Values of up to 8 bytes lie in the words of a
// SplitTable; longer ones, and all of a table that evicts, lie in a SplitRowStore, padded to a
// multiple of 16 bytes. Columns are those of RowRequests.
//
// Host pointers. A call returns when its replies are there. `found` is the state before, as
// RowRequests has it; of a put of rows it is 1 or reply_retry. The device has no operation for
// compare_and_swap of rows, and none for add where values are neither 64-bit integers nor rows of
// floats. The host computes these between a get and a put, while other writes through this object
// wait. Device pointers. A call returns when its work is queued in the stream, with a mask of zeros
// and ones as `found` (GpuMask). Values have exactly 8 bytes, unless the table evicts, or a
// multiple of 16; rows are aligned to 16 bytes. Streams are the numbers of cudaStream_t: 0 and 1
// are the default stream.
//
// Refused rows. `run` and `run_host` return how many rows found no room. As long as the table knows
// that all rows have room, this costs nothing; a call near the cap has to wait for its replies to
// count them.
//
// Threads. Any. Errors. std::invalid_argument, std::bad_alloc, std::runtime_error (a GPU failed).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/string_kernels.h"
#include "isotherm/gpu/item_table.h"
#include "isotherm/row_table.h"

namespace isotherm {

using GpuStream = uintptr_t;

struct GpuTableOptions {
  std::vector<int> gpus;  // by CUDA's numbers
  uint64_t row_bytes = 8;
  bool word_sums = false;    // add is that of 64-bit integers
  bool float_sums = false;   // add is that of rows of floats
  uint64_t gpu_memory = 0;   // bytes of each GPU; 0: no cap
  uint64_t host_memory = 0;  // beyond them
  uint64_t expected_entries = 0;
  RowScores evict_by = RowScores::none;  // which rows go for others; none: none do
};

// The meaning of a row's mask after a call on device pointers.
enum class GpuMask : uint8_t {
  found,    // the key was there
  stored,   // there was room, and the table takes such rows
  absent,   // the key was not there, and was stored
  swapped,  // compare_and_swap stored its row
};

struct GpuCall {
  uint32_t place = 0;  // the GPU whose memory it is, as a position in the table's list
  GpuStream stream = 0;
  RowRequests requests;
  GpuMask mask = GpuMask::found;
  uint8_t* refused = nullptr;  // another mask, beside `found`: which rows found no room; or null
  bool count_refused = false;  // else run returns 0
};

class GpuTable {
 public:
  virtual ~GpuTable() = default;
  virtual gpu::TableStats stats() = 0;
  virtual RowHandle::Result run_host(const RowRequests& requests) = 0;
  virtual uint64_t run(const GpuCall& call) = 0;

  struct New {
    uint64_t keys = 0;
    uint64_t refused = 0;
  };
  // Puts zeros under those keys that are missing, and writes these to `to`, which has room for all,
  // each once and in their order. Both are in host memory; values have 8 bytes.
  virtual New put_new(std::span<const uint64_t> keys, uint64_t* to) = 0;

  // A step of a walk; returns the cursor to go on from, 0 at the end. What is there from the first
  // step to the last is visited at least once.
  virtual uint64_t scan(uint64_t cursor, uint64_t count,
                        const std::function<void(uint64_t key, const void* row)>& visit) = 0;
};

// Byte strings (isotherm/gpu/item_table.h).
class GpuItems {
 public:
  virtual ~GpuItems() = default;
  virtual gpu::ItemStats stats() = 0;
  virtual uint64_t run_host(const gpu::ItemRequests& requests) = 0;
  // Device pointers, in the order of the stream; `place` is as of a GpuCall. With a mask `found`
  // has that, else the replies.
  virtual void run(const gpu::ItemRequests& requests, std::optional<GpuMask> mask, uint32_t place,
                   GpuStream stream) = 0;
  // Adds the keys of a step of a walk, and returns the cursor to go on from; 0 is the first and the
  // end. What is there from the first step to the last comes at least once.
  virtual uint64_t scan(uint64_t cursor, uint64_t count, std::vector<std::string>& keys) = 0;
};

class GpuPart {
 public:
  virtual ~GpuPart() = default;
  virtual int count() = 0;  // of GPUs that this program can use
  virtual std::unique_ptr<GpuTable> make_table(const GpuTableOptions& options) = 0;
  virtual std::unique_ptr<GpuItems> make_items(const gpu::ItemTableOptions& options) = 0;

  // Memory of a GPU, taken and given back in the order of a stream. Throws std::bad_alloc.
  virtual void* allocate(int gpu, uint64_t bytes, GpuStream stream) = 0;
  virtual void release(int gpu, void* at, uint64_t bytes, GpuStream stream) = 0;
  virtual void clear(int gpu, void* at, uint64_t bytes, GpuStream stream) = 0;
  // They wait for the stream.
  virtual void to_gpu(int gpu, void* to, const void* from, uint64_t bytes, GpuStream stream) = 0;
  virtual void to_host(int gpu, void* to, const void* from, uint64_t bytes, GpuStream stream) = 0;
  // Work queued in `stream` from now on begins when the work now queued in `behind` has ended.
  virtual void wait(int gpu, GpuStream stream, GpuStream behind) = 0;
  // Returns when what is queued in the stream has ended.
  virtual void finish(int gpu, GpuStream stream) = 0;
  // What is queued in `stream` so far, as a pointer to an event, as Arrow's device interface has
  // one; whoever made it drops it. `wait_for` takes anybody's.
  virtual void* make_event(int gpu, GpuStream stream) = 0;
  virtual void drop_event(int gpu, void* event) = 0;
  virtual void wait_for(int gpu, GpuStream stream, void* event) = 0;
  // Columns of byte strings, in the order of a stream.
  virtual void copy(int gpu, void* to, const void* from, uint64_t bytes, GpuStream stream) = 0;
  virtual void make_offsets(int gpu, const StringOffsetsKernel& kernel, GpuStream stream) = 0;
  virtual void make_rows(int gpu, const StringRowsKernel& kernel, GpuStream stream) = 0;
  virtual void make_bits(int gpu, const StringBitsKernel& kernel, GpuStream stream) = 0;
  // Whose memory it is; -1: no GPU's.
  virtual int gpu_of(const void* at) = 0;
  // A stream that lasts as long as the program.
  virtual GpuStream make_stream(int gpu) = 0;
};

// The part for NVIDIA's GPUs; what the library of Python's extension gives its loader.
GpuPart& cuda_gpu_part();
inline constexpr const char* gpu_part_entry = "isotherm_gpu_part_5";

}  // namespace isotherm
