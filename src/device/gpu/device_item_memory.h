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

  // `slab_bytes`: of the largest slab that is made ahead of need. Throws std::bad_alloc.
  DeviceItemMemory(DeviceMemory<Device>& memory, uint64_t slab_bytes, Stream stream)
      : memory_(memory), device_(memory.device()), slab_bytes_(slab_bytes), lists_(memory, 1) {
    if (lists_.empty()) throw std::bad_alloc();
    require_device(
        device_.clear(stream, lists_.data(), lists_.bytes()) && device_.synchronize(stream),
        "make the lists of items");
  }

  ItemLists* lists() const { return lists_.data(); }

  // Makes sure of `need` free blocks of class `c`, or of as many as memory allows, where there are
  // `free`; of how many there are then. Waits where it adds some.
  uint64_t reserve(uint32_t c, uint64_t need, uint64_t free, Stream stream) {
    while (free < need) {
      const uint64_t more = add(c, need - free, free, stream);
      if (more == 0) break;
      free += more;
    }
    return free;
  }

  // All blocks of a class, in use or free.
  uint64_t blocks(uint32_t c) const { return classes_[c].blocks; }
  // The class that has the most.
  uint32_t fullest() const {
    const auto fewer = [](const OfClass& a, const OfClass& b) { return a.blocks < b.blocks; };
    return static_cast<uint32_t>(std::max_element(classes_.begin(), classes_.end(), fewer) -
                                 classes_.begin());
  }

  struct Blocks {
    char* first = nullptr;
    uint64_t count = 0;
  };
  // The next blocks of a class, at most `most` and within a slab, round and round; the class has
  // some.
  Blocks next_blocks(uint32_t c, uint64_t most) {
    OfClass& of = classes_[c];
    const Slab& slab = of.slabs[of.hand_slab];
    const Blocks next{slab.memory.data() + of.hand_block * item_classes::bytes_of(c),
                      std::min(most, slab.blocks - of.hand_block)};
    of.hand_block += next.count;
    if (of.hand_block == slab.blocks) {
      of.hand_block = 0;
      of.hand_slab = (of.hand_slab + 1) % of.slabs.size();
    }
    return next;
  }

 private:
  struct Slab {
    DeviceArray<Device, char> memory;
    uint64_t blocks;
  };
  struct OfClass {
    DeviceArray<Device, uint64_t> list;
    std::vector<Slab> slabs;
    uint64_t blocks = 0;  // in all its slabs
    size_t hand_slab = 0;
    uint64_t hand_block = 0;
  };

  // Adds a slab of `missing` blocks, or more, or fewer; of how many.
  uint64_t add(uint32_t c, uint64_t missing, uint64_t free, Stream stream) {
    const uint64_t bytes = item_classes::bytes_of(c);
    const uint64_t quarter = std::min(classes_[c].blocks / 4, slab_bytes_ / bytes);
    const uint64_t least = least_slab_bytes / bytes;
    for (uint64_t blocks = std::max({missing, quarter, least}); blocks != 0;) {
      if (make(c, blocks, free, stream)) return blocks;
      // What is missing first, then less and less; a device that is full refuses slowly.
      blocks = blocks > missing ? missing : blocks / 8;
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
    of.slabs.push_back({std::move(slab), blocks});
    of.blocks += blocks;
    require_device(made, "add blocks for items");
    return true;
  }

  static constexpr uint64_t least_slab_bytes = 4096;

  DeviceMemory<Device>& memory_;
  Device& device_;
  const uint64_t slab_bytes_;
  std::array<OfClass, item_classes::count> classes_;
  DeviceArray<Device, ItemLists> lists_;
};

}  // namespace isotherm
