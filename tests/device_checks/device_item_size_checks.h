// Checks of what memory items of a table of device items take, and of lists of free blocks that
// have not room for all of them, for any device; see tests/device_checks/device_table_checks.h.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>

#include "device_checks/device_item_checks.h"

namespace isotherm {

// Items of 16 + 64 bytes take at most 115 bytes each of device memory in all, but the work space.
// What a doubling of their number adds is looked at, as the index breathes within one.
template <class Device>
uint64_t check_item_bytes(Device& device, uint64_t scale) {
  constexpr uint64_t most = 115;
  constexpr uint64_t overflow_lines_at_once = 1024 * 128;  // bytes
  const uint64_t items = std::clamp<uint64_t>(scale * 40, 20'000, 1'000'000);
  DeviceItemOptions options = small_items(71, 2048);
  options.index.line_bits = 4;
  options.slab_bytes = 16 << 10;
  ModelledItems<Device> table(device, options);
  uint64_t next = 0;
  const auto put_until = [&](uint64_t count) {
    while (next < count) {
      ItemBatch batch = numbered_puts(next, std::min<uint64_t>(count - next, 8192), 64);
      next += batch.size();
      for (ItemRequest& request : batch) request.key += "_16 bytes";
      table.run_uniform(TableOp::put, batch, true, false);
    }
    return table.stats().bytes;
  };
  const uint64_t half = put_until(items);
  const uint64_t bytes = put_until(items * 2) - half;
  const double each = static_cast<double>(bytes) / static_cast<double>(items);
  std::printf("  %.1f bytes an item of 16 + 64\n", each);
  if (bytes > items * most + overflow_lines_at_once) table.fail("items take too much");
  table.check_all();
  return table.wrong() + table.refused();
}

// Far more items are erased than the lists of free blocks have room for; what is not listed is used
// again, for items of its size and of others, and no more memory is taken for it.
template <class Device>
uint64_t check_unlisted_blocks(Device& device, uint64_t scale) {
  uint64_t wrong = 0;
  for (const bool evicts : {false, true}) {
    const uint64_t rows = std::min<uint64_t>(scale / 8, 256);
    const uint64_t count = rows * 32;  // a list has room for two parts
    DeviceItemOptions options = small_items(73, rows);
    options.evicts = evicts;
    options = capped_items(device, options, count * 170);
    ModelledItems<Device> table(device, options);
    table.run_host(numbered_puts(0, count, 72));
    const uint64_t bytes = table.stats().bytes;
    table.run(of_keys(TableOp::erase, numbered_puts(rows, count - rows, 0)));
    if (table.stats().entries != rows) table.fail("items are left");
    for (uint64_t round = 1; round < 3; ++round) {
      table.run_host(numbered_puts(count * round, count - rows, 72));
      if (table.stats().bytes > bytes + bytes / 8) table.fail("memory is not used again");
      table.run(of_keys(TableOp::erase, numbered_puts(count * round, count - rows, 0)));
    }
    if (table.refused() != 0) table.fail("puts were refused");
    // Blocks of another size take whole slabs, unlisted blocks and all; some parts may look at
    // slabs in vain.
    table.run_host(numbered_puts(count * 4, count / 4, 200));
    if (table.refused() > count / 32) table.fail("slabs were not taken");
    table.check_caps(options);
    table.check_all();
    wrong += table.wrong();
  }
  return wrong;
}

template <class Device>
constexpr DeviceItemCheck<Device> device_item_size_checks[] = {
    {"item bytes", check_item_bytes<Device>},
    {"unlisted blocks", check_unlisted_blocks<Device>},
};

}  // namespace isotherm
