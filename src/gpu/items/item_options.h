// Makes the options of a DeviceItemStore from those of a gpu::ItemTable.
//
// Errors. std::invalid_argument for a cap that is too small.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "base/seed.h"
#include "gpu/items/device_item_store.h"
#include "isotherm/gpu/item_table.h"

namespace isotherm {

// Under a cap the work space takes a quarter at most.
inline DeviceItemOptions device_item_options(const gpu::ItemTableOptions& options) {
  constexpr uint64_t least = uint64_t{256} << 20;
  constexpr uint64_t ample = uint64_t{4} << 30;
  if (options.gpu_memory != 0 && options.gpu_memory < least) {
    throw std::invalid_argument("gpu_memory of a table of items must be 256 MiB or more");
  }
  DeviceItemOptions checked;
  for (uint64_t cap = options.gpu_memory; cap != 0 && cap < ample; cap *= 2) {
    checked.part_rows /= 2;
    checked.slab_bytes /= 2;
    checked.key_room /= 2;
    checked.value_room /= 2;
    checked.reply_room /= 2;
  }
  // More than any host has, and sums with it do not overflow.
  checked.host_memory = std::min(options.pinned_item_memory, uint64_t{1} << 60);
  checked.host_items_from = options.pinned_items_from;
  checked.evicts = options.evict;
  checked.index.gpu_memory = options.gpu_memory;
  checked.index.seed = options.hash_seed ? *options.hash_seed : draw_seed();
  checked.index.max_part_rows = checked.part_rows;
  return checked;
}

}  // namespace isotherm
