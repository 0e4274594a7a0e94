// RowFilter: an export of gpu::RowTable by a predicate of the caller's, which runs on the GPU.
//
//   struct Long { __device__ bool operator()(uint64_t, const void* row, uint64_t) const {
//     return static_cast<const float*>(row)[0] > 1;
//   } };
//   isotherm::gpu::RowExport chunk = ..., kept = ...;   // columns in memory of the first GPU
//   uint64_t cursor = 0;
//   do {
//     cursor = isotherm::gpu::export_rows_where(table, cursor, chunk, kept, row_bytes, Long{},
//     count, stream);
//     // kept.count rows
//   } while (cursor != 0);
//
// It goes the way of export_rows(), chunk by chunk: what comes, and how often, is as there. Of each
// chunk the rows that the predicate wants are copied to other columns, which need room for
// `chunk.capacity` rows, in no order. A predicate is given the key, the row and the score of each
// row: of the row null, and of the score 0, where the chunk has no such column. Columns of `kept`
// that are null are not wanted, and others must be columns of the chunk. A chunk may have none that
// is wanted. Bounds of scores in the chunk hold, too. On the CPU no such thing is needed:
// RowHandle::scan() calls a function for each row.
//
// Threads. As export_rows(), which waits on the host, and so does this. Errors. Those of
// export_rows(); std::runtime_error where the GPU fails. export_rows_where() is there where a CUDA
// compiler compiles this; RowFilter itself knows no device.
#pragma once

#include <cstdint>

#include "isotherm/gpu/row_table.h"

#ifdef __CUDACC__
#include <cuda_runtime_api.h>

#include <stdexcept>
#define ISOTHERM_ROW_FILTER __host__ __device__
#else
#define ISOTHERM_ROW_FILTER
#endif

namespace isotherm::gpu {

// Predicate: bool (uint64_t key, const void* row, uint64_t score) const, on the device.
template <class Predicate>
struct RowFilter {
  RowExport from;          // `count` rows
  RowExport to;            // columns to fill
  uint32_t row_bytes = 0;  // of the table
  Predicate wanted;
  uint32_t* kept = nullptr;  // how many, in device memory; 0 at first

  // The share of thread `thread` of `threads`. next(kept) adds one to it, atomically, and returns
  // what it was before.
  template <class Next>
  ISOTHERM_ROW_FILTER void run(uint64_t thread, uint64_t threads, Next&& next) const {
    const uint64_t words = row_bytes / sizeof(uint64_t);
    const auto* const rows = static_cast<const uint64_t*>(from.rows);
    for (uint64_t i = thread; i < from.count; i += threads) {
      const uint64_t* const row = rows != nullptr ? rows + i * words : nullptr;
      const uint64_t score = from.scores != nullptr ? from.scores[i] : 0;
      if (!wanted(from.keys[i], static_cast<const void*>(row), score)) continue;
      const uint64_t at = next(kept);
      if (to.keys != nullptr) to.keys[at] = from.keys[i];
      if (to.scores != nullptr) to.scores[at] = score;
      if (to.rows == nullptr) continue;
      uint64_t* const copy = static_cast<uint64_t*>(to.rows) + at * words;
      for (uint64_t word = 0; word < words; ++word) copy[word] = row[word];
    }
  }
};

#ifdef __CUDACC__

template <class Predicate>
__global__ void filter_rows(RowFilter<Predicate> filter) {
  filter.run(uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, uint64_t{gridDim.x} * blockDim.x,
             [](uint32_t* at) { return atomicAdd(at, 1U); });
}

// The next chunk from `cursor` on, to `chunk`, whose keys may not be null, and the rows of it that
// are wanted, to `kept`; returns the cursor to go on from, 0 at the end. `count` is 4 bytes of the
// first GPU, which is the calling thread's.
template <class Predicate>
uint64_t export_rows_where(RowTable& table, uint64_t cursor, RowExport& chunk, RowExport& kept,
                           uint32_t row_bytes, const Predicate& wanted, uint32_t* count,
                           Stream stream) {
  const uint64_t next = table.export_rows(cursor, chunk, stream);
  kept.count = 0;
  if (chunk.count == 0) return next;
  constexpr uint64_t threads = 256, most_blocks = 4096;
  const uint64_t blocks = (chunk.count + threads - 1) / threads;
  uint32_t found = 0;
  bool works = cudaMemsetAsync(count, 0, sizeof found, stream) == cudaSuccess;
  if (works) {
    filter_rows<<<static_cast<unsigned>(blocks < most_blocks ? blocks : most_blocks), threads, 0,
                  stream>>>(RowFilter<Predicate>{chunk, kept, row_bytes, wanted, count});
    works = cudaGetLastError() == cudaSuccess &&
            cudaMemcpyAsync(&found, count, sizeof found, cudaMemcpyDeviceToHost, stream) ==
                cudaSuccess &&
            cudaStreamSynchronize(stream) == cudaSuccess;
  }
  if (!works) throw std::runtime_error("the GPU failed while it filtered rows");
  kept.count = found;
  return next;
}

#endif

}  // namespace isotherm::gpu

#undef ISOTHERM_ROW_FILTER
