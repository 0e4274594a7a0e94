// StoredRun: a run of a sorted tier in the memory of a device (gpu/sorted/sorted_run.h), with its
// owner.
//
// Whoever may read it holds it, by a shared pointer; when nobody does its memory is free again, so
// kernels that read it end before whoever launched them lets go of it.
//
// Threads. Any; nothing of it changes once others see it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "gpu/platform/device_memory.h"
#include "gpu/sorted/sorted_run.h"

namespace isotherm {

template <class Device>
class StoredRun {
 public:
  // Contents undefined; null where there was no room. Throws std::bad_alloc, DeviceError.
  static std::shared_ptr<const StoredRun> make(DeviceMemory<Device>& memory, uint64_t entries,
                                               uint64_t words) {
    std::shared_ptr<const StoredRun> run(new StoredRun(memory, entries, words));
    return run->heads_.empty() || run->words_.empty() ? nullptr : run;
  }
  // Bytes of device memory.
  static uint64_t bytes_for(uint64_t entries, uint64_t words) {
    return entries * sizeof(Pair) + words * sizeof(uint64_t);
  }
  ~StoredRun() { memory_.device().enter(); }
  StoredRun(const StoredRun&) = delete;
  StoredRun& operator=(const StoredRun&) = delete;

  uint64_t entries() const { return heads_.size(); }
  uint64_t bytes() const { return heads_.bytes() + words_.bytes(); }
  Pair* heads() const { return heads_.data(); }
  uint64_t* words() const { return words_.data(); }
  RunView view() const {
    return {heads_.data(), words_.data(), static_cast<uint32_t>(heads_.size())};
  }

 private:
  StoredRun(DeviceMemory<Device>& memory, uint64_t entries, uint64_t words)
      : memory_(memory), heads_(memory, entries), words_(memory, words) {}

  DeviceMemory<Device>& memory_;
  DeviceArray<Device, Pair> heads_;
  DeviceArray<Device, uint64_t> words_;
};

// What a stream was given ends before what was declared before this.
template <class Device>
class SettleAtEnd {
 public:
  SettleAtEnd(Device& device, typename Device::Stream stream) : device_(device), stream_(stream) {}
  ~SettleAtEnd() { device_.synchronize(stream_); }
  SettleAtEnd(const SettleAtEnd&) = delete;
  SettleAtEnd& operator=(const SettleAtEnd&) = delete;

 private:
  Device& device_;
  typename Device::Stream stream_;
};

}  // namespace isotherm
