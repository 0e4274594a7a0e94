// gpu::RowTable: u64 keys to rows of one size in the memory of one GPU or more, such as embeddings.
//
//   isotherm::gpu::RowTableOptions options;
//   options.row_bytes = 128 * sizeof(float);
//   isotherm::gpu::RowTable table(options);
//   table.put(keys, rows, n, stream);                // [n], [n][row_bytes], device pointers
//   table.get(keys, rows_out, found, n, stream);     // rows_out[i] untouched where found[i] is 0
//   table.accumulate(keys, gradients, n, stream);
//   table.get(key_span, row_span, found_span);       // arrays in host memory
//
// Any key may be stored. Rows are copied in and out; of several rows for one key in a call the last
// stays. The table grows by itself; a key takes its row and 31 to 36 bytes, with scores 16 more.
//
// Host memory. With `pinned_row_memory` rows that the GPU's memory, or `gpu_memory`, has no room
// for lie in pinned memory of the host, and all calls reach them there: kernels read and write them
// over the bus, so host memory lets rows find room, it does not make them fast. The keys, and what
// rows take beside themselves, stay on the GPU. Where these have no room, rows that came last leave
// the GPU in runs of some MiB, so the GPU's memory bounds the number of keys. A row on the host
// stays there until its key is erased. New keys are refused, or rows evicted, when both memories
// have ended; host memory that the system does not give counts as full, and of less than 4 MiB a
// GPU nothing is used. `host_entries` and `host_bytes` in the statistics say what lies there.
//
// Replies. found[i] of a get, get_or_insert and accumulate is 1 where the key was present, and 0
// where it was absent (get_or_insert then has inserted its row); of a put 1 where its row was
// stored; of each 255 (reply_retry) where there was no room for it.
//
// Scores. With `scores` each row has one, a number of 64 bits: `given` with the row by whoever
// writes it (0 before any was given), or the time of its last `use`. Time is a count of the calls,
// in parts of at most some 2^18 requests, that a GPU has run; it grows with get, put, get_or_insert
// and accumulate.
//
// Eviction. With `evict` a table that has no room for a new key (`max_entries`, `gpu_memory` or the
// memory of the GPU has ended) lets the rows of the lowest scores go, and the new one is stored,
// whatever its own score. Several rows go at once, up to a 64th of those that there are, or as many
// as one part of a call needs; so a full table has some free rows. Of rows with equal scores any
// may go. Rows that a part of a call has written stay until its end. `evictions` in the statistics
// counts those that went. Each GPU has its share of `max_entries` for the keys that are its own.
//
// Export. export_rows() takes keys, rows and scores out in chunks, of those rows whose score lies
// between two bounds; a table without scores has no bounds. What is there from the first chunk to
// the last, and not written meanwhile, comes exactly once.
//
// Several GPUs. With `devices` each key lies on the GPU that its hash says. The arrays of a call
// lie in the memory of one of them, which `place` names by its position in `devices`, and the
// stream is one of that GPU's. Such a call waits on the host for each part of it. Arrays of the
// host go by way of the first GPU.
//
// Order, threads and streams: as gpu::Table. Errors. std::invalid_argument unless row_bytes is a
// multiple of 16 from 16 to 1048576, for `evict` without `scores` or with a `gpu_memory` that has
// no room for 128 rows, for rows on a device that are not aligned to 16 bytes, for unknown
// operations, and for unequal lengths; otherwise those of gpu::Table. Sources. What users of
// HierarchicalKV rely on: scores, eviction by them, and export.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "isotherm/gpu/common.h"
#include "isotherm/row_scores.h"

namespace isotherm::gpu {

using isotherm::RowScores;

struct RowTableOptions {
  std::vector<int> devices = {0};  // by CUDA's numbers; empty: all that there are
  uint32_t row_bytes = 0;
  uint64_t gpu_memory = 0;  // bytes of each GPU; 0: no cap
  // Bytes of host memory that rows may take beside, of all GPUs together; 0: none. It is taken as
  // they come, and pinned.
  uint64_t pinned_row_memory = 0;
  uint64_t max_entries = 0;  // on all GPUs together; 0: as many as memory has room for
  // Keys to make room for at once, with their rows; more are taken in by growth.
  uint64_t expected_entries = 0;
  RowScores scores = RowScores::none;
  bool evict = false;
  std::optional<uint64_t> hash_seed;
};

enum class RowOp : uint8_t {
  get,            // fills rows where keys are found; without `rows` it says which keys are there
  put,            // stores rows; of several for one key the last stays
  get_or_insert,  // fills rows of keys that are present, and inserts the others'; of several
                  // requests for an absent key the first inserts its row, and the others read that
  accumulate,     // adds floats to the rows of keys that are present, in any order
  erase,
};

// One operation for n keys.
struct RowRequests {
  RowOp op = RowOp::get;
  uint64_t n = 0;
  const uint64_t* keys = nullptr;  // [n]
  void* rows = nullptr;            // [n][row_bytes], on a device aligned to 16 bytes
  uint8_t* found = nullptr;        // [n]; not of a get or a get_or_insert: null, not wanted
  // [n], or null. Of a get: where scores go, of keys that are found. Of a put and of what a
  // get_or_insert inserts, where scores are given: those of the rows. 2^64 - 1 counts as one less.
  uint64_t* scores = nullptr;
};

// A chunk of an export. The columns have room for `capacity` rows, of which the first `rows` are
// filled; those that are null are not wanted.
struct RowExport {
  uint64_t capacity = 0;  // at least 64
  uint64_t* keys = nullptr;
  void* rows = nullptr;
  uint64_t* scores = nullptr;
  uint64_t score_from = 0;           // only scores from here ...
  uint64_t score_to = ~uint64_t{0};  // ... to here
  uint64_t count = 0;                // of the chunk
};

class RowTable {
 public:
  explicit RowTable(const RowTableOptions& options);
  ~RowTable();
  RowTable(const RowTable&) = delete;
  RowTable& operator=(const RowTable&) = delete;

  // Device pointers to n keys and n rows, in stream order.
  void get(const uint64_t* keys, void* rows, uint8_t* found, uint64_t n, Stream stream);
  void put(const uint64_t* keys, const void* rows, uint64_t n, Stream stream);
  void erase(const uint64_t* keys, uint64_t n, Stream stream);
  void get_or_insert(const uint64_t* keys, void* rows, uint8_t* found, uint64_t n, Stream stream);
  // `deltas`: [n][row_bytes / 4]; several of one key are all added.
  void accumulate(const uint64_t* keys, const float* deltas, uint64_t n, Stream stream);
  // Any of them, with all replies and scores, for arrays in the memory of any GPU of the table.
  void run(const RowRequests& requests, Stream stream, uint32_t place = 0);

  // Arrays in host memory; each returns when its replies are there. Spans of rows have
  // n × row_bytes bytes.
  void get(std::span<const uint64_t> keys, std::span<std::byte> rows, std::span<uint8_t> found);
  void put(std::span<const uint64_t> keys, std::span<const std::byte> rows);
  void erase(std::span<const uint64_t> keys);
  void get_or_insert(std::span<const uint64_t> keys, std::span<std::byte> rows,
                     std::span<uint8_t> found);
  void accumulate(std::span<const uint64_t> keys, std::span<const float> deltas);
  // Any of them, all pointers to host memory.
  void run_host(const RowRequests& requests);

  // The next chunk from `cursor` on (0 at first), to device pointers of the first GPU; returns the
  // cursor to go on from, 0 at the end. Waits until `count` is known, and a chunk may have none.
  uint64_t export_rows(uint64_t cursor, RowExport& chunk, Stream stream);
  // The same to arrays in host memory; returns when the chunk is there.
  uint64_t export_rows_host(uint64_t cursor, RowExport& chunk);

  // Waits for all calls made so far.
  TableStats stats();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isotherm::gpu
