// Checks of a table of device items that may take host memory as well, for any device; see
// tests/device_checks/device_table_checks.h.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "device_checks/device_item_checks.h"
#include "isotherm/gpu/common.h"

namespace isotherm {

// Bytes of a block of an item of `numbered_puts`.
inline uint64_t numbered_block(uint64_t value_bytes) {
  const auto key_bytes = static_cast<uint32_t>(std::to_string(1'000'000).size());
  const ItemShape shape{key_bytes, static_cast<uint32_t>(value_bytes)};
  return item_classes::bytes_of(item_classes::class_of(shape.bytes()));
}

// Three times what the device has room for: nothing is refused, and both memories have items.
template <class Device>
uint64_t check_items_beyond_device(Device& device, uint64_t scale) {
  constexpr uint64_t value_bytes = 200;
  const uint64_t rows = std::min<uint64_t>(scale / 8, 4096);
  const uint64_t fit = rows * 24;
  const uint64_t bytes = fit * numbered_block(value_bytes);
  const DeviceItemOptions options = capped_items(device, small_items(41, rows), bytes, bytes * 3);
  ModelledItems<Device> table(device, options);
  for (uint64_t next = 0; next < fit * 3; next += rows) {
    table.run_from(next % (rows * 2) == 0, numbered_puts(next, rows, value_bytes));
  }
  const gpu::ItemStats full = table.stats();
  if (full.entries != fit * 3) table.fail("items are missing");
  // The index of all takes a third of it.
  if (full.host_entries > fit * 3 - fit / 3) table.fail("the device has next to nothing");
  if (full.host_entries < fit * 2) table.fail("more on the device than it has room for");
  if (full.host_bytes < full.host_entries * numbered_block(value_bytes))
    table.fail("too few bytes");
  table.check_all();
  // What leaves is the next to be used, that of the device first.
  table.run(of_keys(TableOp::erase, numbered_puts(0, fit * 3, 0)));
  if (table.stats().host_entries != 0) table.fail("items are left on the host");
  table.run(numbered_puts(0, rows / 4, value_bytes));
  const gpu::ItemStats again = table.stats();
  if (again.host_entries != 0) table.fail("blocks of the host were taken first");
  if (again.host_bytes != full.host_bytes) table.fail("memory of the host changed");
  table.check_caps(options);
  table.check_all();
  return table.wrong() + table.refused();
}

// All operations and sizes where the device has room for few of them, and with hashes that are
// shared; nothing is refused.
template <class Device>
uint64_t check_histories_beyond_device(Device& device, uint64_t scale) {
  uint64_t wrong = 0;
  for (const uint64_t mask : {~uint64_t{0}, uint64_t{0x3ff} << 54}) {
    const uint64_t rows = std::min<uint64_t>(scale / 4, mask == ~uint64_t{0} ? 4096 : 256);
    ItemSource source(43, 40, 4000);
    DeviceItemOptions options = small_items(45, rows);
    options.hash_mask = mask;
    options = capped_items(device, options, rows * 1500, rows * 20'000);
    ModelledItems<Device> table(device, options);
    const std::vector<std::string> keys = source.keys(rows * 4);
    for (int round = 0; round < 12; ++round) {
      table.run_from(round % 3 == 0, source.mixed(keys, rows * 2, round % 2 == 0 ? 0.7 : 0.2));
    }
    const gpu::ItemStats stats = table.stats();
    if (stats.host_entries == 0 || stats.host_entries == stats.entries)
      table.fail("one memory only");
    table.check_caps(options);
    table.check_all();
    wrong += table.wrong() + table.refused();
  }
  return wrong;
}

// Where both memories have ended old items make room: new ones are there at first.
template <class Device>
uint64_t check_eviction_from_both(Device& device, uint64_t scale) {
  constexpr uint64_t value_bytes = 100;
  const uint64_t rows = std::clamp<uint64_t>(scale / 8, 256, 2048);
  const uint64_t fit = rows * 6;
  const uint64_t bytes = fit * numbered_block(value_bytes);
  DeviceItemOptions options = small_items(47, rows);
  options.evicts = true;
  options = capped_items(device, options, bytes, bytes);
  ModelledItems<Device> table(device, options);
  constexpr uint64_t rounds = 30;
  for (uint64_t round = 0; round < rounds; ++round) {
    const ItemBatch puts = numbered_puts(round * rows, rows, value_bytes);
    table.run_from(round % 2 == 0, puts);
    table.run(of_keys(TableOp::get, puts));
  }
  if (table.hits() < rows * rounds * 15 / 16) table.fail("new items are gone");
  const gpu::ItemStats stats = table.stats();
  if (stats.evicted == 0) table.fail("nothing was evicted");
  if (stats.entries < fit * 3 / 2) table.fail("too few items are left");
  if (stats.host_entries < fit * 3 / 4) table.fail("too few items lie on the host");
  table.check_caps(options);
  table.check_all();
  return table.wrong();
}

template <class Device>
uint64_t check_unread_on_both(Device& device, uint64_t scale) {
  const uint64_t rows = std::clamp<uint64_t>(scale / 4, 256, 4096);
  return evict_unread(device, rows, rows * 6 * 160, rows * 4 * 160);
}

template <class Device>
uint64_t check_evicting_histories_on_both(Device& device, uint64_t scale) {
  return evict_under_histories(device, scale, {53, 16, 3000, 300, 600});
}

template <class Device>
uint64_t check_changing_sizes_on_both(Device& device, uint64_t scale) {
  const uint64_t rows = std::clamp<uint64_t>(scale / 8, 128, 1024);
  return change_sizes(device, rows, rows * 2000, rows * 1500);
}

template <class Device>
uint64_t check_erased_sizes_on_both(Device& device, uint64_t scale) {
  const uint64_t rows = std::clamp<uint64_t>(scale / 8, 128, 1024);
  return erase_sizes(device, rows, rows * 8000, rows * 6000);
}

// Items on the host expire as others do, whether they came there by size or because the device had
// no room.
template <class Device>
uint64_t check_expired_on_host(Device& device, uint64_t scale) {
  const uint64_t rows = std::min<uint64_t>(scale / 8, 1024);
  DeviceItemOptions options = small_items(31, rows);
  const uint64_t crowded =
      sweep_expired(device, capped_items(device, options, rows * 1500, rows * 20'000));
  options.host_memory = rows * 20'000;
  options.host_items_from = 1;
  return crowded + sweep_expired(device, options);
}

// Items of one size and more lie on the host until it is full, then on the device.
template <class Device>
uint64_t check_placement_by_size(Device& device, uint64_t scale) {
  const uint64_t rows = std::min<uint64_t>(scale / 8, 1024);
  DeviceItemOptions options = small_items(49, rows);
  options.host_memory = rows * 4000;
  options.host_items_from = numbered_block(900);
  ModelledItems<Device> table(device, options);
  uint64_t next = 0;
  const auto put = [&](uint64_t value_bytes) {
    table.run_from(next % (rows * 2) == 0, numbered_puts(next, rows, value_bytes));
    next += rows;
  };
  put(40);
  put(900);
  put(700);
  put(1500);
  if (table.stats().host_entries != rows * 2) table.fail("not the large ones are on the host");
  // They change sides with their size.
  table.run(numbered_puts(rows, rows / 2, 30));
  if (table.stats().host_entries != rows * 3 / 2) table.fail("small ones are left on the host");
  for (int round = 0; round < 4; ++round) put(900);
  const gpu::ItemStats stats = table.stats();
  if (stats.host_bytes < options.host_memory * 3 / 4) table.fail("the host is not full");
  if (stats.host_entries >= rows * 4) table.fail("more on the host than it has room for");
  table.check_all();
  return table.wrong() + table.refused();
}

// Small items, whose index takes the most of the device: slabs leave it enough, so both memories
// are full before a put is refused.
template <class Device>
uint64_t check_index_beside_host(Device& device, uint64_t scale) {
  constexpr uint64_t value_bytes = 48;
  const uint64_t rows = std::min<uint64_t>(scale / 4, 2048);
  const uint64_t bytes = rows * 30 * numbered_block(value_bytes);
  const DeviceItemOptions options =
      capped_items(device, small_items(51, rows), bytes, bytes * 3 / 2);
  ModelledItems<Device> table(device, options);
  for (uint64_t next = 0; next < rows * 100 && table.refused() == 0; next += rows) {
    table.run_from(next % (rows * 2) == 0, numbered_puts(next, rows, value_bytes));
  }
  const gpu::ItemStats stats = table.stats();
  if (table.refused() == 0) table.fail("no put was refused");
  if (stats.host_bytes < options.host_memory * 9 / 10) table.fail("the host was not full");
  if (stats.host_entries < (stats.host_bytes * 8 / 10) / numbered_block(value_bytes)) {
    table.fail("blocks of the host were free");
  }
  if (stats.host_entries == stats.entries) table.fail("nothing lies on the device");
  const uint64_t left = options.index.gpu_memory - stats.bytes - stats.workspace;
  if (left > first_index_bytes + bytes / 8) table.fail("the device was not full");
  table.check_caps(options);
  table.check_all();
  return table.wrong();
}

// Small items until many are refused, in a table that had large ones, which are erased, and in one
// that had none; the memory of the large ones is there for the index.
template <class Device>
uint64_t check_index_after_large(Device& device, uint64_t scale) {
  constexpr uint64_t rows = 256;
  constexpr uint64_t large = 4000;
  const uint64_t bytes = std::min<uint64_t>(scale, 1024) * 1000;
  uint64_t entries[2] = {};
  uint64_t wrong = 0;
  for (const bool had_large : {false, true}) {
    const DeviceItemOptions options = capped_items(device, small_items(53, rows), bytes, bytes * 3);
    ModelledItems<Device> table(device, options);
    uint64_t next = 0;
    for (; had_large && next < scale / 8 && next < 150; next += 50) {
      table.run(numbered_puts(next, 50, large));
    }
    if (had_large) table.run(of_keys(TableOp::erase, numbered_puts(0, next, 0)));
    for (int part = 0; part < 400 && table.refused() < rows * 4; ++part, next += rows) {
      table.run(numbered_puts(next, rows, 8));
    }
    if (table.refused() < rows) table.fail("no put was refused");
    entries[had_large ? 1 : 0] = table.stats().entries;
    if (had_large && entries[1] < entries[0] * 3 / 4) table.fail("the index was left without room");
    table.check_caps(options);
    wrong += table.wrong();
  }
  return wrong;
}

// A walk shows keys of all lengths, wherever their items lie.
template <class Device>
uint64_t check_walk_over_both(Device& device, uint64_t /*scale*/) {
  constexpr uint64_t large = 1000;
  DeviceItemOptions options = small_items(67, 64);
  options.host_memory = 1 << 20;
  options.host_items_from = large;
  ModelledItems<Device> table(device, options);
  ItemBatch puts;
  for (uint64_t i = 0; i < 50; ++i) {
    puts.push_back({TableOp::put, std::string(i * 6, 'k'), std::string(i % 2 * large, 'v'), 0});
  }
  table.run(puts);
  const gpu::ItemStats stats = table.stats();
  if (stats.host_entries == 0 || stats.host_entries == stats.entries) table.fail("one memory only");
  std::map<std::string, uint64_t> seen;
  uint64_t cursor = 0;
  do {
    std::vector<WalkedItem> items;
    cursor = table.store().walk(cursor, 10, items);
    for (const WalkedItem& item : items) seen[item.key] = item.value_bytes;
  } while (cursor != 0);
  std::map<std::string, uint64_t> there;
  for (const ItemRequest& put : puts) there[put.key] = put.value.size();
  if (seen != there) table.fail("a walk showed other items");
  return table.wrong();
}

template <class Device>
constexpr DeviceItemCheck<Device> device_item_host_checks[] = {
    {"items beyond device", check_items_beyond_device<Device>},
    {"histories beyond device", check_histories_beyond_device<Device>},
    {"eviction from both", check_eviction_from_both<Device>},
    {"unread on both", check_unread_on_both<Device>},
    {"evicting histories on both", check_evicting_histories_on_both<Device>},
    {"changing sizes on both", check_changing_sizes_on_both<Device>},
    {"erased sizes on both", check_erased_sizes_on_both<Device>},
    {"expired on host", check_expired_on_host<Device>},
    {"placement by size", check_placement_by_size<Device>},
    {"index beside host", check_index_beside_host<Device>},
    {"index after large", check_index_after_large<Device>},
    {"walk over both", check_walk_over_both<Device>},
};

}  // namespace isotherm
