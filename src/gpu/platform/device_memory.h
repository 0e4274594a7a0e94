// DeviceMemory: an array in device memory with an owner, and the cap that all arrays share; or one
// in pinned memory of the host, which kernels reach by the same pointers.
//
// Threads. Any take from a memory; an array is for one at a time. An array must not outlive its
// memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "gpu/platform/device_error.h"

namespace isotherm {

// Where memory lies.
enum class MemorySide : uint8_t { device, host };

template <class Device>
class DeviceMemory {
 public:
  // `cap` in bytes; 0: none.
  DeviceMemory(Device& device, uint64_t cap, MemorySide side = MemorySide::device)
      : device_(device), cap_(cap), side_(side) {}

  // Null where the cap or the device, or the host, has no room. Throws DeviceError where the device
  // has failed, which gives none, either.
  void* allocate(uint64_t bytes) {
    if (!reserve(bytes)) return nullptr;
    void* memory = on_host() ? device_.allocate_pinned(bytes) : device_.allocate(bytes);
    if (memory != nullptr) return memory;
    used_ -= bytes;
    require_device(device_.healthy(), "take memory");
    return nullptr;
  }
  void release(void* memory, uint64_t bytes) {
    if (on_host()) {
      device_.release_pinned(memory, bytes);
    } else {
      device_.release(memory, bytes);
    }
    used_ -= bytes;
  }
  uint64_t used() const { return used_; }
  // Bytes that can still be had; what the host has is not known.
  uint64_t left() const {
    return on_host() ? below_cap() : std::min(below_cap(), device_.available());
  }
  bool capped() const { return cap_ != 0; }
  uint64_t below_cap() const { return capped() ? cap_ - used_ : ~uint64_t{0}; }
  Device& device() { return device_; }

 private:
  bool on_host() const { return side_ == MemorySide::host; }
  bool reserve(uint64_t bytes) {
    uint64_t used = used_;
    do {
      if (cap_ != 0 && (bytes > cap_ || used > cap_ - bytes)) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes));
    return true;
  }

  Device& device_;
  const uint64_t cap_;
  const MemorySide side_;
  std::atomic<uint64_t> used_ = 0;
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
