// ItemPart: one part of a call to a table of device items, and the memory it is worked off in, as
// kernels see it.
//
// How a part is answered as if its requests ran one by one. The index (a FixedDeviceTable) maps
// hashes to the locations of items, and answers mixed batches in arrival order by itself, each
// request with the location before it. So:
//   hash     hashes of keys; rows that cannot be taken are marked
//   (a part of gets alone: index → answer → reply)
//   mark     writers enter their hash into the writer table
//   index    the first item of each hash, before the part
//   compare  where rows of one hash have different keys, or the index has an item of another key,
//            the hash is marked as exact, and so is one with several writers where any has a
//            condition
//   count    the blocks that puts need; the host waits for the counts
//   room     expired items are freed, slabs of blocks added or taken from other classes, and where
//            the table is told to items evicted (gpu/items/item_room.h); if items left and first
//            items are needed, the index is asked again
//   write    the condition of a writer that is alone with its key is decided by the first item;
//            each put takes a block, of device memory or of host memory (ItemPlacement), and writes
//            its item; without a block it is answered reply_retry
//   index    all rows but those of exact hashes: gets, puts of the new locations, erases
//   exact    rows of exact hashes, those of one hash one by one in arrival order, then their new
//            chains' first items into the index (gpu/items/item_exact_kernels.h)
//   answer   each row has the location of its key's item before it: replies and lengths
//   reply    lengths are summed up, values copied (gpu/items/item_reply_kernels.h)
//   free     the blocks of items that were replaced or erased
// A get behind a put of its part finds the put's new item, which is there already; an old item
// lives until all replies are copied.
//
// Sizes. Parts are at most 2^19 rows, whose numbers fit a version. Sources. The order of
// answers: H-Rocks, section 5; the way to it is this project's.
#pragma once

#include <cstdint>

#include "gpu/batch/writer_table.h"
#include "gpu/items/device_item.h"
#include "gpu/items/item_hash.h"
#include "gpu/items/item_lists.h"
#include "isotherm/gpu/item_table.h"

namespace isotherm {

// Counts of a part; all zero when it begins.
struct ItemCounts {
  uint64_t need[item_classes::count];   // blocks
  uint64_t taken[item_classes::count];  // numbers that were drawn for them
  uint64_t exact_hashes;
  uint64_t begun;    // of them, chains
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
  FreeBlocks free;
  uint64_t exact_hashes;
  uint64_t refused;
  uint64_t total;
  uint64_t no_place;
  uint64_t chosen;
};

// What the part does to the hash of a slot of its writer table.
namespace writer_state {
inline constexpr uint32_t several = 1u << 31;      // writers
inline constexpr uint32_t conditional = 1u << 30;  // one of them, at least
inline constexpr uint32_t exact = 1u << 29;
inline constexpr uint32_t begun = 1u << 28;
inline constexpr uint32_t chain = begun - 1;  // its number among those that were begun
}  // namespace writer_state

ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool puts_item(TableOp op) {
  return op == TableOp::put || op == TableOp::put_if_absent || op == TableOp::put_if_present ||
         op == TableOp::put_if_version;
}
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool names_version(TableOp op) {
  return op == TableOp::put_if_version || op == TableOp::erase_if_version;
}
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool erases_item(TableOp op) {
  return op == TableOp::erase || op == TableOp::erase_if_version;
}
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_conditional(TableOp op) {
  return op == TableOp::put_if_absent || op == TableOp::put_if_present || names_version(op);
}
// Of items; compare_and_swap and add are for integers.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_item_op(TableOp op) {
  return op == TableOp::get || puts_item(op) || erases_item(op);
}

struct ItemPart {
  uint32_t rows = 0;
  const TableOp* ops = nullptr;  // null: all are `op`
  TableOp op = TableOp::get;
  BytesView keys;
  BytesView values;
  const int64_t* expiry = nullptr;
  const uint32_t* flags = nullptr;
  const uint64_t* expected = nullptr;  // versions
  int64_t now = 0;
  uint64_t number = 0;         // among the parts that may write
  bool previous = false;       // writers reply the value before them
  bool evicts = false;         // so gets mark what they read
  uint32_t host_from = 0;      // the size class from which on blocks of the host are taken first
  uint8_t* found = nullptr;    // of the caller, or null
  int64_t* offsets = nullptr;  // rows + 1, or null
  // Columns of the reply, or null; they may be those of the requests.
  uint64_t* versions = nullptr;
  uint64_t* new_versions = nullptr;
  int64_t* expiry_out = nullptr;
  uint32_t* flags_out = nullptr;

  ItemHash hash;
  ItemLists* lists = nullptr;
  ItemCounts* counts = nullptr;
  WriterTable writers;
  uint32_t* states = nullptr;  // per slot of `writers`: its writer_state
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
  TableOp* index_ops = nullptr;     // put or erase where the row takes effect, else get
  uint8_t* first_found = nullptr;
  uint8_t* before_found = nullptr;
  uint8_t* verdict =
      nullptr;  // 0, reply_retry or gpu::reply_refused: settled before the index is asked

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE TableOp op_of(uint32_t row) const {
    return ops != nullptr ? ops[row] : op;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE KeyView key(uint32_t row) const {
    return KeyView::of(keys, row);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t state(uint32_t row) const {
    return slots[row] != WriterTable::none ? states[slots[row]] : 0;
  }
  // Whether the row is worked off by ExactKernel.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_exact(uint32_t row) const {
    return (state(row) & writer_state::exact) != 0;
  }
  // Of a writer that takes effect.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t version(uint32_t row) const {
    const bool several = (state(row) & writer_state::several) != 0;
    return number << item_head::row_bits | (several ? row : 0);
  }
  // Of the item that a put makes.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE ItemShape shape(uint32_t row) const {
    return {static_cast<uint32_t>(keys.size(row)),
            static_cast<uint32_t>(values.size(row)),
            version(row),
            expiry != nullptr ? expiry[row] : 0,
            flags != nullptr ? flags[row] : 0,
            is_exact(row)};
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_live(const ItemHead& item) const {
    return now == 0 || !item.expired(now);
  }
  // What the row does where its key has `item`, or none: put, erase or get.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE TableOp decide(uint32_t row, bool present,
                                                      const ItemHead& item) const {
    const TableOp of = op_of(row);
    const bool lives = present && is_live(item);
    bool holds = true;
    if (of == TableOp::put_if_absent) holds = !lives;
    if (of == TableOp::put_if_present) holds = lives;
    if (names_version(of)) holds = lives && item.version() == expected[row];
    if (!holds) return TableOp::get;
    if (puts_item(of)) return TableOp::put;
    return erases_item(of) ? TableOp::erase : TableOp::get;
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
      for (const uint32_t list : {c, c + item_classes::count}) {
        report->free.listed[list] = part.lists->listed(list);
        report->free.unlisted[list] = part.lists->unlisted[list];
      }
    }
    if (c != 0) return;
    report->exact_hashes = part.counts->exact_hashes;
    report->refused = part.counts->refused;
    report->total = part.counts->total;
    report->chosen = part.counts->chosen;
    report->no_place = part.lists->no_place;
  }
};

// The rows of a warp's lanes, in rounds of whole warps: work(row, mine), `mine` false behind the
// end. Each has 2^spread lanes, of which the first has `mine`: where rows are few, a warp with
// fewer of them is done with them sooner.
template <class Lane, class Work>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void warp_rows(const Lane& lane, uint32_t rows,
                                                    uint32_t spread, Work&& work) {
  const uint32_t number = lane.thread() & 31;
  const uint64_t stride = uint64_t{lane.blocks()} * lane.threads() >> spread;
  const uint64_t thread = uint64_t{lane.block()} * lane.threads() + lane.thread();
  const bool leads = (number & ((1u << spread) - 1)) == 0;
  for (uint64_t first = (thread - number) >> spread; first < rows; first += stride) {
    const auto row = static_cast<uint32_t>(first + (number >> spread));
    work(row, leads && row < rows);
  }
}
template <class Lane, class Work>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void warp_rows(const Lane& lane, uint32_t rows, Work&& work) {
  warp_rows(lane, rows, 0, work);
}
// For a kernel that has the GPU to itself: no wider than a few warps for each of its processors.
ISOTHERM_INLINE constexpr uint32_t spread_of(uint32_t rows) {
  constexpr uint64_t most_lanes = 8192;
  constexpr uint32_t most = 3;
  uint32_t spread = 0;
  while (spread < most && (uint64_t{rows} << (spread + 1)) <= most_lanes) ++spread;
  return spread;
}

}  // namespace isotherm
