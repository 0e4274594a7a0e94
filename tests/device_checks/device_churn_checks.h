// Checks of tables whose memory has ended while entries come and go at a constant number, for any
// device: chains close up (gpu/table/unlink_kernel.h), so that no put is refused however long it
// goes on, and the index grows and leaves out bins afterwards as any other.
// Read tests/device_checks/device_table_checks.h first.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "device_checks/device_table_checks.h"

namespace isotherm {

// A table of which new keys come and the oldest leave.
template <class Device>
class DeviceChurn {
 public:
  DeviceChurn(DeviceMemory<Device>& memory, const FixedDeviceOptions& options)
      : source_(31), table_(memory, options) {}

  ModelledDeviceTable<Device>& table() { return table_; }
  uint64_t entries() const { return keys_.size(); }
  uint64_t linked_lines() { return table_.table().stats().overflow_lines; }

  void put(uint64_t rows) {
    table_.run_uniform(TableOp::put, source_.uniform_op(TableOp::put, fresh(rows)), true);
  }
  void erase(uint64_t rows) {
    table_.run_uniform(TableOp::erase, source_.uniform_op(TableOp::erase, oldest(rows)), true);
  }
  // As many of both, in any order, by express if `express` and the table takes them.
  void replace(uint64_t rows, bool express) {
    DeviceBatch batch = source_.uniform_op(TableOp::erase, oldest(rows));
    const DeviceBatch puts = source_.uniform_op(TableOp::put, fresh(rows));
    batch.insert(batch.end(), puts.begin(), puts.end());
    std::shuffle(batch.begin(), batch.end(), source_.random());
    if (express && table_.run_express(batch)) {
      ++expressed_;
    } else {
      table_.run(batch);
    }
  }
  uint64_t expressed() const { return expressed_; }

 private:
  std::vector<uint64_t> fresh(uint64_t rows) {
    std::vector<uint64_t> keys = source_.keys(rows);
    keys_.insert(keys_.end(), keys.begin(), keys.end());
    return keys;
  }
  std::vector<uint64_t> oldest(uint64_t rows) {
    const auto end = keys_.begin() + static_cast<int64_t>(rows);
    std::vector<uint64_t> keys(keys_.begin(), end);
    keys_.erase(keys_.begin(), end);
    return keys;
  }

  DeviceRequestSource source_;
  ModelledDeviceTable<Device> table_;
  std::deque<uint64_t> keys_;  // by age
  uint64_t expressed_ = 0;
};

// The most lines linked after one of so many rounds of `rows` keys each, in batches of all kinds.
template <class Device>
uint64_t most_linked_in_churn(DeviceChurn<Device>& churn, int rounds, uint64_t rows) {
  uint64_t most = 0;
  for (int round = 0; round < rounds; ++round) {
    if (round % 3 == 0) {
      churn.erase(rows);
      churn.put(rows);
    } else {
      churn.replace(rows, false);
    }
    for (int i = 0; i < 4; ++i) churn.replace(16, true);
    most = std::max(most, churn.linked_lines());
  }
  return most;
}

// Puts until memory ends; a little less stays.
template <class Device>
void fill_memory(DeviceChurn<Device>& churn, uint64_t rows) {
  for (int i = 0; i < 400 && churn.table().refused() == 0; ++i) churn.put(rows);
  if (churn.table().refused() == 0) churn.table().fail("memory did not end");
  churn.erase(churn.entries() / 8);
}

// Neither the index nor the stock can grow: nothing is refused, and chains stay as long as they
// are.
template <class Device>
void churn_without_memory(DeviceChurn<Device>& churn, uint64_t rows, int rounds) {
  const uint64_t refused = churn.table().refused();
  const uint64_t early = most_linked_in_churn(churn, rounds, rows);
  const uint64_t late = most_linked_in_churn(churn, 2 * rounds, rows);
  if (churn.table().refused() != refused) churn.table().fail("puts were refused");
  if (late > early + early / 4) churn.table().fail("chains grew");
  churn.table().check_all();
}

// There is memory again: chains that closed up are split.
template <class Device>
void grow_by_half(DeviceChurn<Device>& churn) {
  FixedDeviceTable<Device>& table = churn.table().table();
  const uint64_t segments = table.stats().segments;
  const uint64_t refused = churn.table().refused();
  churn.put(churn.entries() / 2);
  churn.table().check_all();
  if (table.stats().segments == segments) churn.table().fail("the index did not grow");
  if (churn.table().refused() != refused) churn.table().fail("puts were refused with memory");
}

// The index has room, but the stock cannot grow: writes go by express still.
template <class Device>
void churn_with_express(DeviceChurn<Device>& churn, uint64_t rows, int rounds) {
  churn.erase(rows);
  const uint64_t refused = churn.table().refused();
  const uint64_t expressed = churn.expressed();
  most_linked_in_churn(churn, rounds, rows);
  if (churn.expressed() == expressed) churn.table().fail("nothing went by express");
  if (churn.table().refused() != refused) churn.table().fail("puts were refused");
}

// Leaves out half of the hashes, and takes them in again, empty.
template <class Device>
void drop_half(ModelledDeviceTable<Device>& table, uint64_t seed) {
  const HashBin bin{1, 1};
  DeviceBatch erased;
  for (const auto& [key, value] : table.model()) {
    if (mix(key, seed) >= bin.first()) erased.push_back({TableOp::erase, key, 0, 0});
  }
  table.table().drop(bin);
  if (!table.table().restore(bin)) table.fail("no memory for a bin");
  table.run_uniform(TableOp::erase, erased, false);
}

// What a table takes for a few entries, and for all kinds of calls.
template <class Device>
uint64_t first_bytes(Device& device, const FixedDeviceOptions& options, uint64_t rows) {
  DeviceMemory<Device> memory(device, 0);
  DeviceChurn<Device> churn(memory, options);
  churn.put(rows);
  churn.replace(16, true);
  return memory.used();
}

template <class Device>
uint64_t check_churn(Device& device, uint64_t scale) {
  const uint64_t rows = std::clamp<uint64_t>(scale / 4, 256, 1 << 14);
  const FixedDeviceOptions options{0, 51, 4, static_cast<uint32_t>(rows / 4)};
  const int rounds = scale < 1024 ? 8 : 20;
  const uint64_t room = rows << 10;
  const uint64_t later = room * 2;
  DeviceMemory<Device> memory(device, first_bytes(device, options, rows) + room + later);
  DeviceArray<Device, char> ballast(memory, later);
  DeviceChurn<Device> churn(memory, options);
  churn.put(rows);
  churn.replace(16, true);
  fill_memory(churn, rows);
  churn_without_memory(churn, rows, rounds);
  ballast = {};
  grow_by_half(churn);
  ballast = DeviceArray<Device, char>(memory, memory.left());
  churn_with_express(churn, rows, rounds);
  ballast = {};
  drop_half(churn.table(), options.seed);
  churn.put(rows);
  churn.table().check_all();
  return churn.table().wrong();
}

template <class Device>
constexpr DeviceTableCheck<Device> device_churn_checks[] = {
    {"churn at the end of memory", check_churn<Device>},
};

}  // namespace isotherm
