// ItemSteps: the index and the blocks of a table of device items, and the steps in which a part of
// a call is worked off on them; read device/gpu/item_part.h first.
//
// Steps are queued on a stream. change() waits on the host once, for the counts that say how many
// blocks puts need and whether hashes are shared. Threads. One at a time; the caller orders parts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/gpu/device_item_memory.h"
#include "device/gpu/fixed_device_table.h"
#include "device/gpu/item_find_kernels.h"
#include "device/gpu/item_reply_kernels.h"
#include "device/gpu/item_workspace.h"
#include "device/gpu/item_write_kernels.h"

namespace isotherm {

struct DeviceItemOptions {
  FixedDeviceOptions index;        // its cap is for all
  uint32_t part_rows = 1 << 19;    // 2^20 at most
  uint64_t slab_bytes = 64 << 20;  // of the largest slab that is made ahead of need
  // Of host arrays: device memory for a part's keys, values and replies.
  uint64_t key_room = 16 << 20;
  uint64_t value_room = 64 << 20;
  uint64_t reply_room = 64 << 20;
  bool evicts = false;  // where memory ends
  // The bits of hashes that count; tests make keys collide with few.
  uint64_t hash_mask = ~uint64_t{0};
};

template <class Device>
class ItemSteps {
 public:
  using Stream = typename Device::Stream;
  using Workspace = ItemWorkspace<Device>;

  // Throws std::bad_alloc, DeviceError.
  ItemSteps(DeviceMemory<Device>& memory, const DeviceItemOptions& options, Stream stream)
      : device_(memory.device()),
        hash_{options.index.seed, options.hash_mask},
        evicts_(options.evicts),
        index_(memory, options.index),
        items_(memory, options.slab_bytes, stream) {
    index_.reserve_workspace(options.part_rows);
  }

  // Of a part of gets: what each row finds, and the sums of lengths. `carry`: see SumItemsKernel.
  void find(ItemPart& part, const Workspace& workspace, uint64_t* carry, Stream stream) {
    prepare(part, workspace, false, stream);
    launch(stream, part.rows, HashItemsKernel{part});
    look_up(part, part.before, part.before_found, stream);
    launch(stream, part.rows, AnswerItemsKernel<false>{part});
    sum(part, carry, stream);
  }

  // Of a part with writes: the same, and the changes. Blocks of old items are in use until
  // release().
  void change(ItemPart& part, const Workspace& workspace, uint64_t* carry, Stream stream) {
    prepare(part, workspace, true, stream);
    launch(stream, part.rows, HashItemsKernel{part});
    launch(stream, part.rows, MarkItemsKernel{part});
    look_up(part, part.first, part.first_found, stream);
    launch(stream, part.rows, CompareItemsKernel{part});
    ask_counts(part, workspace, stream);
    require_device(device_.synchronize(stream), "wait for the counts of a part");
    const ItemReport report = workspace.report();
    if (make_room(part, workspace, report, stream)) {
      look_up(part, part.first, part.first_found, stream);
    }
    write(part, stream);
    if (report.shared_hashes != 0) work_exactly(part, workspace, report.shared_hashes, stream);
    launch(stream, part.rows, AnswerItemsKernel<true>{part});
    sum(part, carry, stream);
  }

  // The workspace's report; it is there when the stream has come past.
  void ask_counts(const ItemPart& part, const Workspace& workspace, Stream stream) {
    require_device(device_.launch(stream, 1, ReportItemsKernel::threads,
                                  ReportItemsKernel{part, workspace.report_memory()}),
                   "ask for the counts of a part");
  }

  // The offsets of the reply, which begins at `base`, or where the counts say.
  void place(const ItemPart& part, uint64_t base, Stream stream) {
    launch(stream, part.rows, OffsetsKernel{part, base});
  }
  // The values of the reply.
  void copy(const ItemPart& part, const ReplyJob& job, Stream stream) {
    copy_all(part, job, stream);
  }

  void release(const ItemPart& part, Stream stream) {
    launch(stream, part.rows, FreeItemsKernel{part});
  }

  // Waits for all that was queued; `lists` is pinned memory.
  DeviceItemStats stats(ItemLists* lists, Stream stream) {
    DeviceItemStats stats{index_.stats(), 0};
    require_device(device_.to_host(stream, lists, items_.lists(), sizeof *lists) &&
                       device_.synchronize(stream),
                   "count items");
    stats.entries = static_cast<uint64_t>(lists->items);
    stats.evicted = lists->evicted;
    return stats;
  }

 private:
  static constexpr uint32_t threads = 256;

  void prepare(ItemPart& part, const Workspace& workspace, bool writes, Stream stream) {
    part.hash = hash_;
    part.lists = items_.lists();
    part.evicts = evicts_;
    workspace.lay_out(part, writes, stream);
  }

  void look_up(const ItemPart& part, uint64_t* items, uint8_t* found, Stream stream) {
    DeviceRequests requests;
    requests.rows = part.rows;
    requests.keys = part.hashes;
    requests.values_out = items;
    requests.found = found;
    index_.run(requests, stream);
  }

  // Blocks for the part's puts; whether items were evicted for them.
  bool make_room(const ItemPart& part, const Workspace& workspace, const ItemReport& report,
                 Stream stream) {
    // Puts that the index had no place for, whatever their class, give way by the fullest class.
    const uint64_t no_place = std::min<uint64_t>(report.no_place, part.rows);
    uint64_t missing[item_classes::count];
    for (uint32_t c = 0; c < item_classes::count; ++c) {
      const uint64_t need = report.need[c];
      missing[c] = need - std::min(items_.reserve(c, need, report.free[c], stream), need);
    }
    if (!evicts_) return false;
    if (no_place != 0) {
      uint64_t& fullest = missing[items_.fullest()];
      fullest = std::max(fullest, no_place);
      uint64_t* count = &items_.lists()->no_place;
      require_device(device_.clear(stream, count, sizeof *count), "clear a count");
    }
    bool evicted = false;
    for (uint32_t c = 0; c < item_classes::count; ++c) {
      if (missing[c] != 0) evicted |= evict(c, missing[c], part, workspace, stream);
    }
    return evicted;
  }

  // Evicts so many items of a class, or fewer.
  bool evict(uint32_t c, uint64_t wanted, const ItemPart& part, const Workspace& workspace,
             Stream stream) {
    EvictedItems evicted = workspace.evicted(part);
    evicted.wanted = wanted;
    evicted.wanted = std::min(choose(c, evicted, part, workspace, stream), wanted);
    if (evicted.wanted == 0) return false;
    const auto rows = static_cast<uint32_t>(evicted.wanted);
    launch(stream, rows, HashEvictedKernel{evicted, hash_});
    DeviceRequests requests;
    requests.rows = rows;
    requests.keys = evicted.hashes;
    requests.values_out = evicted.first;
    requests.found = evicted.found;
    index_.run(requests, stream);
    launch(stream, rows, JudgeEvictedKernel{evicted});
    requests.ops = evicted.ops;
    index_.run(requests, stream);
    launch(stream, rows, FreeEvictedKernel{evicted, items_.lists()});
    return true;
  }

  // Of how many items the hand chose; it goes round twice at most.
  uint64_t choose(uint32_t c, const EvictedItems& evicted, const ItemPart& part,
                  const Workspace& workspace, Stream stream) {
    constexpr uint64_t least = 256;  // blocks that are worth a launch
    require_device(device_.clear(stream, evicted.count, sizeof *evicted.count), "clear a count");
    uint64_t chosen = 0;
    for (uint64_t left = items_.blocks(c) * 2; left != 0 && chosen < evicted.wanted;) {
      const uint64_t most = std::min(left, std::max(evicted.wanted - chosen, least));
      const auto blocks = items_.next_blocks(c, most);
      launch(stream, static_cast<uint32_t>(blocks.count),
             ChooseItemsKernel{evicted, blocks.first, blocks.count, item_classes::bytes_of(c)});
      ask_counts(part, workspace, stream);
      require_device(device_.synchronize(stream), "wait for items to evict");
      chosen = workspace.report().chosen;
      left -= blocks.count;
    }
    return chosen;
  }

  void write(const ItemPart& part, Stream stream) {
    launch(stream, part.rows, WriteItemsKernel{part});
    require_device(device_.launch(stream, 1, SettleTakesKernel::threads, SettleTakesKernel{part}),
                   "settle what puts took");
    if (part.values.offsets != nullptr) copy_all(part, PutJob{}, stream);
    DeviceRequests requests;
    requests.rows = part.rows;
    requests.ops = part.index_ops;
    requests.keys = part.hashes;
    requests.values = part.fresh;
    requests.values_out = part.before;
    requests.found = part.before_found;
    index_.run(requests, stream);
  }

  void work_exactly(const ItemPart& part, const Workspace& workspace, uint64_t hashes,
                    Stream stream) {
    const ExactChains chains = workspace.chains(hashes, stream);
    require_device(device_.launch(stream, 1, ExactKernel::threads, ExactKernel{part, chains}),
                   "work off shared hashes");
    DeviceRequests requests;
    requests.rows = hashes;
    requests.ops = chains.ops;
    requests.keys = chains.hashes;
    requests.values = chains.first;
    requests.values_out = chains.replies;
    requests.found = chains.found;
    index_.run(requests, stream);
    launch(stream, part.rows, RefuseExactKernel{part, chains});
  }

  void sum(const ItemPart& part, uint64_t* carry, Stream stream) {
    if (part.offsets == nullptr) return;
    require_device(device_.launch(stream, 1, SumItemsKernel::threads, SumItemsKernel{part, carry}),
                   "sum up the lengths of a reply");
  }

  template <class Job>
  void copy_all(const ItemPart& part, const Job& job, Stream stream) {
    uint32_t* count = &part.counts->long_copies;
    require_device(device_.clear(stream, count, sizeof *count), "clear a count");
    launch(stream, part.rows, CopyItemsKernel<Job>{part, job});
    require_device(
        device_.launch(stream, device_.full_grid(), threads, CopyLongItemsKernel<Job>{part, job}),
        "copy long values");
  }

  template <class Kernel>
  void launch(Stream stream, uint32_t rows, const Kernel& kernel) {
    require_device(device_.launch(stream, grid_for(device_, rows, threads), threads, kernel),
                   "launch a kernel of items");
  }

  Device& device_;
  const ItemHash hash_;
  const bool evicts_;
  FixedDeviceTable<Device> index_;
  DeviceItemMemory<Device> items_;
};

}  // namespace isotherm
