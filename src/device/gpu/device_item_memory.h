// DeviceItemMemory: the owner of the blocks that device items lie in; see device/gpu/item_lists.h.
//
// Blocks of a class come in slabs. A slab is as large as what is missing, and else a quarter of
// what the class has, within bounds, so that a class that is used little takes little. Where memory
// is short a slab is as large as it can be. Slabs stay with their class.
//
// Threads. One at a time, in the order of the stream.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "device/gpu/device_memory.h"
#include "device/gpu/grid.h"
#include "device/gpu/item_lists.h"

namespace isotherm {

template <class Device>
class DeviceItemMemory {
 public:
  using Stream = typename Device::Stream;
  using Counts = uint64_t[item_classes::count];

  // `slab_bytes`: of the largest slab that is made ahead of need. Throws std::bad_alloc.
  DeviceItemMemory(DeviceMemory<Device>& memory, uint64_t slab_bytes, Stream stream)
      : memory_(memory), device_(memory.device()), slab_bytes_(slab_bytes), lists_(memory, 1) {
    if (lists_.empty()) throw std::bad_alloc();
    require_device(
        device_.clear(stream, lists_.data(), lists_.bytes()) && device_.synchronize(stream),
        "make the lists of items");
  }

  ItemLists* lists() const { return lists_.data(); }

  // Makes sure of `need` free blocks of each class, or of as many as memory allows; `free` says how
  // many there are. Waits where it adds some.
  void reserve(const Counts& need, const Counts& free, Stream stream) {
    for (uint32_t c = 0; c < item_classes::count; ++c) {
      uint64_t have = free[c];
      while (have < need[c]) {
        const uint64_t more = add(c, need[c] - have, have, stream);
        if (more == 0) break;
        have += more;
      }
    }
  }

 private:
  struct OfClass {
    DeviceArray<Device, uint64_t> list;
    uint64_t blocks = 0;  // in all its slabs
  };

  // Adds a slab of `missing` blocks, or more, or fewer; of how many.
  uint64_t add(uint32_t c, uint64_t missing, uint64_t free, Stream stream) {
    const uint64_t bytes = item_classes::bytes_of(c);
    const uint64_t quarter = std::min(classes_[c].blocks / 4, slab_bytes_ / bytes);
    const uint64_t least = least_slab_bytes / bytes;
    for (uint64_t blocks = std::max({missing, quarter, least}); blocks != 0;) {
      if (make(c, blocks, free, stream)) return blocks;
      // What is missing first, then less and less.
      blocks = blocks > missing ? missing : blocks / 2;
    }
    return 0;
  }

  bool make(uint32_t c, uint64_t blocks, uint64_t free, Stream stream) {
    OfClass& of = classes_[c];
    DeviceArray<Device, char> slab(memory_, blocks * item_classes::bytes_of(c));
    if (slab.empty()) return false;
    DeviceArray<Device, uint64_t> list;
    if (of.blocks + blocks > of.list.size()) {
      list = {memory_, std::max(of.blocks + blocks, of.blocks * 5 / 4)};
      if (list.empty()) return false;
      if (free != 0) {
        require_device(device_.copy(stream, list.data(), of.list.data(), free * sizeof(uint64_t)),
                       "copy a list of items");
      }
    } else {
      std::swap(list, of.list);
    }
    constexpr uint32_t threads = 256;
    const AddBlocksKernel kernel{lists_.data(), c, list.data(), slab.data(), free, blocks};
    const bool made = device_.launch(stream, grid_for(device_, blocks, threads), threads, kernel) &&
                      device_.synchronize(stream);
    std::swap(list, of.list);  // the old list is not in use any more
    slabs_.push_back(std::move(slab));
    of.blocks += blocks;
    require_device(made, "add blocks for items");
    return true;
  }

  static constexpr uint64_t least_slab_bytes = 4096;

  DeviceMemory<Device>& memory_;
  Device& device_;
  const uint64_t slab_bytes_;
  std::array<OfClass, item_classes::count> classes_;
  std::vector<DeviceArray<Device, char>> slabs_;
  DeviceArray<Device, ItemLists> lists_;
};

}  // namespace isotherm
