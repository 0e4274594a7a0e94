// DeviceItemMemory: the owner of the blocks that device items lie in; see gpu/items/item_lists.h.
//
// Blocks of a class come in slabs. A slab is as large as what is missing, and else a quarter of
// what the class has, within bounds, so that a class that is used little takes little. Where memory
// is short a slab is as large as it can be. A slab that is wholly free can be dropped: its memory
// is there for slabs of other classes then.
//
// A slab lies in device memory, or in pinned memory of the host where the table may take some
// (gpu/items/item_placement.h); a dropped one goes back to where it came from. Classes have slabs
// of both, and whoever goes round them takes them as they come. The array of a list lies where its
// blocks lie, so that host memory serves as well when the device has none left; that of a list of
// device memory has not room for all (gpu/items/item_lists.h). Host memory that cannot be had is
// memory that is full.
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

#include "gpu/items/item_lists.h"
#include "gpu/items/item_placement.h"
#include "gpu/platform/device_memory.h"
#include "gpu/platform/grid.h"

namespace isotherm {

template <class Device>
class DeviceItemMemory {
 public:
  using Stream = typename Device::Stream;

  // `slab_bytes`: of the largest slab that is made ahead of need. Throws std::bad_alloc.
  DeviceItemMemory(DeviceMemory<Device>& memory, const ItemPlacement& placement,
                   uint64_t slab_bytes, Stream stream)
      : memory_(memory),
        device_(memory.device()),
        host_(device_, placement.host_memory, MemorySide::host),
        placement_(placement),
        slab_bytes_(slab_bytes),
        lists_(memory, 1) {
    if (lists_.empty()) throw std::bad_alloc();
    require_device(
        device_.clear(stream, lists_.data(), lists_.bytes()) && device_.synchronize(stream),
        "make the lists of items");
  }

  ItemLists* lists() const { return lists_.data(); }
  const ItemPlacement& placement() const { return placement_; }
  // What slabs and lists take of the host's memory, in bytes.
  uint64_t host_bytes() const { return host_.used(); }
  // The items there, and what their blocks take of that, where lists are these.
  struct HostItems {
    uint64_t count = 0;
    uint64_t bytes = 0;
  };
  HostItems host_items(const ItemLists& lists) const {
    HostItems items;
    for (uint32_t list = item_classes::count; list < item_classes::lists; ++list) {
      const uint64_t free = lists.listed(list) + lists.unlisted[list] + arrays_[list].fresh;
      const uint64_t used = arrays_[list].blocks - free;
      items.count += used;
      items.bytes += used * item_classes::bytes_of(item_classes::class_of_list(list));
    }
    return items;
  }

  // Makes sure that lists have `need` blocks of class `c`, or as many as memory allows, where free
  // blocks are these; of how many they have then. Waits where it adds some.
  uint64_t reserve(uint32_t c, uint64_t need, const FreeBlocks& free, Stream stream) {
    if (memory_before_items_ == 0) memory_before_items_ = memory_.used();
    Free has = {free.listed[list_of(c, MemorySide::device)],
                free.listed[list_of(c, MemorySide::host)]};
    for (const MemorySide side : sides(c)) {
      uint64_t& listed = has[index_of(side)];
      if (all(has) < need) listed += list_fresh(c, side, listed, stream);
      const uint32_t list = list_of(c, side);
      if (all(has) < need && free.unlisted[list] != 0) listed = gather(c, side, stream);
    }
    while (all(has) < need && add(c, need - all(has), has, stream)) {
    }
    return all(has);
  }
  // All free blocks of a list's class and memory.
  uint64_t free_of(uint32_t list, const FreeBlocks& free) const {
    return free.listed[list] + free.unlisted[list] + arrays_[list].fresh;
  }

  // All blocks of a class, in use or free.
  uint64_t blocks(uint32_t c) const {
    return of_list(c, MemorySide::device).blocks + of_list(c, MemorySide::host).blocks;
  }
  // The class that has the most.
  uint32_t fullest() const {
    uint32_t fullest = 0;
    for (uint32_t c = 1; c < item_classes::count; ++c) {
      if (blocks(c) > blocks(fullest)) fullest = c;
    }
    return fullest;
  }

  struct Blocks {
    char* first = nullptr;
    uint64_t count = 0;
    uint32_t size_class = 0;
  };
  // A slab, by its class and its number there.
  struct SlabNumber {
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

  Blocks blocks_of(SlabNumber place) const {
    const Slab& slab = slab_at(place);
    return {slab.memory.data(), slab.blocks, place.size_class};
  }

  template <class Visit>
  void each_slab(Visit&& visit) const {
    for (uint32_t c = 0; c < item_classes::count; ++c) {
      for (size_t slab = 0; slab < classes_[c].slabs.size(); ++slab) visit(blocks_of({c, slab}));
    }
  }

  uint64_t bytes_of(SlabNumber place) const { return slab_at(place).memory.bytes(); }
  // Bytes from which on a slab for so many missing blocks is worth making of what others gave.
  uint64_t worth_a_slab(uint32_t c, uint64_t missing) const {
    return std::min(missing * item_classes::bytes_of(c), slab_bytes_);
  }

  // The memories in which slabs for class `c` are made, the one that it should lie in first.
  std::array<MemorySide, 2> sides(uint32_t c) const {
    if (c >= placement_.host_from) return {MemorySide::host, MemorySide::device};
    return {MemorySide::device, MemorySide::host};
  }
  // The next slab, round all of a memory, that has no more blocks than its list can spare.
  std::optional<SlabNumber> next_idle(MemorySide side,
                                      const std::array<uint64_t, item_classes::lists>& spare) {
    Walk& walk = idle_[index_of(side)];
    size_t slabs = 0;
    for (const OfClass& of : classes_) slabs += of.slabs.size();
    for (; slabs != 0 && settle(walk); --slabs) {
      const SlabNumber place{walk.size_class, walk.hand.slab++};
      const Slab& slab = slab_at(place);
      if (slab.side == side && slab.blocks <= spare[list_of(place.size_class, side)]) return place;
    }
    return std::nullopt;
  }
  // The slab of a memory that the hand comes to next, of the class that has the most memory for
  // what was put into it lately, if that is more than twice what `c` has.
  std::optional<SlabNumber> next_victim(MemorySide side, uint32_t c) {
    uint32_t most = c;
    for (uint32_t other = 0; other < item_classes::count; ++other) {
      if (of_list(other, side).blocks != 0 && share(other) > share(most)) most = other;
    }
    if (most == c || share(most) <= 2 * share(c)) return std::nullopt;
    Hand& hand = classes_[most].hand;
    settle(hand, most);
    while (slab_at({most, hand.slab}).side != side) {
      hand = {hand.slab + 1, 0};
      settle(hand, most);
    }
    const SlabNumber place{most, hand.slab};
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
    if (used_ <= slab_bytes_of_all()) return;
    used_ = 0;
    for (OfClass& of : classes_) used_ += of.used /= 2;
  }

  // Gives back the memory of a slab that is wholly free, where lists have `free` blocks. Waits.
  void drop(SlabNumber place, const FreeBlocks& free, Stream stream) {
    constexpr uint32_t threads = DropBlocksKernel::threads;
    const Slab& slab = slab_at(place);
    const MemorySide side = slab.side;
    const uint32_t list = list_of(place.size_class, side);
    const auto first = reinterpret_cast<uint64_t>(slab.memory.data());
    const DropBlocksKernel kernel{lists_.data(), list, first, first + slab.memory.bytes(),
                                  slab.given};
    require_device(device_.launch(stream, 1, threads, kernel) && device_.synchronize(stream),
                   "take a slab from its class");
    slab_bytes_on_[index_of(side)] -= slab.memory.bytes();
    arrays_[list].blocks -= slab.blocks;
    arrays_[list].fresh -= slab.blocks - slab.given;
    forget(place);
    shorten_list(list, free.listed[list], stream);
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
    MemorySide side;
    uint64_t given = 0;  // of the blocks, the first ones: not fresh
  };
  struct OfClass {
    std::vector<Slab> slabs;
    uint64_t used = 0;  // bytes that were put lately
    Hand hand;
  };
  struct OfList {
    DeviceArray<Device, uint64_t> places;
    uint64_t blocks = 0;  // in all its slabs
    uint64_t fresh = 0;   // of them
  };
  // A hand that goes round the slabs of all classes.
  struct Walk {
    uint32_t size_class = 0;
    Hand hand;
  };

  // Free blocks of a class on each side.
  using Free = std::array<uint64_t, 2>;
  static uint64_t all(const Free& free) { return free[0] + free[1]; }

  static uint32_t index_of(MemorySide side) { return static_cast<uint32_t>(side); }
  static uint32_t list_of(uint32_t c, MemorySide side) {
    return item_classes::list_of(c, side == MemorySide::host);
  }
  const OfList& of_list(uint32_t c, MemorySide side) const { return arrays_[list_of(c, side)]; }
  const Slab& slab_at(SlabNumber place) const {
    return classes_[place.size_class].slabs[place.slab];
  }
  uint64_t slab_bytes_of_all() const { return slab_bytes_on_[0] + slab_bytes_on_[1]; }
  DeviceMemory<Device>& memory_of(MemorySide side) {
    return side == MemorySide::host ? host_ : memory_;
  }

  void forget(SlabNumber place) {
    OfClass& of = classes_[place.size_class];
    of.slabs.erase(of.slabs.begin() + static_cast<std::ptrdiff_t>(place.slab));
    of.hand.forget(place.slab);
    for (Walk* walk : {&sweeping_, &idle_[0], &idle_[1]}) {
      if (walk->size_class == place.size_class) walk->hand.forget(place.slab);
    }
  }

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
    return static_cast<double>(blocks(c) * item_classes::bytes_of(c)) /
           static_cast<double>(of.used + 1);
  }

  // Adds a slab of `missing` blocks, or more, or fewer, where there is memory for it.
  bool add(uint32_t c, uint64_t missing, Free& free, Stream stream) {
    const auto add_on = [&](MemorySide side, uint64_t host) {
      const uint64_t listed = add_some(c, missing, {side, host}, free, stream);
      free[index_of(side)] += listed;
      return listed != 0;
    };
    const uint64_t host = placement_.host_memory;
    if (c < placement_.host_from && add_on(MemorySide::device, host)) return true;
    if (host == 0) return false;
    // The index needs no more than for what the host has where it does not get more.
    return add_on(MemorySide::host, host) || add_on(MemorySide::device, host_.used());
  }

  struct Target {
    MemorySide side;
    uint64_t host;  // bytes that items can have there
  };

  // How many blocks more are listed.
  uint64_t add_some(uint32_t c, uint64_t missing, Target target, const Free& free, Stream stream) {
    const uint64_t bytes = item_classes::bytes_of(c);
    const uint64_t quarter = std::min(blocks(c) / 4, slab_bytes_ / bytes);
    const uint64_t least = least_slab_bytes / bytes;
    // So small ones would make memory crumble; what is left is not worth a slab.
    const uint64_t smallest = std::min(missing, std::max<uint64_t>(slab_bytes_ / 128 / bytes, 1));
    for (uint64_t blocks = std::max({missing, quarter, least});;) {
      const uint64_t listed = free[index_of(target.side)];
      if (make(c, blocks, target, listed, stream)) {
        return list_fresh(c, target.side, listed, stream);
      }
      if (blocks <= smallest) return 0;
      // What is missing first, then less and less; a device that is full refuses slowly.
      blocks = blocks > missing ? missing : std::max(blocks / 8, smallest);
    }
  }

  bool make(uint32_t c, uint64_t blocks, Target target, uint64_t listed, Stream stream) {
    const uint64_t bytes = units_of(blocks * item_classes::bytes_of(c)) * unit_bytes;
    const bool spares_index = placement_.host_memory != 0 && target.side == MemorySide::device;
    if (spares_index && !leaves_index(bytes, blocks, target.host)) return false;
    const uint32_t list = list_of(c, target.side);
    OfList& of = arrays_[list];
    const uint64_t wanted = list_room(list, of.blocks + blocks);
    const bool lengthens = wanted > of.places.size();
    // Both or neither: to give pinned memory back at once would cost every part time.
    const uint64_t all_bytes = bytes + (lengthens ? wanted * sizeof(uint64_t) : 0);
    if (memory_of(target.side).below_cap() < all_bytes) return false;
    DeviceArray<Device, char> slab(memory_of(target.side), bytes);
    if (slab.empty()) return false;
    const uint64_t ample = std::max(wanted, of.places.size() * 5 / 4);
    if (lengthens && !move_list(list, ample, listed, stream) &&
        !move_list(list, wanted, listed, stream)) {
      return false;
    }
    // Whoever reads an item reads whole units, and so words of blocks that had no item yet. The
    // slab stays now: one that is given back may have nothing queued on it.
    require_device(
        target.side == MemorySide::host || device_.clear(stream, slab.data(), slab.bytes()),
        "clear blocks for items");
    classes_[c].slabs.push_back({std::move(slab), blocks, target.side});
    of.blocks += blocks;
    of.fresh += blocks;
    slab_bytes_on_[index_of(target.side)] += bytes;
    return true;
  }

  // Whether a slab of device memory leaves the index enough, if the host has `host` bytes of items.
  // To ask the device what it has left takes time, so its cap comes first.
  bool leaves_index(uint64_t bytes, uint64_t blocks, uint64_t host) const {
    if (memory_.capped() && !leaves_index(bytes, blocks, host, memory_.below_cap())) return false;
    return leaves_index(bytes, blocks, host, memory_.left());
  }
  bool leaves_index(uint64_t bytes, uint64_t blocks, uint64_t host, uint64_t left) const {
    uint64_t lists = 0;
    for (uint32_t list = 0; list < item_classes::lists; ++list) {
      blocks += arrays_[list].blocks;
      if (list < item_classes::count) lists += arrays_[list].places.bytes();
    }
    ItemMemoryUse use;
    use.device = memory_.used() + left - memory_before_items_;
    use.index = memory_.used() - memory_before_items_ - lists - slab_bytes_on_[0];
    use.host = host;
    use.block_bytes = (slab_bytes_of_all() + bytes) / blocks;
    return left >= bytes && left - bytes >= placement_.index_to_come(use);
  }

  // Places of a list whose class has so many blocks in its memory.
  uint64_t list_room(uint32_t list, uint64_t blocks) const {
    if (item_classes::is_on_host(list)) return blocks;
    return std::min(blocks, std::max(blocks / listed_share, placement_.part_rows));
  }

  // Lists fresh blocks of a class, as far as there are places; how many.
  uint64_t list_fresh(uint32_t c, MemorySide side, uint64_t listed, Stream stream) {
    const uint32_t list = list_of(c, side);
    OfList& of = arrays_[list];
    const uint64_t before = listed;
    for (Slab& slab : classes_[c].slabs) {
      if (of.fresh == 0 || listed == of.places.size()) break;
      const uint64_t fresh = slab.side == side ? slab.blocks - slab.given : 0;
      const uint64_t count = std::min(fresh, of.places.size() - listed);
      if (count == 0) continue;
      char* const first = slab.memory.data() + slab.given * item_classes::bytes_of(c);
      add_blocks(list, first, listed, count, stream);
      slab.given += count;
      of.fresh -= count;
      listed += count;
    }
    return listed - before;
  }

  // Lists unlisted blocks of a class, as far as there are places; of how many it has then. Waits.
  uint64_t gather(uint32_t c, MemorySide side, Stream stream) {
    constexpr uint32_t threads = 256;
    const uint32_t list = list_of(c, side);
    for (const Slab& slab : classes_[c].slabs) {
      if (slab.side != side || slab.given == 0) continue;
      const GatherBlocksKernel kernel{lists_.data(), list, slab.memory.data(), slab.given};
      require_device(
          device_.launch(stream, grid_for(device_, slab.given, threads), threads, kernel),
          "gather free blocks");
    }
    uint64_t listed = 0;
    require_device(device_.to_host(stream, &listed, &lists_.data()->free[list], sizeof listed) &&
                       device_.synchronize(stream),
                   "count free blocks");
    return std::min(listed, arrays_[list].places.size());
  }

  // Gives back what a list has beyond need, where that is much and a smaller one can be had. It has
  // at most `listed` blocks.
  void shorten_list(uint32_t list, uint64_t listed, Stream stream) {
    OfList& of = arrays_[list];
    if (of.blocks == 0) {
      of.places = {};  // nobody looks at it
      return;
    }
    const uint64_t room = std::max(list_room(list, of.blocks), std::min(listed, of.blocks));
    if (room < of.places.size() / 2) move_list(list, room, std::min(listed, room), stream);
  }

  // To an array with so many places; false without memory for it. The list has `listed` blocks at
  // most.
  bool move_list(uint32_t list, uint64_t size, uint64_t listed, Stream stream) {
    const bool on_host = list >= item_classes::count;
    OfList& of = arrays_[list];
    DeviceArray<Device, uint64_t> places(on_host ? host_ : memory_, size);
    if (places.empty()) return false;
    if (listed != 0 && on_host) {
      require_device(device_.synchronize(stream), "wait for a list of items");
      std::copy_n(of.places.data(), listed, places.data());
    } else if (listed != 0) {
      require_device(
          device_.copy(stream, places.data(), of.places.data(), listed * sizeof(uint64_t)),
          "copy a list of items");
    }
    std::swap(places, of.places);
    add_blocks(list, nullptr, listed, 0, stream);  // the old array is not in use any more
    return true;
  }

  // Appends blocks to a list, and makes its array known. Waits.
  void add_blocks(uint32_t list, char* begin, uint64_t listed, uint64_t count, Stream stream) {
    constexpr uint32_t threads = 256;
    const DeviceArray<Device, uint64_t>& places = arrays_[list].places;
    const AddBlocksKernel kernel{lists_.data(), list,   places.data(), places.size(),
                                 begin,         listed, count};
    const uint32_t grid = std::max(grid_for(device_, count, threads), 1u);
    require_device(device_.launch(stream, grid, threads, kernel) && device_.synchronize(stream),
                   "add blocks for items");
  }

  // Of the blocks of a class in device memory, how many its list has room for.
  static constexpr uint64_t listed_share = 16;
  static constexpr uint64_t least_slab_bytes = 4096;

  DeviceMemory<Device>& memory_;
  Device& device_;
  DeviceMemory<Device> host_;
  const ItemPlacement placement_;
  const uint64_t slab_bytes_;
  uint64_t memory_before_items_ = 0;  // of the device, in use when the first block was wanted
  std::array<uint64_t, 2> slab_bytes_on_{};  // by side
  uint64_t used_ = 0;                        // of all classes
  Walk sweeping_;
  std::array<Walk, 2> idle_;  // by side
  std::array<OfClass, item_classes::count> classes_;
  std::array<OfList, item_classes::lists> arrays_;
  DeviceArray<Device, ItemLists> lists_;
};

}  // namespace isotherm
