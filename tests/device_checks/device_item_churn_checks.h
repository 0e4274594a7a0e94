// Checks of a table of device items that evicts, whose index has no memory left either, for any
// device: new items come and others leave, and its chains close up (gpu/table/unlink_kernel.h), so
// that no put is refused; see tests/device_checks/device_table_checks.h.
#pragma once

#include <algorithm>

#include "device_checks/device_item_checks.h"

namespace isotherm {

// Small items, so that the index has a good part of the memory, and more overflow lines than come
// at once.
template <class Device>
uint64_t check_item_churn(Device& device, uint64_t scale) {
  constexpr uint64_t value_bytes = 8;
  const uint64_t rows = std::min<uint64_t>(scale, 4096);
  DeviceItemOptions options = small_items(47, rows);
  options.evicts = true;
  options.index.line_bits = 4;
  options = capped_items(device, options, rows * 8 * 200);
  ModelledItems<Device> table(device, options);
  constexpr uint64_t rounds = 42;
  for (uint64_t round = 0; round < rounds; ++round) {
    table.run_from(round % 4 == 0, numbered_puts(round * rows, rows, value_bytes));
  }
  if (table.stats().evicted < rows * rounds / 6) table.fail("too little was evicted");
  if (table.refused() != 0) table.fail("puts were refused");
  table.check_caps(options);
  table.check_all();
  return table.wrong();
}

template <class Device>
constexpr DeviceItemCheck<Device> device_item_churn_checks[] = {
    {"item churn", check_item_churn<Device>},
};

}  // namespace isotherm
