// DeviceItemMemory: the owner of the blocks that device items lie in; see device/gpu/item_lists.h.
//
// Blocks of a class come in slabs. A slab is as large as what is missing, and else a quarter of
// what the class has, within bounds, so that a class that is used little takes little. Where memory
// is short a slab is as large as it can be. A slab that is wholly free can be dropped: its memory
// is there for slabs of other classes then.
//
// Which class can spare slabs is told by what was put into each lately, in bytes: the sums are
// halved whenever as much was put as all slabs take.
//
// Threads. One at a time, in the order of the stream.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
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
    uint32_t size_class = 0;
  };
  // A slab, by its class and its number there.
  struct Place {
    uint32_t size_class = 0;
    size_t slab = 0;
  };

  // The next blocks of a class, at most `most` and within a slab, round and round; the class has
  // some.
  Blocks next_blocks(uint32_t c, uint64_t most) {
    Hand& hand = classes_[c].hand;
    settle(hand, c);
    return pass(hand, c, most);
  }
  // The same round all classes; none where there is no slab.
  Blocks next_of_all(uint64_t most) {
    if (!settle(sweeping_)) return {};
    return pass(sweeping_.hand, sweeping_.size_class, most);
  }

  Blocks blocks_of(Place place) const {
    const Slab& slab = classes_[place.size_class].slabs[place.slab];
    return {slab.memory.data(), slab.blocks, place.size_class};
  }

  uint64_t bytes_of(Place place) const {
    return classes_[place.size_class].slabs[place.slab].memory.bytes();
  }
  // Bytes from which on a slab for so many missing blocks is worth making of what others gave.
  uint64_t worth_a_slab(uint32_t c, uint64_t missing) const {
    return std::min(missing * item_classes::bytes_of(c), slab_bytes_);
  }

  // The next slab, round all classes but `c`, that has no more blocks than its class can spare.
  std::optional<Place> next_idle(uint32_t c,
                                 const std::array<uint64_t, item_classes::count>& spare) {
    size_t slabs = 0;
    for (const OfClass& of : classes_) slabs += of.slabs.size();
    for (; slabs != 0 && settle(idle_); --slabs) {
      const Place place{idle_.size_class, idle_.hand.slab++};
      const bool may_be = blocks_of(place).count <= spare[place.size_class];
      if (place.size_class != c && may_be) return place;
    }
    return std::nullopt;
  }
  // The slab that the hand comes to next, of the class that has the most memory for what was put
  // into it lately, if that is more than twice what `c` has.
  std::optional<Place> next_victim(uint32_t c) {
    uint32_t most = c;
    for (uint32_t other = 0; other < item_classes::count; ++other) {
      if (!classes_[other].slabs.empty() && share(other) > share(most)) most = other;
    }
    if (most == c || share(most) <= 2 * share(c)) return std::nullopt;
    Hand& hand = classes_[most].hand;
    settle(hand, most);
    const Place place{most, hand.slab};
    hand = {hand.slab + 1, 0};  // in case that it cannot be emptied
    return place;
  }

  // `blocks` of each class are put.
  void note_use(const uint64_t* blocks) {
    for (uint32_t c = 0; c < item_classes::count; ++c) {
      const uint64_t bytes = blocks[c] * item_classes::bytes_of(c);
      classes_[c].used += bytes;
      used_ += bytes;
    }
    if (used_ <= bytes_) return;
    used_ = 0;
    for (OfClass& of : classes_) used_ += of.used /= 2;
  }

  // Gives back the memory of a slab that is wholly free, of a class with `free` free blocks. Waits.
  void drop(Place place, uint64_t free, Stream stream) {
    constexpr uint32_t threads = DropBlocksKernel::threads;
    OfClass& of = classes_[place.size_class];
    const Slab& slab = of.slabs[place.slab];
    const uint64_t blocks = slab.blocks;
    const auto first = reinterpret_cast<uint64_t>(slab.memory.data());
    const DropBlocksKernel kernel{lists_.data(), place.size_class, first,
                                  first + slab.memory.bytes()};
    require_device(device_.launch(stream, 1, threads, kernel) && device_.synchronize(stream),
                   "take a slab from its class");
    bytes_ -= slab.memory.bytes();
    of.blocks -= blocks;
    of.slabs.erase(of.slabs.begin() + static_cast<std::ptrdiff_t>(place.slab));
    of.hand.forget(place.slab);
    if (sweeping_.size_class == place.size_class) sweeping_.hand.forget(place.slab);
    if (idle_.size_class == place.size_class) idle_.hand.forget(place.slab);
    shorten_list(place.size_class, free - blocks, stream);
  }

 private:
  // Where somebody who goes round the slabs of a class has come to.
  struct Hand {
    size_t slab = 0;
    uint64_t block = 0;

    // The slab of this number is gone.
    void forget(size_t number) {
      if (slab == number) block = 0;
      if (slab > number) --slab;
    }
  };
  struct Slab {
    DeviceArray<Device, char> memory;
    uint64_t blocks;
  };
  struct OfClass {
    DeviceArray<Device, uint64_t> list;
    std::vector<Slab> slabs;
    uint64_t blocks = 0;  // in all its slabs
    uint64_t used = 0;    // bytes that were put lately
    Hand hand;
  };
  // A hand that goes round the slabs of all classes.
  struct Walk {
    uint32_t size_class = 0;
    Hand hand;
  };

  // To a slab that there is.
  void settle(Hand& hand, uint32_t c) const {
    if (hand.slab >= classes_[c].slabs.size()) hand = {};
  }
  // False where there is none at all.
  bool settle(Walk& walk) const {
    for (uint32_t i = 0; i <= item_classes::count; ++i) {
      if (walk.hand.slab < classes_[walk.size_class].slabs.size()) return true;
      walk = {(walk.size_class + 1) % item_classes::count, {}};
    }
    return false;
  }
  Blocks pass(Hand& hand, uint32_t c, uint64_t most) const {
    const Slab& slab = classes_[c].slabs[hand.slab];
    const Blocks next{slab.memory.data() + hand.block * item_classes::bytes_of(c),
                      std::min(most, slab.blocks - hand.block), c};
    hand.block += next.count;
    if (hand.block == slab.blocks) hand = {hand.slab + 1, 0};
    return next;
  }

  // Memory of a class for a byte that was put into it lately.
  double share(uint32_t c) const {
    const OfClass& of = classes_[c];
    return static_cast<double>(of.blocks * item_classes::bytes_of(c)) /
           static_cast<double>(of.used + 1);
  }

  // Adds a slab of `missing` blocks, or more, or fewer; of how many.
  uint64_t add(uint32_t c, uint64_t missing, uint64_t free, Stream stream) {
    const uint64_t bytes = item_classes::bytes_of(c);
    const uint64_t quarter = std::min(classes_[c].blocks / 4, slab_bytes_ / bytes);
    const uint64_t least = least_slab_bytes / bytes;
    // So small ones would make memory crumble; what is left is not worth a slab.
    const uint64_t smallest = std::min(missing, std::max<uint64_t>(slab_bytes_ / 128 / bytes, 1));
    for (uint64_t blocks = std::max({missing, quarter, least});;) {
      if (make(c, blocks, free, stream)) return blocks;
      if (blocks <= smallest) return 0;
      // What is missing first, then less and less; a device that is full refuses slowly.
      blocks = blocks > missing ? missing : std::max(blocks / 8, smallest);
    }
  }

  bool make(uint32_t c, uint64_t blocks, uint64_t free, Stream stream) {
    OfClass& of = classes_[c];
    DeviceArray<Device, char> slab(memory_, blocks * item_classes::bytes_of(c));
    if (slab.empty()) return false;
    const uint64_t wanted = of.blocks + blocks;
    if (wanted > of.list.size() &&
        !move_list(c, std::max(wanted, of.blocks * 5 / 4), free, stream)) {
      return false;
    }
    add_blocks(c, slab.data(), free, blocks, stream);
    of.slabs.push_back({std::move(slab), blocks});
    of.blocks += blocks;
    bytes_ += of.slabs.back().memory.bytes();
    return true;
  }

  // Gives back what a list has beyond need, where that is much and a smaller one can be had.
  void shorten_list(uint32_t c, uint64_t free, Stream stream) {
    OfClass& of = classes_[c];
    if (of.blocks == 0) {
      of.list = {};  // nobody looks at it
    } else if (of.blocks < of.list.size() / 2) {
      move_list(c, of.blocks, free, stream);
    }
  }

  // To an array for so many blocks; false without memory for it.
  bool move_list(uint32_t c, uint64_t blocks, uint64_t free, Stream stream) {
    OfClass& of = classes_[c];
    DeviceArray<Device, uint64_t> list(memory_, blocks);
    if (list.empty()) return false;
    if (free != 0) {
      require_device(device_.copy(stream, list.data(), of.list.data(), free * sizeof(uint64_t)),
                     "copy a list of items");
    }
    std::swap(list, of.list);
    add_blocks(c, nullptr, free, 0, stream);  // the old list is not in use any more
    return true;
  }

  // Cuts a slab into blocks, and makes the list known. Waits.
  void add_blocks(uint32_t c, char* slab, uint64_t free, uint64_t blocks, Stream stream) {
    constexpr uint32_t threads = 256;
    const AddBlocksKernel kernel{lists_.data(), c, classes_[c].list.data(), slab, free, blocks};
    const uint32_t grid = std::max(grid_for(device_, blocks, threads), 1u);
    require_device(device_.launch(stream, grid, threads, kernel) && device_.synchronize(stream),
                   "add blocks for items");
  }

  static constexpr uint64_t least_slab_bytes = 4096;

  DeviceMemory<Device>& memory_;
  Device& device_;
  const uint64_t slab_bytes_;
  uint64_t bytes_ = 0;  // of all slabs
  uint64_t used_ = 0;   // of all classes
  Walk sweeping_;
  Walk idle_;
  std::array<OfClass, item_classes::count> classes_;
  DeviceArray<Device, ItemLists> lists_;
};

}  // namespace isotherm
