// BackgroundWork: the work of others on a GPU, in the way of MemcachedGPU's section 5.4. Vectors
// are multiplied, element by element, by a fixed number of blocks of 1,024 threads, in one launch
// or cut into several, which run one after another on a stream of the least priority.
//
// Each block has its own share of the elements, adds their products `passes` times, and does so
// whatever the launch that it is in; what all the runs added up to is compared at the end.
// Threads. One. Memory. 12 bytes an element. Limits. 2^24 / 15 passes in all, by float's 24 bits.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "cuda/gpu_timer.cuh"

namespace isotherm::bench {

struct BackgroundVectors {
  static constexpr uint32_t threads = 1024;

  // Small, so that sums of many products are exact.
  static __device__ float left_of(uint64_t i) { return static_cast<float>(i % 3 + 1); }
  static __device__ float right_of(uint64_t i) { return static_cast<float>(i % 5 + 1); }

  uint64_t elements = 0;
  float* left = nullptr;
  float* right = nullptr;
  float* sums = nullptr;
};

static __global__ void begin_background(BackgroundVectors its) {
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < its.elements; i += step) {
    its.left[i] = its.left_of(i);
    its.right[i] = its.right_of(i);
    its.sums[i] = 0;
  }
}

// Blocks from `first` on, of `blocks` in all.
static __global__ void __launch_bounds__(BackgroundVectors::threads)
    multiply_background(BackgroundVectors its, uint32_t first, uint32_t blocks, uint32_t passes) {
  const uint64_t block = first + blockIdx.x;
  const uint64_t begin = its.elements * block / blocks;
  const uint64_t end = its.elements * (block + 1) / blocks;
  for (uint32_t pass = 0; pass < passes; ++pass) {
    for (uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
      its.sums[i] += its.left[i] * its.right[i];
    }
  }
}

static __global__ void check_background(BackgroundVectors its, uint64_t passes,
                                        unsigned long long* wrong) {
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < its.elements; i += step) {
    const float right = its.left_of(i) * its.right_of(i) * static_cast<float>(passes);
    if (its.sums[i] != right) atomicAdd(wrong, 1ull);
  }
}

class BackgroundWork {
 public:
  // One launch of all blocks takes about `seconds`, with nothing beside it.
  BackgroundWork(uint64_t elements, uint32_t blocks, double seconds) : blocks_(blocks) {
    its_.elements = elements;
    for (float** vector : {&its_.left, &its_.right, &its_.sums}) {
      *vector = device_array<float>(elements);
    }
    int least = 0;
    int greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, least));
    begin_background<<<1024, its_.threads, 0, stream_>>>(its_);
    check(cudaGetLastError());
    constexpr uint32_t some = 4;
    passes_ = some;
    run(1);
    passes_ = std::max<uint32_t>(1, static_cast<uint32_t>(std::lround(some * seconds / run(1))));
  }
  ~BackgroundWork() {
    check(cudaStreamDestroy(stream_));
    for (float* vector : {its_.left, its_.right, its_.sums}) check(cudaFree(vector));
  }
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

  uint32_t passes() const { return passes_; }

  // The seconds from before the first launch until the host knows that all ended. `launched` is
  // called when they are on their way.
  template <class Launched>
  double run(uint32_t launches, Launched&& launched) {
    const auto begin = std::chrono::steady_clock::now();
    for (uint32_t i = 0; i < launches; ++i) {
      const auto first = static_cast<uint32_t>(uint64_t{blocks_} * i / launches);
      const auto end = static_cast<uint32_t>(uint64_t{blocks_} * (i + 1) / launches);
      multiply_background<<<end - first, its_.threads, 0, stream_>>>(its_, first, blocks_, passes_);
      check(cudaGetLastError());
    }
    launched();
    check(cudaStreamSynchronize(stream_));
    added_ += passes_;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  double run(uint32_t launches) {
    return run(launches, [] {});
  }

  // Elements whose sum is not that of all passes so far.
  uint64_t wrong() {
    auto* const wrong = device_array<unsigned long long>(1);
    unsigned long long found = 0;
    check(cudaMemsetAsync(wrong, 0, sizeof *wrong, stream_));
    check_background<<<1024, its_.threads, 0, stream_>>>(its_, added_, wrong);
    check(cudaMemcpyAsync(&found, wrong, sizeof found, cudaMemcpyDeviceToHost, stream_));
    check(cudaStreamSynchronize(stream_));
    check(cudaFree(wrong));
    return found;
  }

 private:
  const uint32_t blocks_;
  BackgroundVectors its_;
  cudaStream_t stream_ = nullptr;
  uint32_t passes_ = 0;
  uint64_t added_ = 0;  // passes, in all runs
};

}  // namespace isotherm::bench
