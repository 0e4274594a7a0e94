// GpuEnergy: the energy that a GPU has used, as its own meter says, through the driver's management
// library, which is found at run time.
//
// The meter counts all of the card: memory and fans included, the host not. It moves some ten times
// a second, so a measurement should last a second.
#pragma once

#include <dlfcn.h>

#include <string>

namespace isotherm::bench {

class GpuEnergy {
 public:
  // The GPU at this PCI address, as the CUDA runtime writes it.
  explicit GpuEnergy(const std::string& pci_address) : library_(dlopen(name, RTLD_NOW)) {
    if (library_ == nullptr) return;
    const auto begin = find<int()>("nvmlInit_v2");
    const auto by_address = find<int(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
    energy_ = find<int(void*, unsigned long long*)>("nvmlDeviceGetTotalEnergyConsumption");
    const bool ready = begin != nullptr && by_address != nullptr && energy_ != nullptr &&
                       begin() == 0 && by_address(pci_address.c_str(), &device_) == 0;
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

}  // namespace isotherm::bench
