// Checks of a row table on a device against a model, for any device; see
// tests/device_checks/device_table_checks.h.
#pragma once

#include <algorithm>
#include <span>
#include <unordered_map>
#include <vector>

#include "device_checks/device_row_filter_checks.h"
#include "device_checks/device_row_host_checks.h"
#include "device_checks/device_row_score_checks.h"
#include "device_checks/modelled_rows.h"
#include "isotherm/gpu/common.h"

namespace isotherm {

// Puts, with keys several times in a batch, erases and gets, for rows of many sizes.
template <class Device>
uint64_t check_rows(std::span<Device* const> devices, uint64_t scale) {
  uint64_t wrong = 0;
  for (const uint32_t row_bytes : {16u, 48u, 512u, 1040u, 65536u}) {
    const uint64_t rows = std::max<uint64_t>(scale * 64 / (64 + row_bytes), 64);
    DeviceRequestSource source(row_bytes);
    ModelledRows<Device> table(
        devices, {row_bytes, uint64_t{row_bytes} * 128, {0, 3, 6, static_cast<uint32_t>(rows)}});
    std::vector<uint64_t> keys = source.keys(rows);
    for (uint64_t i = 0; i < rows / 4; ++i) keys.push_back(keys[i]);
    for (int round = 0; round < 4; ++round) {
      std::shuffle(keys.begin(), keys.end(), source.random());
      const std::vector<uint64_t> some(keys.begin(), keys.begin() + keys.size() * 3 / 4);
      table.put(some, round % 2 == 0);
      table.get(keys);
      table.erase({keys.begin(), keys.begin() + keys.size() / 3});
      table.get(keys);
    }
    table.check_all();
    wrong += table.wrong() + table.refused();
  }
  return wrong;
}

// Rows that are read, or inserted where keys are absent, with keys several times in a batch.
template <class Device>
uint64_t check_rows_get_or_insert(std::span<Device* const> devices, uint64_t scale) {
  uint64_t wrong = 0;
  for (const uint32_t row_bytes : {16u, 528u}) {
    const uint64_t rows = std::max<uint64_t>(scale * 64 / (64 + row_bytes), 64);
    DeviceRequestSource source(row_bytes);
    ModelledRows<Device> table(
        devices, {row_bytes, uint64_t{row_bytes} * 128, {0, 3, 6, static_cast<uint32_t>(rows)}});
    std::vector<uint64_t> keys = source.keys(rows);
    for (uint64_t i = 0; i < rows / 2; ++i) keys.push_back(keys[i]);
    for (int round = 0; round < 4; ++round) {
      std::shuffle(keys.begin(), keys.end(), source.random());
      table.get_or_insert({keys.begin(), keys.begin() + keys.size() / 2});
      table.put({keys.begin(), keys.begin() + keys.size() / 4}, true);
      table.get_or_insert(keys);
      table.erase({keys.begin(), keys.begin() + keys.size() / 3});
    }
    table.check_all();
    wrong += table.wrong() + table.refused();
  }
  return wrong;
}

// Sums of floats in rows, of keys that come several times in a call; absent keys stay absent.
template <class Device>
uint64_t check_rows_accumulate(std::span<Device* const> devices, uint64_t scale) {
  constexpr uint64_t floats = 20;
  Device& device = *devices[0];
  SplitRowStore<Device> store(
      devices, {floats * sizeof(float), 64 << 10, {0, 3, 6, static_cast<uint32_t>(scale / 2)}});
  require_device(device.enter(), "choose the GPU");
  DeviceMemory<Device> memory(device, 0);
  const DeviceStream<Device> stream(device);
  DeviceRequestSource source(13);
  const std::vector<uint64_t> known = source.keys(scale / 8);
  std::vector<uint64_t> keys(scale);
  for (uint64_t& key : keys) key = known[source.random()() % known.size()];
  keys[scale / 2] = source.random()();  // absent
  std::vector<float> deltas(scale * floats);
  std::unordered_map<uint64_t, std::vector<float>> sums;
  for (const uint64_t key : known) sums[key].assign(floats, 0);
  for (uint64_t i = 0; i < scale; ++i) {
    for (uint64_t f = 0; f < floats; ++f) {
      deltas[i * floats + f] = static_cast<float>(source.random()() % 64);  // sums are exact
      if (i != scale / 2) sums[keys[i]][f] += deltas[i * floats + f];
    }
  }
  const auto upload = [&](const auto& from) {
    return upload_to(device, memory, stream.get(), from);
  };
  const auto of_known = upload(known), of_keys = upload(keys);
  const auto of_deltas = upload(deltas);
  const auto found = upload(std::vector<uint8_t>(scale, 9));
  const auto rows = upload(std::vector<float>(known.size() * floats));
  auto* units = reinterpret_cast<Pair*>(rows.data());
  const auto run = [&](const gpu::RowRequests& call) { store.run(call, stream.get()); };
  run({gpu::RowOp::put, known.size(), of_known.data(), units, nullptr});
  run({gpu::RowOp::accumulate, scale, of_keys.data(), of_deltas.data(), found.data()});
  run({gpu::RowOp::accumulate, scale, of_keys.data(), of_deltas.data(), nullptr});
  std::vector<uint8_t> replies(scale);
  std::vector<float> got(known.size() * floats);
  bool copied = device.to_host(stream.get(), replies.data(), found.data(), scale);
  run({gpu::RowOp::get, known.size(), of_known.data(), units, found.data()});
  copied = copied && device.to_host(stream.get(), got.data(), rows.data(), rows.bytes());
  require_device(copied && device.synchronize(stream.get()), "copy");
  uint64_t wrong = store.stats().entries == known.size() ? 0 : 1;
  for (uint64_t i = 0; i < scale; ++i) wrong += replies[i] != (i == scale / 2 ? 0 : 1);
  for (uint64_t i = 0; i < got.size(); ++i) {
    wrong += got[i] != 2 * sums.at(known[i / floats])[i % floats];
  }
  return wrong;
}

// Memory ends: new keys are refused, present ones still take their new rows.
template <class Device>
uint64_t check_rows_without_memory(std::span<Device* const> devices, uint64_t scale) {
  DeviceRequestSource source(9);
  const auto rows = static_cast<uint32_t>(std::min<uint64_t>(scale, 4096));
  DeviceRowOptions options{256, 256 * 64, {0, 5, 6, rows}};
  {
    ModelledRows<Device> empty(devices, options);
    empty.put(source.keys(rows), true);
    const gpu::TableStats stats = empty.stats();
    options.index.gpu_memory = (stats.bytes + stats.workspace) / devices.size() + rows * 256;
  }
  ModelledRows<Device> table(devices, options);
  std::vector<uint64_t> all;
  for (int round = 0, last = 100; round < last; ++round) {
    if (table.refused() != 0 && last == 100) last = round + 2;
    const std::vector<uint64_t> keys = source.keys(rows);
    all.insert(all.end(), keys.begin(), keys.end());
    round % 2 == 0 ? table.put(keys, true) : table.get_or_insert(keys);
    table.get(all);
  }
  if (table.refused() == 0) table.fail("no key was refused");
  table.put(all, true);
  table.check_all();
  return table.wrong();
}

// Far more new keys in a call than a cap has room for: rows leave memory for the index and for what
// parts work in, so most of what there would be room for is stored.
template <class Device>
uint64_t check_rows_beside_their_index(Device& device, uint64_t scale) {
  DeviceRequestSource source(17);
  const uint64_t rows = std::min<uint64_t>(scale * 2, 4096);
  uint64_t wrong = 0;
  for (const bool puts : {true, false}) {
    DeviceRowOptions options{256, 256 * 64, {0, 5, 3, static_cast<uint32_t>(rows * 2)}};
    {
      ModelledRows<Device> empty(device, options);
      empty.put(source.keys(rows), true);
      const gpu::TableStats stats = empty.stats();
      options.index.gpu_memory = stats.bytes + stats.workspace;
    }
    ModelledRows<Device> table(device, options);
    const std::vector<uint64_t> keys = source.keys(rows * 2);
    puts ? table.put(keys, true) : table.get_or_insert(keys);
    table.check_all();
    if (table.refused() == 0) table.fail("no key was refused");
    if (table.stats().entries < rows * 3 / 4) table.fail("the index found no room");
    wrong += table.wrong();
  }
  return wrong;
}

// Rows end in the middle of a call in which absent keys come several times: every row that there is
// gets a key, and all puts of keys that have a row are stored.
template <class Device>
uint64_t check_rows_end_among_duplicates(Device& device, uint64_t) {
  constexpr uint32_t slab = 64 * 4096;
  DeviceRequestSource source(29);
  uint64_t wrong = 0;
  for (const bool puts : {true, false}) {
    DeviceRowOptions options{4096, slab, {0, 5, 4, 512}};
    {
      ModelledRows<Device> empty(device, options);
      empty.put(source.keys(1), true);
      const gpu::TableStats stats = empty.stats();
      options.index.gpu_memory = stats.bytes + stats.workspace + 3 * slab + slab / 2;
    }
    ModelledRows<Device> table(device, options);
    std::vector<uint64_t> keys = source.keys(400);
    keys.insert(keys.end(), keys.begin(), keys.begin() + 100);
    std::shuffle(keys.begin(), keys.end(), source.random());
    puts ? table.put(keys, true) : table.get_or_insert(keys);
    if (table.stats().entries != 256) table.fail("a row was lost");
    table.check_all();
    table.erase({keys.begin(), keys.begin() + 250});
    table.put(keys, true);
    if (table.stats().entries != 256) table.fail("a row was lost");
    table.check_all();
    wrong += table.wrong();
  }
  return wrong;
}

// Memory has no room for what parts work in: nothing is lost, and keys that are there can be put.
template <class Device>
uint64_t check_rows_without_workspace(Device& device, uint64_t scale) {
  DeviceRequestSource source(19);
  const auto rows = static_cast<uint32_t>(scale);
  DeviceRowOptions options{64, 64 * 64, {0, 5, 3, rows}};
  options.index.gpu_memory = ModelledRows<Device>(device, options).stats().bytes + 8192;
  ModelledRows<Device> table(device, options);
  const std::vector<uint64_t> keys = source.keys(rows);
  for (int round = 0; round < 2; ++round) {
    try {
      round == 0 ? table.put(keys, true) : table.get_or_insert(keys);
      table.fail("memory did not end");
    } catch (const std::bad_alloc&) {
    }
  }
  if (table.stats().bytes + table.stats().workspace > options.index.gpu_memory - 4096) {
    table.fail("rows were taken that nobody can be given");
  }
  return table.wrong();
}

// Where all keys are present nothing is taken for rows that might be absent.
template <class Device>
uint64_t check_present_rows_take_nothing(Device& device, uint64_t scale) {
  DeviceRequestSource source(23);
  ModelledRows<Device> table(device, {64, 64 * 64, {0, 7, 4, static_cast<uint32_t>(scale)}});
  const std::vector<uint64_t> keys = source.keys(scale);
  table.put(keys, true);
  const uint64_t before = table.stats().bytes;
  table.get_or_insert(keys);
  if (table.stats().bytes != before) table.fail("memory was taken for keys that are present");
  table.check_all();
  return table.wrong() + table.refused();
}

// One absent key among present ones takes no more rows than it needs.
template <class Device>
uint64_t check_an_absent_row_takes_little(Device& device, uint64_t scale) {
  DeviceRequestSource source(31);
  constexpr uint64_t slab = 64 * 64;
  ModelledRows<Device> table(device, {64, slab, {0, 7, 4, static_cast<uint32_t>(scale)}});
  std::vector<uint64_t> keys = source.keys(scale - scale % 64);  // no row is free then
  table.put(keys, true);
  const uint64_t before = table.stats().bytes;
  keys[keys.size() / 2] = source.random()();
  table.get_or_insert({keys.begin(), keys.begin() + static_cast<int64_t>(scale * 3 / 4)});
  // A slab, and longer lists of rows.
  if (table.stats().bytes - before > slab + scale * 16) table.fail("present keys took rows");
  table.check_all();
  return table.wrong() + table.refused();
}

// Keys that were expected take no more memory when they come.
template <class Device>
uint64_t check_expected_rows(Device& device, uint64_t scale) {
  DeviceRequestSource source(11);
  // Parts are a small share of what is expected, as those of real tables are.
  const auto part_rows = static_cast<uint32_t>(std::max<uint64_t>(scale / 32, 64));
  ModelledRows<Device> table(device, {64, 64 * 64, {0, 7, 4, part_rows}});
  const std::vector<uint64_t> keys = source.keys(scale);
  table.put({keys[0]}, true);
  const uint64_t empty = table.stats().bytes;
  table.reserve(scale);
  const uint64_t reserved = table.stats().bytes;
  if (reserved < empty + scale * 64) table.fail("no rows were taken ahead");
  table.put({keys.begin(), keys.begin() + static_cast<int64_t>(scale * 9 / 10)}, true);
  if (table.stats().bytes != reserved) table.fail("memory was taken for keys that were expected");
  table.put(keys, true);
  table.check_all();
  return table.wrong() + table.refused();
}

// A walk over all keys, in steps, meets each once.
template <class Device>
uint64_t check_walk_over_rows(std::span<Device* const> devices, uint64_t scale) {
  DeviceRequestSource source(37);
  ModelledRows<Device> table(devices, {64, 64 * 64, {0, 3, 6, static_cast<uint32_t>(scale)}});
  std::vector<uint64_t> keys = source.keys(scale);
  table.put(keys, true);
  std::vector<uint64_t> seen = table.walk(scale / 8);
  std::sort(keys.begin(), keys.end());
  std::sort(seen.begin(), seen.end());
  return table.wrong() + (seen == keys ? 0 : 1);
}

// A check of several devices, on one.
template <class Device, uint64_t (*check)(std::span<Device* const>, uint64_t)>
uint64_t on_one(Device& device, uint64_t scale) {
  Device* const one = &device;
  return check({&one, 1}, scale);
}

template <class Device>
struct SplitRowCheck {
  const char* name;
  uint64_t (*run)(std::span<Device* const> devices, uint64_t scale);
};
template <class Device>
constexpr SplitRowCheck<Device> split_row_checks[] = {
    {"rows", check_rows<Device>},
    {"rows without memory", check_rows_without_memory<Device>},
    {"rows get or insert", check_rows_get_or_insert<Device>},
    {"rows accumulate", check_rows_accumulate<Device>},
    {"walk over rows", check_walk_over_rows<Device>},
    {"rows of the host", check_rows_of_the_host<Device>},
    {"rows evict", check_rows_evict<Device>},
    {"rows evict for many", check_rows_evict_for_many<Device>},
    {"rows filtered", check_rows_filtered<Device>},
    {"rows behind", check_rows_behind<Device>},
    {"rows behind evict", check_rows_behind_evict<Device>},
};

template <class Device>
constexpr DeviceTableCheck<Device> device_row_checks[] = {
    {"rows", on_one<Device, check_rows<Device>>},
    {"rows without memory", on_one<Device, check_rows_without_memory<Device>>},
    {"expected rows", check_expected_rows<Device>},
    {"rows get or insert", on_one<Device, check_rows_get_or_insert<Device>>},
    {"rows accumulate", on_one<Device, check_rows_accumulate<Device>>},
    {"rows beside their index", check_rows_beside_their_index<Device>},
    {"rows end among duplicates", check_rows_end_among_duplicates<Device>},
    {"rows without workspace", check_rows_without_workspace<Device>},
    {"present rows take nothing", check_present_rows_take_nothing<Device>},
    {"an absent row takes little", check_an_absent_row_takes_little<Device>},
    {"rows of the host", on_one<Device, check_rows_of_the_host<Device>>},
    {"rows evict", on_one<Device, check_rows_evict<Device>>},
    {"rows evict for many", on_one<Device, check_rows_evict_for_many<Device>>},
    {"rows filtered", on_one<Device, check_rows_filtered<Device>>},
    {"rows behind", on_one<Device, check_rows_behind<Device>>},
    {"index of rows behind", on_one<Device, check_index_of_rows_behind<Device>>},
    {"expected rows behind", on_one<Device, check_expected_rows_behind<Device>>},
    {"sums of rows behind", on_one<Device, check_sums_of_rows_behind<Device>>},
    {"rows behind evict", on_one<Device, check_rows_behind_evict<Device>>},
};

}  // namespace isotherm
