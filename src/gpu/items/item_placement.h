// ItemPlacement: in which memory a slab for device items is made.
//
// Slabs lie in device memory as long as it has room, and then in pinned memory of the host, which
// kernels reach by the same pointers; those of large blocks, as the table is told, in host memory
// first. The index is in device memory whatever happens. If slabs took all of that, host memory
// would be left and nothing to find its items by. So where the table may take host memory, a slab
// is made on the device only if what is left then is enough for the index of all items that both
// memories can hold, at the size that blocks have on average. When the host has no more to give,
// that is what it has given.
//
// Of n items in blocks of b bytes, with their places in lists of free blocks:
//   n × (b + list entry + index entry) = device memory for items and index + host memory
// and the index of no more than fit the device. The index makes room for all rows of a part before
// it knows which are new, takes overflow lines for them, and splits segments while it still has the
// old ones: all of that is added.
//
// Threads. Any. Limits. The average is that of today: where large items come first and small ones
// later, or small ones go to a host that is meant for large ones, the index may end before the
// host's memory does. Sources. This project's own.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/items/item_classes.h"

namespace isotherm {

// What memory there is for items and their index.
struct ItemMemoryUse {
  uint64_t device = 0;       // bytes that both have there, or can get
  uint64_t index = 0;        // bytes that the index has of them
  uint64_t host = 0;         // bytes that items have there, or can get
  uint64_t block_bytes = 0;  // of a block on average
};

struct ItemPlacement {
  uint64_t host_memory = 0;  // bytes; 0: none
  // The size class from which on items go to host memory first.
  uint32_t host_from = item_classes::count;
  uint64_t part_rows = 0;
  uint64_t segment_bytes = 0;  // of the index

  // `host_items_from`: bytes of a block; 0: never.
  static uint32_t class_from(uint64_t host_items_from) {
    if (host_items_from == 0) return item_classes::count;
    const uint64_t most = item_classes::bytes_of(item_classes::count - 1);
    return host_items_from > most ? item_classes::count : item_classes::class_of(host_items_from);
  }

  // Bytes of device memory that the index is going to take beside what it has.
  uint64_t index_to_come(const ItemMemoryUse& use) const {
    // Where the host is for large items, the others do not fill it.
    const bool apart = host_from < item_classes::count;
    const uint64_t of_host =
        apart ? std::max<uint64_t>(use.block_bytes, item_classes::bytes_of(host_from))
              : use.block_bytes;
    const uint64_t most = use.device / index_entry_bytes;
    const uint64_t items = std::min(
        use.device / bytes_of_item(use.block_bytes) + use.host / bytes_of_item(of_host), most);
    const uint64_t whole = items * index_entry_bytes +
                           std::max(part_rows * part_row_bytes, least_ahead) +
                           segment_bytes * segments_ahead;
    return whole - std::min(whole, use.index);
  }

 private:
  static uint64_t bytes_of_item(uint64_t block_bytes) {
    return block_bytes + list_entry_bytes + index_entry_bytes;
  }

  static constexpr uint64_t list_entry_bytes = sizeof(uint64_t);
  static constexpr uint64_t index_entry_bytes = 29;
  // An entry, and two overflow lines for six rows and two for eight (gpu/table/table_room.h).
  static constexpr uint64_t part_row_bytes = index_entry_bytes + 2 * 128 / 6 + 2 * 128 / 8 + 1;
  static constexpr uint64_t least_ahead = 2 * 1024 * 128;  // two lots of overflow lines
  static constexpr uint64_t segments_ahead = 4;
};

}  // namespace isotherm
