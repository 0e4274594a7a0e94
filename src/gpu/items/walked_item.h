// What a walk over a table of device items shows (gpu/items/item_walk.h), for code that knows
// nothing of devices.
#pragma once

#include <cstdint>
#include <string>

namespace isotherm {

// An item as a walk shows it.
struct WalkedItem {
  std::string key;
  uint64_t value_bytes = 0;
  int64_t expiry = 0;
  uint32_t flags = 0;
};

}  // namespace isotherm
