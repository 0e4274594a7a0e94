// PinnedBlock: pinned host memory of a device with an owner; PinnedLoan: memory of somebody else
// that is pinned for a while, if the device can do so.
//
// Threads. One at a time. Must not outlive its device.
#pragma once

#include <cstdint>
#include <new>

#include "gpu/platform/device_error.h"

namespace isotherm {

template <class Device>
class PinnedBlock {
 public:
  // Contents undefined. Throws std::bad_alloc, and DeviceError where the device has failed.
  PinnedBlock(Device& device, uint64_t bytes)
      : device_(device), bytes_(bytes), data_(static_cast<char*>(device.allocate_pinned(bytes))) {
    if (data_ != nullptr) return;
    require_device(device.healthy(), "take pinned memory");
    throw std::bad_alloc();
  }
  ~PinnedBlock() { device_.release_pinned(data_, bytes_); }
  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;

  char* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  Device& device_;
  const uint64_t bytes_;
  char* const data_;
};

template <class Device>
class PinnedLoan {
 public:
  PinnedLoan(Device& device, void* memory, uint64_t bytes)
      : device_(device), memory_(device.pin(memory, bytes) ? memory : nullptr) {}
  ~PinnedLoan() {
    if (is_pinned()) device_.unpin(memory_);
  }
  PinnedLoan(const PinnedLoan&) = delete;
  PinnedLoan& operator=(const PinnedLoan&) = delete;

  bool is_pinned() const { return memory_ != nullptr; }

 private:
  Device& device_;
  void* const memory_;
};

}  // namespace isotherm
