// GpuEnergy: the energy that a GPU has used, as its own meter says, through the driver's management
// library, which is found at run time.
//
// The meter counts all of the card: memory and fans included, the host not. It moves some ten times
// a second, so a measurement should last a second.
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <chrono>

namespace isotherm::bench {

class GpuEnergy {
 public:
  // Of the first GPU that the CUDA runtime sees.
  GpuEnergy() : library_(dlopen(name, RTLD_NOW)) {
    char address[32] = {};
    if (library_ == nullptr || cudaDeviceGetPCIBusId(address, sizeof address, 0) != cudaSuccess) {
      return;
    }
    const auto begin = find<int()>("nvmlInit_v2");
    const auto by_address = find<int(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
    energy_ = find<int(void*, unsigned long long*)>("nvmlDeviceGetTotalEnergyConsumption");
    const bool ready = begin != nullptr && by_address != nullptr && energy_ != nullptr &&
                       begin() == 0 && by_address(address, &device_) == 0;
    if (!ready) energy_ = nullptr;
  }
  ~GpuEnergy() {
    if (library_ != nullptr) dlclose(library_);
  }
  GpuEnergy(const GpuEnergy&) = delete;
  GpuEnergy& operator=(const GpuEnergy&) = delete;

  bool available() const {
    unsigned long long millijoules = 0;
    return energy_ != nullptr && energy_(device_, &millijoules) == 0;
  }
  // Since the driver was loaded.
  double joules() const {
    unsigned long long millijoules = 0;
    energy_(device_, &millijoules);
    return static_cast<double>(millijoules) / 1e3;
  }

 private:
  static constexpr const char* name = "libnvidia-ml.so.1";

  template <class Function>
  Function* find(const char* symbol) const {
    return reinterpret_cast<Function*>(dlsym(library_, symbol));
  }

  void* library_;
  void* device_ = nullptr;
  int (*energy_)(void*, unsigned long long*) = nullptr;
};

// What the GPU has used, and how long it took, since this was made.
class EnergyUsed {
 public:
  explicit EnergyUsed(const GpuEnergy& energy) : energy_(energy), before_(energy.joules()) {}

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  double joules() const { return energy_.joules() - before_; }

 private:
  const GpuEnergy& energy_;
  const double before_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace isotherm::bench
