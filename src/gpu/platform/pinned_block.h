// PinnedBlock: pinned host memory of a device with an owner.
//
// Threads. One at a time. Must not outlive its device.
#pragma once

#include <cstdint>
#include <new>

namespace isotherm {

template <class Device>
class PinnedBlock {
 public:
  // Contents undefined. Throws std::bad_alloc.
  PinnedBlock(Device& device, uint64_t bytes)
      : device_(device), bytes_(bytes), data_(static_cast<char*>(device.allocate_pinned(bytes))) {
    if (data_ == nullptr) throw std::bad_alloc();
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

}  // namespace isotherm
