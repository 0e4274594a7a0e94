// StoredFields: what lies before the value in an item of a store (tree/tree_record.h), for who
// shows such items: kernels, too.
//
//   version, 8 bytes | expiry, 8 | flags, 4 | state, 8 | the value
// A byte beside the item says which of the last three there are. So a value begins at a multiple of
// four bytes.
//
// Threads. Any; a value.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace isotherm {

struct StoredFields {
  static constexpr uint8_t has_expiry = 1;
  static constexpr uint8_t has_flags = 2;
  static constexpr uint8_t has_state = 4;
  static constexpr uint32_t version_bytes = 8;

  uint32_t which = 0;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE constexpr bool has(uint32_t field) const {
    return (which & field) != 0;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE constexpr uint32_t flags_at() const {
    return version_bytes + (has(has_expiry) ? 8 : 0);
  }
  // Bytes before the value.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE constexpr uint32_t bytes() const {
    return flags_at() + (has(has_flags) ? 4 : 0) + (has(has_state) ? 8 : 0);
  }
};

}  // namespace isotherm
