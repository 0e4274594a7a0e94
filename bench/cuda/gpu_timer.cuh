// Times of work on the GPU, between events on a stream, and the batches that are timed.
//
// A failed call ends the program with the driver's words.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cuda/ranks.h"

namespace isotherm::bench {

inline void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  std::exit(EXIT_FAILURE);
}

// The median of `rounds` runs of work(round) on the default stream, after one that is not counted;
// with 0 rounds the time of that one.
template <class Work>
double median_seconds(int rounds, Work&& work, cudaStream_t stream = nullptr) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  std::vector<float> times;
  for (int round = 0; round <= rounds; ++round) {
    check(cudaEventRecord(begin, stream));
    work(round);
    check(cudaEventRecord(end, stream));
    check(cudaEventSynchronize(end));
    check(cudaGetLastError());
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end));
    if (round > 0 || rounds == 0) times.push_back(milliseconds);
  }
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[rounds / 2] / 1e3;
}

template <class T>
T* device_array(uint64_t count) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, count * sizeof(T)));
  return static_cast<T*>(memory);
}

}  // namespace isotherm::bench
