// ItemRoom: the blocks that a part's puts need, and where they come from.
//
// Before the host waits for a part's counts, some blocks are looked at for items that have expired,
// in proportion to the part's rows and going round all slabs. What is found is freed first. Then a
// class that has too few free blocks gets, in this order:
//   new slabs       as long as there is memory, of the device or, where the table may take some, of
//                   the host (gpu/items/item_placement.h)
//   others' slabs   one that is wholly free; or, where the table evicts, one of the class that has
//                   the most memory for what was put into it lately, whose items are evicted. Its
//                   memory is given back, and a new slab made. So classes share memory in
//                   proportion to what is put into them, and items of all sizes live as long.
//   own items       where the table evicts: CLOCK
// The index gets the device memory of slabs that are wholly free where it had no place for a put.
// Where it has no overflow lines left for those of the part, and the table evicts, items leave
// until its chains can do without enough. What is missing after that is not stored in this part. A
// slab stays with its class if one of its items hangs in a chain (gpu/items/item_evict_kernels.h).
//
// Bounds of a part: blocks looked at for expired items; for each class, slabs looked at in vain,
// and slabs taken until it has what it needs. Threads. One at a time, within a part with writes;
// make() follows sweep() when the host has waited for the part's counts.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>

#include "gpu/items/device_item_memory.h"
#include "gpu/items/item_workspace.h"
#include "gpu/table/fixed_device_table.h"

namespace isotherm {

struct DeviceItemOptions {
  FixedDeviceOptions index;        // its cap is for all
  uint32_t part_rows = 1 << 19;    // most_item_rows at most
  uint64_t slab_bytes = 64 << 20;  // of the largest slab that is made ahead of need
  uint64_t host_memory = 0;        // bytes of the host that items may take; 0: none
  uint64_t host_items_from = 0;    // bytes of a block from which on it lies there; 0: never
  // Of host arrays: device memory for a part's keys, values and replies.
  uint64_t key_room = 16 << 20;
  uint64_t value_room = 64 << 20;
  uint64_t reply_room = 64 << 20;
  bool evicts = false;  // where memory ends
  // Parts whose numbers are taken: versions are higher than those that they gave.
  uint64_t parts_before = 0;
  // The bits of hashes that count; tests make keys collide with few.
  uint64_t hash_mask = ~uint64_t{0};
};

template <class Device>
class ItemRoom {
 public:
  using Stream = typename Device::Stream;
  using Workspace = ItemWorkspace<Device>;

  // `index` must outlive the room. Throws std::bad_alloc, DeviceError.
  ItemRoom(DeviceMemory<Device>& memory, const DeviceItemOptions& options,
           FixedDeviceTable<Device>& index, Stream stream)
      : device_(memory.device()),
        hash_{options.index.seed, options.hash_mask},
        evicts_(options.evicts),
        index_(index),
        items_(memory, placement_of(options), options.slab_bytes, stream) {}

  ItemLists* lists() const { return items_.lists(); }
  uint32_t host_from() const { return items_.placement().host_from; }
  uint64_t host_bytes() const { return items_.host_bytes(); }
  auto host_items(const ItemLists& lists) const { return items_.host_items(lists); }

  // How many items have keys of the choice, expired ones left out; looks at the head of every
  // block, and waits for that. Beside no writes.
  uint64_t count(const KeyChoice& keys_of, int64_t now, Stream stream) {
    uint64_t* const counted = &items_.lists()->counted;
    require_device(device_.clear(stream, counted, sizeof *counted), "clear a count");
    EvictedItems none;
    none.count = counted;
    items_.each_slab([&](const Blocks& blocks) {
      look(none, blocks, CountedItems{keys_of, now}, stream);
    });
    uint64_t keys = 0;
    require_device(
        device_.to_host(stream, &keys, counted, sizeof keys) && device_.synchronize(stream),
        "count items");
    return keys;
  }

  // Chooses items that have expired; the part's counts say how many.
  void sweep(const ItemPart& part, const Workspace& workspace, Stream stream) {
    expires_ |= part.expiry != nullptr;
    if (!sweeps(part)) return;
    const EvictedItems expired = places(part, workspace);
    uint64_t left = std::max(part.rows * looks_per_row, least_looks);
    for (uint32_t launches = 0; left != 0 && launches < most_sweeps; ++launches) {
      const Blocks blocks = items_.next_of_all(left);
      if (blocks.count == 0) return;
      look(expired, blocks, ExpiredItems{part.now}, stream);
      left -= blocks.count;
    }
  }

  // Blocks for the part's puts, as many as can be had; whether items left the index for them.
  bool make(const ItemPart& part, const Workspace& workspace, Stream stream) {
    bool changed = free_expired(part, workspace, stream);
    items_.note_use(workspace.report().need);
    give_to_index(part, workspace, stream);
    uint64_t missing[item_classes::count];
    if (reserve(workspace, missing, stream)) {
      Taken taken;
      for (uint32_t c = 0; c < item_classes::count; ++c) {
        if (missing[c] != 0) take_slabs(c, taken, part, workspace, stream);
      }
      changed |= taken.items;
      if (taken.slabs) {
        wait_for_counts(part, workspace, stream);
        reserve(workspace, missing, stream);
      }
    }
    if (!evicts_) return changed;
    make_places(missing, part, workspace, stream);
    for (uint32_t c = 0; c < item_classes::count; ++c) {
      if (missing[c] != 0) changed |= evict(c, missing[c], part, workspace, stream);
    }
    return make_lines(part, workspace, changed, stream) || changed;
  }

 private:
  using Memory = DeviceItemMemory<Device>;
  using Blocks = typename Memory::Blocks;
  using SlabNumber = typename Memory::SlabNumber;

  // So at most a third more memory than live items need waits for the sweep.
  static constexpr uint64_t looks_per_row = 4;
  static constexpr uint64_t least_looks = 256;  // blocks that are worth a launch
  static constexpr uint32_t most_sweeps = 8;    // launches
  // Of items that leave so that chains need fewer lines: a fourth of the part's rows at a time.
  static constexpr uint32_t most_evictions = 8;
  static constexpr uint64_t least_evicted = 64;
  // Slabs, of each kind and memory, for a class, and for the index.
  static constexpr uint32_t most_in_vain = 2;
  static constexpr uint32_t most_taken = 64;

  // What was taken for a part.
  struct Taken {
    bool slabs = false;
    bool items = false;  // out of the index
  };

  static ItemPlacement placement_of(const DeviceItemOptions& options) {
    ItemPlacement placement;
    placement.host_memory = options.host_memory;
    if (options.host_memory != 0) {
      placement.host_from = ItemPlacement::class_from(options.host_items_from);
    }
    placement.part_rows = options.part_rows;
    placement.segment_bytes = sizeof(Bucket) << options.index.line_bits;
    return placement;
  }

  bool sweeps(const ItemPart& part) const { return expires_ && part.now != 0; }

  EvictedItems places(const ItemPart& part, const Workspace& workspace) const {
    EvictedItems evicted = workspace.evicted(part);
    evicted.wanted = workspace.rows();
    return evicted;
  }

  bool free_expired(const ItemPart& part, const Workspace& workspace, Stream stream) {
    const uint64_t chosen = sweeps(part) ? workspace.report().chosen : 0;
    if (chosen == 0) return false;
    forget(places(part, workspace), chosen, &items_.lists()->expired, stream);
    wait_for_counts(part, workspace, stream);
    return true;
  }

  // Where the index had no place for puts: device memory of slabs that are wholly free.
  void give_to_index(const ItemPart& part, const Workspace& workspace, Stream stream) {
    if (workspace.report().no_place == 0) return;
    uint32_t given = 0;
    while (given < most_taken) {
      const auto place = items_.next_idle(MemorySide::device, spare(workspace.report()));
      if (!place || !take(*place, false, part, workspace, stream)) break;
      ++given;
    }
    if (given == 0) return;
    clear_no_place(stream);
    wait_for_counts(part, workspace, stream);
  }

  // By new slabs; fills in what is missing then, and whether anything is. The report is of now.
  bool reserve(const Workspace& workspace, uint64_t* missing, Stream stream) {
    const ItemReport report = workspace.report();
    bool any = false;
    for (uint32_t c = 0; c < item_classes::count; ++c) {
      const uint64_t need = report.need[c];
      missing[c] = need - std::min(items_.reserve(c, need, report.free, stream), need);
      any |= missing[c] != 0;
    }
    return any;
  }

  // Makes slabs of others into slabs of class `c`, which has too few blocks.
  void take_slabs(uint32_t c, Taken& taken, const ItemPart& part, const Workspace& workspace,
                  Stream stream) {
    const auto sides = items_.sides(c);
    for (const MemorySide side : sides) {
      const auto next = [&] { return items_.next_idle(side, spare(workspace.report())); };
      if (take_some(c, next, false, taken, part, workspace, stream)) return;
    }
    if (!evicts_) return;
    for (const MemorySide side : sides) {
      const auto next = [&] { return items_.next_victim(side, c); };
      if (take_some(c, next, true, taken, part, workspace, stream)) return;
    }
  }

  // Whether the class has what it needs then.
  template <class Next>
  bool take_some(uint32_t c, Next&& next, bool evicts, Taken& taken, const ItemPart& part,
                 const Workspace& workspace, Stream stream) {
    // New slabs are made of several that were taken: else memory would crumble to smaller and
    // smaller ones.
    const uint64_t worth = items_.worth_a_slab(c, missing(c, workspace.report()));
    uint64_t given_back = 0;
    uint32_t in_vain = 0;
    for (uint32_t i = 0; i < most_taken && in_vain < most_in_vain; ++i) {
      const std::optional<SlabNumber> place = next();
      if (!place) break;
      taken.items |= evicts;
      const uint64_t bytes = items_.bytes_of(*place);
      if (!take(*place, evicts, part, workspace, stream)) {
        ++in_vain;
        continue;
      }
      taken.slabs = true;
      given_back += bytes;
      if (given_back < worth) continue;
      if (make_slab(c, workspace, stream)) return true;
      given_back = 0;
    }
    return given_back != 0 && make_slab(c, workspace, stream);
  }

  uint64_t free_of(uint32_t c, const ItemReport& report) const {
    return items_.free_of(c, report.free) +
           items_.free_of(item_classes::list_of(c, true), report.free);
  }
  uint64_t missing(uint32_t c, const ItemReport& report) const {
    return report.need[c] - std::min(free_of(c, report), report.need[c]);
  }

  // Whether the class has what it needs then.
  bool make_slab(uint32_t c, const Workspace& workspace, Stream stream) {
    const ItemReport& report = workspace.report();
    return items_.reserve(c, report.need[c], report.free, stream) >= report.need[c];
  }

  // Free blocks of each list that the part does not need itself, or a little more.
  std::array<uint64_t, item_classes::lists> spare(const ItemReport& report) const {
    std::array<uint64_t, item_classes::lists> spare;
    for (uint32_t list = 0; list < item_classes::lists; ++list) {
      const uint32_t c = item_classes::class_of_list(list);
      const uint64_t free = free_of(c, report);
      spare[list] =
          std::min(items_.free_of(list, report.free), free - std::min(free, report.need[c]));
    }
    return spare;
  }

  // Gives a slab's memory back, if it is wholly free or can be emptied. The report is of just
  // before the slab left its class.
  bool take(SlabNumber place, bool evicts, const ItemPart& part, const Workspace& workspace,
            Stream stream) {
    const EvictedItems evicted = places(part, workspace);
    for (uint64_t before = ~uint64_t{0};;) {
      const uint64_t live = count_live(place, part, workspace, stream);
      if (live == 0) break;
      if (!evicts || live == before) return false;
      before = live;
      clear_chosen(evicted, stream);
      look(evicted, items_.blocks_of(place), AllItems{}, stream);
      forget(evicted, live, &items_.lists()->evicted, stream);
    }
    items_.drop(place, workspace.report().free, stream);
    wait_for_counts(part, workspace, stream);  // its blocks are not free any more
    return true;
  }

  // Chooses none: what is chosen has to leave.
  uint64_t count_live(SlabNumber place, const ItemPart& part, const Workspace& workspace,
                      Stream stream) {
    EvictedItems none = places(part, workspace);
    none.wanted = 0;
    clear_chosen(none, stream);
    look(none, items_.blocks_of(place), AllItems{}, stream);
    wait_for_counts(part, workspace, stream);
    return workspace.report().chosen;
  }

  // Puts that the index had no place for, whatever their class, give way by the fullest class.
  void make_places(uint64_t* missing, const ItemPart& part, const Workspace& workspace,
                   Stream stream) {
    const uint64_t no_place = std::min<uint64_t>(workspace.report().no_place, part.rows);
    if (no_place == 0) return;
    uint64_t& fullest = missing[items_.fullest()];
    fullest = std::max(fullest, no_place);
    clear_no_place(stream);
  }
  // Overflow lines for the part's puts; whether items left the index for them.
  bool make_lines(const ItemPart& part, const Workspace& workspace, bool emptied, Stream stream) {
    const ItemReport& report = workspace.report();
    const uint64_t puts = std::min<uint64_t>(
        std::accumulate(std::begin(report.need), std::end(report.need), uint64_t{0}), part.rows);
    if (puts == 0) return false;
    const uint64_t wanted = std::min(std::max(puts / 4, least_evicted), workspace.rows());
    bool changed = false;
    for (uint32_t i = 0; i < most_evictions; ++i) {
      if (index_.has_lines(puts, emptied || changed, stream)) break;
      if (!evict(items_.fullest(), wanted, part, workspace, stream)) break;
      changed = true;
    }
    return changed;
  }
  void clear_no_place(Stream stream) {
    uint64_t* count = &items_.lists()->no_place;
    require_device(device_.clear(stream, count, sizeof *count), "clear a count");
  }

  // Evicts so many items of a class, or fewer; the hand goes round it twice at most.
  bool evict(uint32_t c, uint64_t wanted, const ItemPart& part, const Workspace& workspace,
             Stream stream) {
    EvictedItems evicted = places(part, workspace);
    evicted.wanted = wanted;
    clear_chosen(evicted, stream);
    uint64_t chosen = 0;
    for (uint64_t left = items_.blocks(c) * 2; left != 0 && chosen < wanted;) {
      const uint64_t most = std::min(left, std::max(wanted - chosen, least_looks));
      const Blocks blocks = items_.next_blocks(c, most);
      look(evicted, blocks, UnreadItems{}, stream);
      wait_for_counts(part, workspace, stream);
      chosen = workspace.report().chosen;
      left -= blocks.count;
    }
    if (chosen == 0) return false;
    forget(evicted, chosen, &items_.lists()->evicted, stream);
    return true;
  }

  template <class Choice>
  void look(const EvictedItems& evicted, const Blocks& blocks, const Choice& choice,
            Stream stream) {
    const ChooseItemsKernel<Choice> kernel{evicted, blocks.first, blocks.count,
                                           item_classes::bytes_of(blocks.size_class), choice};
    launch_on_items(device_, stream, blocks.count, kernel);
  }

  // Takes `count` items that were chosen out of the index, and frees their blocks.
  void forget(EvictedItems evicted, uint64_t count, uint64_t* freed_ever, Stream stream) {
    evicted.wanted = std::min(count, evicted.wanted);
    launch_on_items(device_, stream, evicted.wanted, HashEvictedKernel{evicted, hash_});
    TableRequests requests;
    requests.rows = evicted.wanted;
    requests.keys = evicted.hashes;
    requests.values_out = evicted.first;
    requests.found = evicted.found;
    index_.run(requests, stream);
    launch_on_items(device_, stream, evicted.wanted, JudgeEvictedKernel{evicted});
    requests.ops = evicted.ops;
    index_.run(requests, stream);
    launch_on_items(device_, stream, evicted.wanted,
                    FreeEvictedKernel{evicted, items_.lists(), freed_ever});
  }

  void clear_chosen(const EvictedItems& evicted, Stream stream) {
    require_device(device_.clear(stream, evicted.count, sizeof *evicted.count), "clear a count");
  }

  void wait_for_counts(const ItemPart& part, const Workspace& workspace, Stream stream) {
    workspace.ask_counts(part, stream);
    require_device(device_.synchronize(stream), "wait for the counts of a part");
  }

  Device& device_;
  const ItemHash hash_;
  const bool evicts_;
  bool expires_ = false;  // some put had a column of expiry
  FixedDeviceTable<Device>& index_;
  DeviceItemMemory<Device> items_;
};

}  // namespace isotherm
