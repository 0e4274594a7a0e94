// ItemPart: one part of a call to a table of device items, and the memory it is worked off in, as
// kernels see it.
//
// How a part is answered as if its requests ran one by one. The index (a FixedDeviceTable) maps
// hashes to the locations of items, and answers mixed batches in arrival order by itself, each
// request with the location before it. So:
//   hash     hashes of keys; rows that cannot be taken are marked
//   (a part of gets alone: index → answer → reply)
//   mark     writers enter their hash into the writer table; blocks that puts need are counted
//   index    the first item of each hash, before the part
//   compare  where rows of one hash have different keys, or the index has an item of another key,
//            the hash is marked as shared; the host waits for this count
//   room     expired items are freed, slabs of blocks added or taken from other classes, and where
//            the table is told to items evicted (gpu/items/item_room.h); if items left and hashes
//            are shared, the index is asked again
//   write    each put takes a block, of device memory or of host memory (ItemPlacement), and writes
//            its item; without a block it is answered reply_retry
//   index    all rows but those of shared hashes: gets, puts of the new locations, erases
//   exact    rows of shared hashes, one by one in arrival order, then their new chains' first items
//            into the index (gpu/items/item_exact_kernels.h; hardly ever)
//   answer   each row has the location of its key's item before it: replies and lengths
//   reply    lengths are summed up, values copied (gpu/items/item_reply_kernels.h)
//   free     the blocks of items that were replaced or erased
// A get behind a put of its part finds the put's new item, which is there already; an old item
// lives until all replies are copied.
//
// Sizes. Rows of a part are numbered in 32 bits; parts are at most 2^20 rows. Sources. The order of
// answers: H-Rocks, section 5; the way to it is this project's.
#pragma once

#include <cstdint>

#include "gpu/batch/writer_table.h"
#include "gpu/items/device_item.h"
#include "gpu/items/item_hash.h"
#include "gpu/items/item_lists.h"
#include "isotherm/device_item_table.h"

namespace isotherm {

// Counts of a part; all zero when it begins.
struct ItemCounts {
  uint64_t need[item_classes::count];   // blocks
  uint64_t taken[item_classes::count];  // numbers that were drawn for them
  uint64_t shared_hashes;
  uint64_t refused;  // rows
  uint64_t total;    // bytes of the reply
  uint64_t base;     // of the call's parts before
  uint64_t chosen;   // items that expired, or to evict
  uint32_t long_copies;
};

// What the host is told of a part, in memory of the host: a copy would wait behind the replies of
// parts before.
struct ItemReport {
  uint64_t need[item_classes::count];
  uint64_t free[item_classes::lists];
  uint64_t shared_hashes;
  uint64_t refused;
  uint64_t total;
  uint64_t no_place;
  uint64_t chosen;
};

struct ItemPart {
  uint32_t rows = 0;
  const DeviceOp* ops = nullptr;  // null: all are `op`
  DeviceOp op = DeviceOp::get;
  BytesView keys;
  BytesView values;
  const int64_t* expiry = nullptr;
  int64_t now = 0;
  bool evicts = false;         // so gets mark what they read
  uint32_t host_from = 0;      // the size class from which on blocks of the host are taken first
  uint8_t* found = nullptr;    // of the caller, or null
  int64_t* offsets = nullptr;  // rows + 1, or null

  ItemHash hash;
  ItemLists* lists = nullptr;
  ItemCounts* counts = nullptr;
  WriterTable writers;
  uint32_t* shared = nullptr;  // per slot of `writers`: 0, or its hash is shared: 1, or from 2 on
                               // its number among those that were begun
  // A word per row.
  uint64_t* hashes = nullptr;
  uint64_t* first = nullptr;        // of the chain before the part, where first_found
  uint64_t* before = nullptr;       // the key's item before the row, where before_found
  uint64_t* fresh = nullptr;        // the put's new item, or 0
  uint64_t* old = nullptr;          // the item to free after the part, or 0
  uint64_t* sums = nullptr;         // of the lengths of 32 rows each
  uint32_t* lengths = nullptr;      // of replies
  uint32_t* slots = nullptr;        // of `writers`, or WriterTable::none
  uint32_t* long_copies = nullptr;  // rows
  DeviceOp* index_ops = nullptr;
  uint8_t* first_found = nullptr;
  uint8_t* before_found = nullptr;
  uint8_t* verdict = nullptr;  // 0, reply_retry or reply_refused: settled before the index is asked

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE DeviceOp op_of(uint32_t row) const {
    return ops != nullptr ? ops[row] : op;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE KeyView key(uint32_t row) const {
    return KeyView::of(keys, row);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t item_bytes(uint32_t row) const {
    return DeviceItem::bytes(keys.size(row), values.size(row));
  }
  // Whether another key of the part, or of the index, has the row's hash, and somebody writes.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_shared(uint32_t row) const {
    return slots[row] != WriterTable::none && shared[slots[row]] != 0;
  }
};

// One block.
struct ReportItemsKernel {
  static constexpr uint32_t threads = 256;
  static_assert(threads >= item_classes::count);

  ItemPart part;
  ItemReport* report = nullptr;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint32_t c = lane.thread();
    if (c < item_classes::count) {
      report->need[c] = part.counts->need[c];
      report->free[c] = part.lists->free[c];
      report->free[c + item_classes::count] = part.lists->free[c + item_classes::count];
    }
    if (c != 0) return;
    report->shared_hashes = part.counts->shared_hashes;
    report->refused = part.counts->refused;
    report->total = part.counts->total;
    report->chosen = part.counts->chosen;
    report->no_place = part.lists->no_place;
  }
};

// The rows of a warp's lanes, in rounds of whole warps: work(row, mine), `mine` false behind the
// end.
template <class Lane, class Work>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void warp_rows(const Lane& lane, uint32_t rows, Work&& work) {
  const uint32_t number = lane.thread() & 31;
  const uint64_t stride = uint64_t{lane.blocks()} * lane.threads();
  const uint64_t begin = uint64_t{lane.block()} * lane.threads() + lane.thread() - number;
  for (uint64_t first = begin; first < rows; first += stride) {
    const auto row = static_cast<uint32_t>(first + number);
    work(row, row < rows);
  }
}

}  // namespace isotherm
