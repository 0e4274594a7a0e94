// Checks of byte strings over several devices, against a model, for any devices; see
// tests/device_checks/device_item_checks.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "device_checks/device_item_checks.h"
#include "gpu/items/split_item_store.h"

namespace isotherm {

template <class Device>
using SplitModelledItems = ModelledItems<Device, SplitItemStore<Device>>;

// All operations mixed, over few keys and over many, from both sides, with all replies.
template <class Device>
uint64_t check_split_mixed_items(std::span<Device* const> devices, uint64_t scale) {
  ItemSource source(1, 300, 2000);
  SplitModelledItems<Device> table(*devices[0], devices, small_items(7, scale / 4));
  const std::vector<std::string> keys = source.keys(scale / 2);
  const std::vector<std::string> few(keys.begin(), keys.begin() + 5);
  for (const bool all : {false, true}) {
    table.tell_all(all);
    for (const uint64_t rows : {uint64_t{33}, scale + 5}) {
      for (const double writes : {0.0, 0.6}) {
        table.run(source.mixed(keys, rows, writes));
        table.run_host(source.mixed(keys, rows, writes));
        table.run(source.mixed(few, std::min(rows, scale / 4), writes));
      }
    }
  }
  table.check_all();
  const gpu::ItemStats stats = table.stats();
  if (stats.entries == 0 || stats.segments < devices.size()) table.fail("a device has no part");
  return table.wrong() + table.refused();
}

// Replies with less room than they need, and calls of one operation without replies.
template <class Device>
uint64_t check_split_capacity(std::span<Device* const> devices, uint64_t scale) {
  ItemSource source(2, 40, 300);
  SplitModelledItems<Device> table(*devices[0], devices, small_items(5, scale / 2));
  const std::vector<std::string> keys = source.keys(scale);
  for (const bool host : {false, true}) {
    table.run_uniform(TableOp::put, source.uniform_op(TableOp::put, keys), host, false);
    for (const double share : {0.0, 0.99, 1.0}) {
      table.limit_capacity(share);
      table.run_uniform(TableOp::get, source.uniform_op(TableOp::get, keys), host, true);
    }
    table.run_uniform(TableOp::erase,
                      source.uniform_op(TableOp::erase, {keys.begin(), keys.begin() + 20}), host,
                      false);
  }
  table.check_all();
  return table.wrong() + table.refused();
}

// Rows that no device can be asked for are refused, and the others take effect.
template <class Device>
uint64_t check_split_refused(std::span<Device* const> devices, uint64_t) {
  constexpr uint64_t rows = 40, refused = 7;
  SplitItemStore<Device> store(devices, small_items(3, rows));
  std::string keys, values;
  std::vector<int64_t> key_offsets = {0}, value_offsets = {0};
  for (uint64_t i = 0; i < rows; ++i) {
    keys += "key " + std::to_string(i);
    values += std::to_string(i * i);
    key_offsets.push_back(static_cast<int64_t>(keys.size()));
    value_offsets.push_back(static_cast<int64_t>(values.size()));
  }
  // The row before this offset ends beyond the column, the one behind it begins there.
  value_offsets[refused + 1] = value_offsets.back() + 1;
  std::vector<uint8_t> found(rows, 9);
  gpu::ItemRequests requests;
  requests.rows = rows;
  requests.op = TableOp::put;
  requests.keys = {key_offsets.data(), keys.data()};
  requests.values = {value_offsets.data(), values.data()};
  requests.replies.found = found.data();
  store.run_host(requests);
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < rows; ++i) {
    const bool is_refused = i == refused || i == refused + 1;
    wrong += found[i] != (is_refused ? gpu::reply_refused : 0);
  }
  wrong += store.stats().entries != rows - 2;
  requests.replies.found = nullptr;
  try {
    store.run_host(requests);
    ++wrong;  // nobody was told
  } catch (const std::invalid_argument&) {
  }
  return wrong;
}

template <class Device>
struct SplitItemCheck {
  const char* name;
  uint64_t (*run)(std::span<Device* const> devices, uint64_t scale);
};
template <class Device>
constexpr SplitItemCheck<Device> split_item_checks[] = {
    {"mixed items", check_split_mixed_items<Device>},
    {"small capacity", check_split_capacity<Device>},
    {"refused rows", check_split_refused<Device>},
};

}  // namespace isotherm
