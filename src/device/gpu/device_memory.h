// DeviceMemory: an array in device memory with an owner, and the cap that all arrays share.
//
// Threads. One at a time. An array must not outlive its memory.
#pragma once

#include <cstdint>
#include <utility>

#include "device/gpu/device_error.h"

namespace isotherm {

template <class Device>
class DeviceMemory {
 public:
  // `cap` in bytes; 0: none.
  DeviceMemory(Device& device, uint64_t cap) : device_(device), cap_(cap) {}

  // Null where the cap or the device has no room.
  void* allocate(uint64_t bytes) {
    if (cap_ != 0 && (bytes > cap_ || used_ > cap_ - bytes)) return nullptr;
    void* memory = device_.allocate(bytes);
    if (memory != nullptr) used_ += bytes;
    return memory;
  }
  void release(void* memory, uint64_t bytes) {
    device_.release(memory, bytes);
    used_ -= bytes;
  }
  uint64_t used() const { return used_; }
  Device& device() { return device_; }

 private:
  Device& device_;
  const uint64_t cap_;
  uint64_t used_ = 0;
};

template <class Device, class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  // Contents undefined; empty() where there was no room.
  DeviceArray(DeviceMemory<Device>& memory, uint64_t size)
      : memory_(&memory), data_(static_cast<T*>(memory.allocate(size * sizeof(T)))), size_(size) {}
  ~DeviceArray() {
    if (data_ != nullptr) memory_->release(data_, size_ * sizeof(T));
  }
  DeviceArray(DeviceArray&& other) noexcept { swap(other); }
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    DeviceArray moved(std::move(other));
    swap(moved);
    return *this;
  }

  bool empty() const { return data_ == nullptr; }
  T* data() const { return data_; }
  uint64_t size() const { return data_ == nullptr ? 0 : size_; }
  uint64_t bytes() const { return size() * sizeof(T); }

 private:
  void swap(DeviceArray& other) {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  DeviceMemory<Device>* memory_ = nullptr;
  T* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace isotherm
