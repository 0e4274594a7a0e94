// DeviceArray: memory of the GPU with an owner, and the copies to and from it.
//
// A failed call ends the program with the place and the driver's words: tests have no use for more.
// Threads. One.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>
#include <vector>

namespace isotherm {

inline void check_cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(EXIT_FAILURE);
}

template <class T>
class DeviceArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // All zero; `count` is at least 1.
  explicit DeviceArray(uint64_t count) : count_(count) {
    check_cuda(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)), "cudaMalloc");
    check_cuda(cudaMemset(static_cast<void*>(data_), 0, count * sizeof(T)), "cudaMemset");
  }
  explicit DeviceArray(const std::vector<T>& from) : DeviceArray(from.size()) { upload(from); }
  ~DeviceArray() { check_cuda(cudaFree(data_), "cudaFree"); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() { return data_; }
  uint64_t size() const { return count_; }

  // To the first elements.
  void upload(const std::vector<T>& from) {
    if (from.empty()) return;
    check_cuda(cudaMemcpy(data_, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice),
               "copy to the device");
  }
  // Waits for the batch that writes them.
  std::vector<T> download() const {
    std::vector<T> to(count_);
    check_cuda(cudaMemcpy(to.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost),
               "copy from the device");
    return to;
  }

 private:
  uint64_t count_;
  T* data_ = nullptr;
};

}  // namespace isotherm
