// ItemSteps: the index of a table of device items and the room for them, and the steps in which a
// part of a call is worked off on them; read gpu/items/item_part.h first.
//
// Steps are queued on a stream. change() waits on the host once, for the counts that say how many
// blocks puts need, whether hashes are exact and whether items have expired; more often where some
// have, or memory is short (gpu/items/item_room.h). Threads. One at a time; the caller orders
// parts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "gpu/items/item_find_kernels.h"
#include "gpu/items/item_hash.h"
#include "gpu/items/item_reply_kernels.h"
#include "gpu/items/item_room.h"
#include "gpu/items/item_walk.h"
#include "gpu/items/item_workspace.h"
#include "gpu/items/item_write_kernels.h"
#include "gpu/kernel/table_view.h"
#include "gpu/table/fixed_device_table.h"
#include "isotherm/gpu/common.h"

namespace isotherm {

// What kernels of others need to look items up.
struct ItemLookup {
  TableView index;  // hashes to the first items of chains
  ItemHash hash;
  bool evicts = false;  // so they mark what they read
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
        parts_(options.parts_before),
        index_(memory, index_options(options)),
        room_(memory, options, index_, stream) {
    if (options.part_rows > most_item_rows) throw std::invalid_argument("parts of too many rows");
    index_.reserve_workspace(options.part_rows);
  }

  void reserve(uint64_t entries) { index_.reserve(entries); }

  // Queues what work(lookup) launches on the stream for so many rows, which only reads.
  template <class Work>
  void read(uint64_t rows, Stream stream, Work&& work) {
    index_.read(rows, stream, [&](const TableView& index) {
      work(ItemLookup{index, hash_, evicts_});
    });
  }

  // A step of a walk over all items; waits for it.
  uint64_t walk(ItemWalk<Device>& walk, uint64_t bound, uint64_t wanted, Stream stream,
                std::vector<WalkedItem>& to) {
    return walk.run(index_, bound, wanted, stream, to);
  }

  uint64_t count(const KeyChoice& keys, int64_t now, Stream stream) {
    return room_.count(keys, now, stream);
  }

  // Walks show the key before they come to a bound behind this.
  uint64_t place_of(std::string_view key) const { return mix(hash_.of_host(key), hash_.seed); }

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
    part.number = ++parts_;
    prepare(part, workspace, true, stream);
    launch(stream, part.rows, HashItemsKernel{part});
    launch(stream, part.rows, MarkItemsKernel{part});
    look_up(part, part.first, part.first_found, stream);
    launch(stream, part.rows, CompareItemsKernel{part});
    launch(stream, part.rows, CountItemsKernel{part});
    room_.sweep(part, workspace, stream);
    workspace.ask_counts(part, stream);
    require_device(device_.synchronize(stream), "wait for the counts of a part");
    const uint64_t exact_hashes = workspace.report().exact_hashes;
    const bool reads_first = exact_hashes != 0 || part.ops != nullptr || is_conditional(part.op);
    if (room_.make(part, workspace, stream) && reads_first) {
      look_up(part, part.first, part.first_found, stream);
    }
    write(part, stream);
    if (exact_hashes != 0) work_exactly(part, workspace, exact_hashes, stream);
    launch(stream, part.rows, AnswerItemsKernel<true>{part});
    sum(part, carry, stream);
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
  gpu::ItemStats stats(ItemLists* lists, Stream stream) {
    gpu::ItemStats stats{index_.stats()};
    require_device(
        device_.to_host(stream, lists, room_.lists(), sizeof *lists) && device_.synchronize(stream),
        "count items");
    stats.entries = static_cast<uint64_t>(lists->items);
    stats.evicted = lists->evicted;
    stats.expired = lists->expired;
    stats.host_bytes = room_.host_bytes();
    const auto host_items = room_.host_items(*lists);
    stats.host_entries = host_items.count;
    stats.host_item_bytes = host_items.bytes;
    return stats;
  }

 private:
  static constexpr uint32_t threads = 256;
  // Beside the item itself, which every hit reads, a longer chain costs little.
  static constexpr double index_load = 1.0;

  static FixedDeviceOptions index_options(const DeviceItemOptions& options) {
    FixedDeviceOptions index = options.index;
    index.lowest_load = index_load;
    return index;
  }

  void prepare(ItemPart& part, const Workspace& workspace, bool writes, Stream stream) {
    part.hash = hash_;
    part.lists = room_.lists();
    part.evicts = evicts_;
    part.host_from = room_.host_from();
    workspace.lay_out(part, writes, stream);
  }

  void look_up(const ItemPart& part, uint64_t* items, uint8_t* found, Stream stream) {
    TableRequests requests;
    requests.rows = part.rows;
    requests.keys = part.hashes;
    requests.values_out = items;
    requests.found = found;
    index_.run(requests, stream);
  }

  void write(const ItemPart& part, Stream stream) {
    launch(stream, part.rows, WriteItemsKernel{part});
    require_device(device_.launch(stream, 1, SettleTakesKernel::threads, SettleTakesKernel{part}),
                   "settle what puts took");
    if (part.values.offsets != nullptr) copy_all(part, PutJob{}, stream);
    TableRequests requests;
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
    const uint32_t blocks =
        std::min(part.rows / ExactKernel::rows_per_block + 1, ExactKernel::most_blocks);
    require_device(device_.launch(stream, blocks, ExactKernel::threads, ExactKernel{part, chains}),
                   "work off exact hashes");
    TableRequests requests;
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
    launch_on_items(device_, stream, rows, kernel);
  }

  Device& device_;
  const ItemHash hash_;
  const bool evicts_;
  uint64_t parts_;  // that could write, so far
  FixedDeviceTable<Device> index_;
  ItemRoom<Device> room_;
};

}  // namespace isotherm
