// Checks of row tables whose rows lie on the host where the device has no room for them, for any
// devices; see tests/device_checks/device_row_checks.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "device_checks/device_row_score_checks.h"
#include "device_checks/modelled_rows.h"

namespace isotherm {

// Parts of `part` requests; each device has room for some `device_rows` rows and what finds them,
// and all hosts together for `host_rows`.
template <class Device>
DeviceRowOptions rows_behind(std::span<Device* const> devices, uint32_t row_bytes, uint32_t part,
                             uint64_t device_rows, uint64_t host_rows) {
  DeviceRowOptions options{row_bytes, uint64_t{row_bytes} * 64, {0, 5, 3, part}};
  options.host_memory = row_bytes * host_rows;
  ModelledRows<Device> empty(devices, options);
  DeviceRequestSource source(3);
  empty.put(source.keys(part), true);
  const gpu::TableStats stats = empty.stats();
  constexpr uint64_t to_find = 48;
  options.index.gpu_memory =
      (stats.bytes + stats.workspace) / devices.size() + device_rows * (row_bytes + to_find);
  return options;
}

template <class Table>
void check_both_caps(Table& table, const DeviceRowOptions& options, uint64_t devices) {
  const gpu::TableStats stats = table.stats();
  if (stats.bytes + stats.workspace > options.index.gpu_memory * devices) {
    table.fail("more than the cap of the device");
  }
  if (stats.host_bytes > options.host_memory) table.fail("more than the cap of the host");
  if (stats.host_entries * options.row_bytes > stats.host_bytes) {
    table.fail("more rows on the host than it has memory for");
  }
}

// Every verb while rows go to the host, keys several times in a batch; then both memories end, new
// keys are refused, and those that are there take new rows.
template <class Device>
uint64_t check_rows_behind(std::span<Device* const> devices, uint64_t scale) {
  uint64_t wrong = 0;
  const auto part =
      static_cast<uint32_t>(std::clamp<uint64_t>(scale / devices.size() / 2, 128, 4096));
  for (const uint32_t row_bytes : {528u, 64u}) {
    if (row_bytes == 64 && devices.size() != 1) continue;
    const uint64_t host_rows = part * 2 * devices.size();
    const DeviceRowOptions options = rows_behind(devices, row_bytes, part, part, host_rows);
    ModelledRows<Device> table(devices, options);
    DeviceRequestSource source(row_bytes);
    std::vector<uint64_t> all;
    for (int round = 0; round < 60 && table.refused() == 0; ++round) {
      std::vector<uint64_t> keys = source.keys(part);
      all.insert(all.end(), keys.begin(), keys.end());
      std::shuffle(all.begin(), all.end(), source.random());
      keys.insert(keys.end(), all.begin(), all.begin() + part / 4);
      keys.insert(keys.end(), keys.begin(), keys.begin() + part / 4);
      std::shuffle(keys.begin(), keys.end(), source.random());
      round % 2 == 0 ? table.put(keys, true) : table.get_or_insert(keys);
      table.get(keys);
      const auto gone = static_cast<int64_t>(part / 8);
      table.erase({all.end() - gone, all.end()});
      all.resize(all.size() - static_cast<size_t>(gone));
      check_both_caps(table, options, devices.size());
      if (round == 0 && table.stats().host_entries > table.stats().entries / 4) {
        table.fail("rows went to the host though the device had room");
      }
    }
    const gpu::TableStats full = table.stats();
    if (table.refused() == 0) table.fail("no key was refused");
    if (full.host_bytes < options.host_memory * 7 / 10) table.fail("the host is not full");
    if (full.host_entries < full.host_bytes / row_bytes / 2) table.fail("the host has free rows");
    if (full.entries < host_rows * 7 / 10 + part / 2) table.fail("the device has free rows");
    table.put(all, true);
    table.check_all();
    std::vector<uint64_t> there = table.walk(part / 4);
    table.erase(there);
    if (table.stats().host_entries != 0) table.fail("erased rows are counted");
    table.put({there.begin(), there.begin() + static_cast<int64_t>(there.size() / 2)}, true);
    table.check_all();
    wrong += table.wrong();
  }
  return wrong;
}

// Far more host memory than the device can find rows of: rows leave the device for their index.
template <class Device>
uint64_t check_index_of_rows_behind(std::span<Device* const> devices, uint64_t scale) {
  constexpr uint32_t row_bytes = 64;
  const auto part = static_cast<uint32_t>(std::clamp<uint64_t>(scale, 256, 4096));
  const DeviceRowOptions options =
      rows_behind(devices, row_bytes, part, part * 4, uint64_t{1} << 20);
  ModelledRows<Device> table(devices, options);
  DeviceRequestSource source(43);
  const auto put = [&] { table.put(source.keys(part), true); };
  for (uint64_t i = 0; i < devices.size(); ++i) put();
  if (table.stats().host_entries != 0) table.fail("rows went to the host before they had to");
  for (int round = 0; round < 60 && table.refused() == 0; ++round) put();
  const gpu::TableStats stats = table.stats();
  if (table.refused() == 0) table.fail("no key was refused");
  // Of rows on the device there would be room for four parts.
  if (stats.entries < part * 7 * devices.size()) table.fail("the index found no room");
  if (stats.host_entries < stats.entries * 3 / 4) table.fail("rows stayed in the index's way");
  check_both_caps(table, options, devices.size());
  table.check_all();
  return table.wrong();
}

// Rows that were expected: those of the device are used before those of the host.
template <class Device>
uint64_t check_expected_rows_behind(std::span<Device* const> devices, uint64_t scale) {
  const auto part = static_cast<uint32_t>(std::clamp<uint64_t>(scale, 256, 4096));
  const DeviceRowOptions options = rows_behind(devices, 256, part, part * 2, part * 8);
  ModelledRows<Device> table(devices, options);
  DeviceRequestSource source(47);
  table.reserve(part * 6 * devices.size());
  if (table.stats().host_bytes < part * 256) table.fail("no rows were taken ahead");
  table.put(source.keys(part), true);
  // Some went there for lines of the index.
  if (table.stats().host_entries > part / 2) table.fail("the host's rows were taken first");
  table.put(source.keys(part * 2 * devices.size()), true);
  table.check_all();
  check_both_caps(table, options, devices.size());
  return table.wrong() + table.refused();
}

// Sums of rows that lie on the host, of keys that come many times; and rows by arrays of the host.
template <class Device>
uint64_t check_sums_of_rows_behind(std::span<Device* const> devices, uint64_t scale) {
  constexpr uint32_t row_bytes = 272;
  constexpr uint64_t floats = row_bytes / sizeof(float);
  const auto part = static_cast<uint32_t>(std::clamp<uint64_t>(scale, 128, 4096));
  const DeviceRowOptions options = rows_behind(devices, row_bytes, part, part / 2, part * 5);
  ScoredRows<Device> table(devices, options);
  DeviceRequestSource source(53);
  const std::vector<uint64_t> known = source.keys(part * 5);
  auto& store = table.store();
  std::vector<float> rows(known.size() * floats, 0), sums = rows;
  std::vector<uint8_t> found(known.size());
  store.run_host({gpu::RowOp::put, known.size(), known.data(), rows.data(), found.data()});
  if (std::count(found.begin(), found.end(), 1) != static_cast<int64_t>(known.size())) {
    table.fail("a row was refused");
  }
  const gpu::TableStats stats = store.stats();
  if (stats.host_entries < stats.entries / 3) table.fail("few rows lie on the host");
  std::vector<uint64_t> keys(part * 2);
  std::vector<float> deltas(keys.size() * floats);
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t of = source.random()() % (known.size() / 8);
    keys[i] = known[of];
    for (uint64_t f = 0; f < floats; ++f) {
      deltas[i * floats + f] = static_cast<float>(source.random()() % 64);  // sums are exact
      sums[of * floats + f] += deltas[i * floats + f];
    }
  }
  store.run_host({gpu::RowOp::accumulate, keys.size(), keys.data(), deltas.data(), nullptr});
  store.run_host({gpu::RowOp::get, known.size(), known.data(), rows.data(), found.data()});
  if (rows != sums) table.fail("a sum is wrong");
  return table.wrong();
}

// Rows of the lowest scores go when both memories have ended, and exports meet the others.
template <class Device>
uint64_t check_rows_behind_evict(std::span<Device* const> devices, uint64_t scale) {
  const auto part = static_cast<uint32_t>(std::clamp<uint64_t>(scale, 256, 2048));
  DeviceRowOptions options = rows_behind(devices, 64, part, part, part * 2);
  options.scores = gpu::RowScores::given;
  options.evicts = true;
  ScoredRows<Device> table(devices, options);
  DeviceRequestSource source(59);
  // Calls of one part, since the new keys of a part stay.
  const uint64_t some = std::min<uint64_t>(part, table.store().part_rows()) * 3 / 4;
  const uint64_t all = (8 * devices.size() + 4) * part * 3 / 4;
  for (uint64_t round = 0; round * some < all; ++round) {
    const std::vector<uint64_t> keys = source.keys(some);
    table.write(round % 3 == 1 ? gpu::RowOp::get_or_insert : gpu::RowOp::put, keys,
                source.keys(keys.size()));
    if (round % 3 == 2) table.get(keys);
  }
  const gpu::TableStats stats = table.store().stats();
  if (table.evicted() == 0) table.fail("no row went");
  if (stats.host_entries < part) table.fail("few rows lie on the host");
  if (stats.entries < part * 2) table.fail("rows went for nothing");
  table.check_export(part / 4);
  table.check_export(256, uint64_t{1} << 62, uint64_t{1} << 63);
  return table.wrong();
}

}  // namespace isotherm
