// What the tables on a GPU need to begin.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/seed.h"
#include "gpu/platform/cuda_device.cuh"
#include "gpu/platform/device_error.h"
#include "isotherm/gpu/common.h"

namespace isotherm {

inline uint64_t seed_or_random(std::optional<uint64_t> seed) { return seed ? *seed : draw_seed(); }

// Throws DeviceError where there is none.
inline CudaDevice usable_device(int ordinal) {
  CudaDevice device(ordinal);
  if (!device.usable()) throw DeviceError("no usable GPU: " + device.error());
  return device;
}

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

// By CUDA's numbers. Without any the first one, which says why.
inline std::vector<int> all_gpus() {
  std::vector<int> gpus = {0};
  for (int gpu = 1; gpu < gpu::count(); ++gpu) gpus.push_back(gpu);
  return gpus;
}

// The same for a store in the memory of several GPUs.
template <class Store>
class StoreOnGpus {
 public:
  // Throws DeviceError, std::bad_alloc, std::invalid_argument.
  template <class Options>
  StoreOnGpus(const std::vector<int>& gpus, const Options& options, uint64_t expected_entries) {
    const KeepGpu keep;
    std::vector<CudaDevice*> pointers;
    for (const int gpu : gpus) pointers.push_back(&devices_.emplace_back(usable_device(gpu)));
    store_.emplace(pointers, options);
    try {
      if (expected_entries != 0) store_->reserve(expected_entries);
    } catch (...) {
      store_.reset();  // while the GPU is kept
      throw;
    }
  }
  ~StoreOnGpus() {
    const KeepGpu keep;
    store_.reset();
  }
  StoreOnGpus(const StoreOnGpus&) = delete;
  StoreOnGpus& operator=(const StoreOnGpus&) = delete;

  size_t gpus() const { return devices_.size(); }
  CudaDevice& first_device() { return devices_.front(); }
  Store& store() { return *store_; }
  template <class Work>
  decltype(auto) use(Work&& work) {
    const KeepGpu keep;
    return work(*store_);
  }

 private:
  std::deque<CudaDevice> devices_;
  std::optional<Store> store_;
};

}  // namespace isotherm
