// What the GPU can do at most: random reads of lines, compare-and-swaps, copies over the bus.
//
// Reads are measured as lookups do them: a key is read, a line is read by a tile of lanes at a
// place drawn from the key, and a result is written.
#pragma once

#include <cstdint>

#include "base/lane_cuda.cuh"
#include "base/tile_lanes.h"
#include "cuda/gpu_timer.cuh"
#include "index/bucket.h"

namespace isotherm::bench {

// `lanes` lanes read a line of 16 bytes each, two lines on their way.
template <uint32_t lanes>
__global__ void __launch_bounds__(256)
    read_lines(const char* memory, uint64_t lines, const uint64_t* keys, uint64_t* out,
               uint64_t rows) {
  const uint32_t lane = threadIdx.x % lanes;
  const uint32_t base = threadIdx.x & 31 & ~(lanes - 1);
  const uint32_t mask = ((1u << lanes) - 1) << base;
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t row = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; row < rows; row += stride) {
    const uint64_t at = __umul64hi(scramble(keys[row]), lines);
    uint64_t result = 0;
    for (uint32_t owner = 0; owner < lanes; owner += 2) {
      Pair seen[2];
      for (uint32_t i = 0; i < 2; ++i) {
        const uint64_t line = __shfl_sync(mask, at, static_cast<int>(base + owner + i));
        seen[i] = load_pair(reinterpret_cast<const Pair*>(memory + line * lanes * 16) + lane);
      }
      for (uint32_t i = 0; i < 2; ++i) {
        const uint32_t odd = __ballot_sync(mask, (seen[i].first & 1) != 0);
        if (lane == owner + i) result = odd + seen[i].second;
      }
    }
    out[row] = result;
  }
}

__global__ void __launch_bounds__(256)
    swap_slots(Pair* slots, uint64_t count, const uint64_t* keys, uint64_t rows) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t row = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; row < rows; row += stride) {
    Pair* slot = slots + __umul64hi(scramble(keys[row]), count);
    const Pair seen = load_pair(slot);
    compare_exchange_pair(slot, seen, {seen.first + 1, row});
  }
}

struct GpuLimits {
  double reads_64;  // per second
  double reads_128;
  double swaps;
  double to_device;  // bytes per second
  double to_host;
};

// `memory`: of the size that lookups go to; `keys`: random, `rows` of them.
inline GpuLimits measure_limits(char* memory, uint64_t bytes, const uint64_t* keys, uint64_t* out,
                                uint64_t rows, uint32_t blocks) {
  const auto rate = [&](auto&& launch) {
    return static_cast<double>(rows) / median_seconds(7, [&](int) { launch(); });
  };
  GpuLimits limits;
  limits.reads_64 =
      rate([&] { read_lines<4><<<blocks, 256>>>(memory, bytes / 64, keys, out, rows); });
  limits.reads_128 =
      rate([&] { read_lines<8><<<blocks, 256>>>(memory, bytes / 128, keys, out, rows); });
  auto* slots = reinterpret_cast<Pair*>(memory);
  limits.swaps = rate([&] { swap_slots<<<blocks, 256>>>(slots, bytes / 16, keys, rows); });
  constexpr uint64_t copied = uint64_t{256} << 20;
  void* pinned = nullptr;
  check(cudaMallocHost(&pinned, copied));
  limits.to_device = copied / median_seconds(5, [&](int) {
                       check(cudaMemcpyAsync(memory, pinned, copied, cudaMemcpyHostToDevice));
                     });
  limits.to_host = copied / median_seconds(5, [&](int) {
                     check(cudaMemcpyAsync(pinned, memory, copied, cudaMemcpyDeviceToHost));
                   });
  check(cudaFreeHost(pinned));
  return limits;
}

}  // namespace isotherm::bench
