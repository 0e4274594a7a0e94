// Batches on the GPU that a model on the host replays (cuda/replayed_table.h): operations and
// values for them, columns that show what was never written, and the way to the model.
//
// Values are drawn anew for each run, so that a put never stores what is there already. Of the
// writes one in ten erases its key. Nothing of this is a part of what is timed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cuda/gpu_batches.cuh"
#include "cuda/replayed_table.h"
#include "gpu/kernel/request_columns.h"

namespace isotherm::bench {

inline constexpr uint64_t erase_in = 10;

// Values that no other seed draws, and of the operations one write in `one_in`; 0: none.
static __global__ void draw_writes(TableOp* ops, uint64_t* values, uint64_t rows, uint64_t one_in,
                                   uint64_t seed) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows; i += stride) {
    const uint64_t drawn = scramble((seed << 40) + i + 1);
    values[i] = drawn;
    if (ops == nullptr) continue;
    const uint64_t kind = scramble(drawn);
    const bool write = one_in != 0 && kind % one_in == 0;
    ops[i] = !write ? TableOp::get : kind / one_in % erase_in == 0 ? TableOp::erase : TableOp::put;
  }
}

// Columns of replies in device memory, of so many rows, before they are written.
inline void forget_replies(uint64_t* values, uint8_t* found, uint64_t rows) {
  check(cudaMemset(values, ReplayedTable::untouched_byte, rows * sizeof *values));
  check(cudaMemset(found, ReplayedTable::untouched_byte, rows));
  check(cudaDeviceSynchronize());
}

// Takes batches in device memory to a model, piece by piece.
class GpuReplay {
 public:
  explicit GpuReplay(ReplayedTable& model) : model_(model) {}

  // Wrong replies.
  uint64_t replay(const TableRequests& batch) {
    uint64_t wrong = 0;
    for (uint64_t first = 0; first < batch.rows; first += piece) {
      const TableRequests there = rows_of(batch, first, std::min(piece, batch.rows - first));
      TableRequests part = there;
      part.ops = to_host(ops_, there.ops, there.rows);
      part.keys = to_host(keys_, there.keys, there.rows);
      part.values = to_host(values_, there.values, there.rows);
      part.values_out = to_host(values_out_, there.values_out, there.rows);
      part.found = to_host(found_, there.found, there.rows);
      wrong += model_.replay(part);
    }
    return wrong;
  }

  // Puts every rank of the model with three times its key, by put(batch), and fills the model. The
  // columns have `rows` rows.
  template <class Put>
  void fill(uint64_t* keys, uint64_t* values, uint64_t rows, Put&& put) {
    for (uint64_t first = 0; first < model_.ranks(); first += rows) {
      TableRequests puts;
      puts.rows = std::min(rows, model_.ranks() - first);
      puts.op = TableOp::put;
      puts.keys = keys;
      puts.values = values;
      fresh_keys<<<blocks, 256>>>(keys, values, puts.rows, first);
      check(cudaDeviceSynchronize());
      put(puts);
      check(cudaDeviceSynchronize());
    }
    model_.fill();
  }

  // Reads every rank by get(batch); wrong replies. `values` is overwritten, too.
  template <class Get>
  uint64_t read_all(uint64_t* keys, uint64_t* values, uint64_t* values_out, uint8_t* found,
                    uint64_t rows, Get&& get) {
    uint64_t wrong = 0;
    for (uint64_t first = 0; first < model_.ranks(); first += rows) {
      TableRequests gets;
      gets.rows = std::min(rows, model_.ranks() - first);
      gets.keys = keys;
      gets.values_out = values_out;
      gets.found = found;
      fresh_keys<<<blocks, 256>>>(keys, values, gets.rows, first);
      forget_replies(values_out, found, gets.rows);
      get(gets);
      check(cudaDeviceSynchronize());
      wrong += replay(gets);
    }
    return wrong;
  }

 private:
  static constexpr uint64_t piece = uint64_t{1} << 22;
  static constexpr int blocks = 2048;

  template <class T>
  static T* to_host(std::vector<T>& to, const T* from, uint64_t rows) {
    if (from == nullptr) return nullptr;
    to.resize(piece);
    check(cudaMemcpy(to.data(), from, rows * sizeof(T), cudaMemcpyDeviceToHost));
    return to.data();
  }

  ReplayedTable& model_;
  std::vector<TableOp> ops_;
  std::vector<uint64_t> keys_, values_, values_out_;
  std::vector<uint8_t> found_;
};

}  // namespace isotherm::bench
