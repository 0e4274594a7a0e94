// Checks of conditions, versions and flags of a table of device items against a model, for any
// device; see tests/device_checks/device_table_checks.h.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "device_checks/device_item_checks.h"

namespace isotherm {

// All operations; where one names a version it is mostly the one that the key had before the batch.
template <class Device>
ItemBatch conditional_mix(ItemSource& source, const ModelledItems<Device>& table,
                          const std::vector<std::string>& keys, uint64_t rows) {
  using enum TableOp;
  constexpr TableOp ops[] = {get,
                             put,
                             put_if_absent,
                             put_if_present,
                             put_if_version,
                             erase,
                             put_if_version,
                             erase_if_version};
  auto& random = source.random();
  ItemBatch batch;
  for (uint64_t i = 0; i < rows; ++i) {
    ItemRequest request{ops[random() % std::size(ops)], keys[random() % keys.size()], {}};
    if (puts_item(request.op)) {
      request.value = source.value();
      if (random() % 4 == 0) request.expiry = static_cast<int64_t>(1 + random() % 20);
      if (random() % 4 == 0) request.flags = static_cast<uint32_t>(random());
    }
    if (names_version(request.op)) {
      request.expected = table.version(request.key) + (random() % 8 == 0 ? 1 : 0);
    }
    batch.push_back(request);
  }
  return batch;
}

struct ConditionalRounds {
  uint64_t keys = 0;
  uint64_t rows = 0;
  uint64_t rounds = 0;
};

template <class Device>
void run_conditional(ModelledItems<Device>& table, ItemSource& source,
                     const ConditionalRounds& rounds) {
  table.tell_all(true);
  const std::vector<std::string> keys = source.keys(rounds.keys);
  for (uint64_t round = 0; round < rounds.rounds; ++round) {
    table.run_from(round % 2 == 0, conditional_mix(source, table, keys, rounds.rows));
  }
  if (table.swapped() < rounds.rounds || table.not_swapped() < rounds.rounds) {
    table.fail("too few versions held, or too few did not");
  }
  table.check_all();
}

// Keys with many writers in a batch, with few, and mostly with one, whose rows go other ways.
template <class Device>
uint64_t check_conditions(Device& device, uint64_t scale) {
  uint64_t wrong = 0;
  const uint64_t rows = std::min<uint64_t>(scale / 4, 4096);
  for (const uint64_t keys : {uint64_t{5}, rows / 2, rows * 8}) {
    ItemSource source(keys, 300, 2200);
    ModelledItems<Device> table(device, small_items(61, rows));
    run_conditional(table, source, {keys, rows * 2 + 3, 8});
    wrong += table.wrong() + table.refused();
  }
  return wrong;
}

// The same where few hashes serve all keys.
template <class Device>
uint64_t check_colliding_conditions(Device& device, uint64_t scale) {
  uint64_t wrong = 0;
  const uint64_t rows = std::min<uint64_t>(scale / 4, 500);
  for (const uint64_t mask : {uint64_t{0}, uint64_t{5}, uint64_t{255} << 40}) {
    ItemSource source(mask + 7, 40, 100);
    DeviceItemOptions options = small_items(63, rows);
    options.hash_mask = mask;
    ModelledItems<Device> table(device, options);
    run_conditional(table, source, {rows / 4, rows, 8});
    wrong += table.wrong() + table.refused();
  }
  return wrong;
}

// The same where memory ends, items are evicted, and some lie on the host.
template <class Device>
uint64_t check_evicting_conditions(Device& device, uint64_t scale) {
  uint64_t wrong = 0;
  for (const uint64_t mask : {~uint64_t{0}, uint64_t{0x3ff} << 54}) {
    const uint64_t rows = std::min<uint64_t>(scale / 4, 128);
    ItemSource source(65, 40, 600);
    DeviceItemOptions options = small_items(65, rows);
    options.evicts = true;
    options.hash_mask = mask;
    options = capped_items(device, options, rows * 300, rows * 300);
    ModelledItems<Device> table(device, options);
    run_conditional(table, source, {rows * 10, rows * 2, 12});
    if (table.stats().evicted == 0) table.fail("nothing was evicted");
    if (table.stats().host_entries == 0) table.fail("nothing lies on the host");
    table.check_caps(options);
    wrong += table.wrong();
  }
  return wrong;
}

// Numbers of parts that no longer fit the head of an item.
template <class Device>
uint64_t check_high_versions(Device& device, uint64_t scale) {
  const uint64_t rows = std::min<uint64_t>(scale / 4, 256);
  ItemSource source(67, 40, 100);
  DeviceItemOptions options = small_items(67, rows);
  options.parts_before = (uint64_t{1} << item_head::part_bits) - 6;
  ModelledItems<Device> table(device, options);
  run_conditional(table, source, {rows * 2, rows, 12});
  return table.wrong() + table.refused();
}

template <class Device>
constexpr DeviceItemCheck<Device> device_item_version_checks[] = {
    {"conditions", check_conditions<Device>},
    {"colliding conditions", check_colliding_conditions<Device>},
    {"evicting conditions", check_evicting_conditions<Device>},
    {"high versions", check_high_versions<Device>},
};

}  // namespace isotherm
