// What the tables on a GPU need to begin.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/seed.h"
#include "gpu/platform/cuda_device.cuh"
#include "gpu/platform/device_error.h"

namespace isotherm {

inline uint64_t seed_or_random(std::optional<uint64_t> seed) { return seed ? *seed : draw_seed(); }

// Throws DeviceError where there is none.
inline CudaDevice usable_device(int ordinal) {
  CudaDevice device(ordinal);
  if (!device.usable()) throw DeviceError("no usable GPU: " + device.error());
  return device;
}

// The calling thread has the same GPU at its end.
class KeepGpu {
 public:
  KeepGpu() { cudaGetDevice(&gpu_); }
  ~KeepGpu() { cudaSetDevice(gpu_); }
  KeepGpu(const KeepGpu&) = delete;
  KeepGpu& operator=(const KeepGpu&) = delete;

 private:
  int gpu_ = 0;
};

// A store in the memory of one GPU, which the calling thread has for the time of a call only.
template <class Store>
class StoreOnGpu {
 public:
  // Throws DeviceError, std::bad_alloc.
  template <class Options>
  StoreOnGpu(int gpu, const Options& options, uint64_t expected_entries) {
    const KeepGpu keep;
    device_.emplace(usable_device(gpu));
    try {
      store_.emplace(*device_, options);
      if (expected_entries != 0) store_->reserve(expected_entries);
    } catch (...) {
      store_.reset();  // while the GPU is this one
      throw;
    }
  }
  ~StoreOnGpu() {
    const KeepGpu keep;
    device_->enter();
    store_.reset();
  }
  StoreOnGpu(const StoreOnGpu&) = delete;
  StoreOnGpu& operator=(const StoreOnGpu&) = delete;

  CudaDevice& device() { return *device_; }
  // Throws DeviceError.
  template <class Work>
  decltype(auto) use(Work&& work) {
    const KeepGpu keep;
    require_device(device_->enter(), "choose the GPU");
    return work(*store_);
  }

 private:
  std::optional<CudaDevice> device_;
  std::optional<Store> store_;
};

}  // namespace isotherm
