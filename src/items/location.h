// Location: where an item lies, a number of 64 bits that fits the word of an index slot.
//
//   63..60 kind       59..56 zero    55..48 size class     47..0 place
//   1 item            in a chunk     its size class        byte offset into the item arena
//   2 large item      by itself      0                     address of the item header
//   3 collision node  in a chunk     its size class        byte offset into the item arena
//   4 object          by itself      0                     address of the Object
//
// An object stands in no index: its location is the value of an item (items/item.h).
//
// Zero is no location ("absent"). Two locations that are valid at the same time are equal exactly
// if they name the same place. A place is reused only when no batch can still hold its location
// (items/epoch.h).
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace isotherm {

using Location = uint64_t;

namespace location {

enum class Kind : uint8_t { none = 0, item = 1, large = 2, collision = 3, object = 4 };

inline constexpr Location none = 0;

inline constexpr int kind_shift = 60;
inline constexpr int class_shift = 48;
inline constexpr uint64_t place_mask = (uint64_t{1} << class_shift) - 1;

ISOTHERM_HOST_DEVICE constexpr Kind kind(Location location) {
  return static_cast<Kind>(location >> kind_shift);
}
ISOTHERM_HOST_DEVICE constexpr uint32_t size_class(Location location) {
  return static_cast<uint32_t>(location >> class_shift) & 0xFF;
}
ISOTHERM_HOST_DEVICE constexpr uint64_t place(Location location) { return location & place_mask; }

ISOTHERM_HOST_DEVICE constexpr Location make(Kind kind, uint32_t size_class, uint64_t place) {
  return static_cast<uint64_t>(kind) << kind_shift | uint64_t{size_class} << class_shift | place;
}
// The same place seen as another kind (an item's memory used for a collision node).
ISOTHERM_HOST_DEVICE constexpr Location as(Kind kind, Location location) {
  return (location & ~(uint64_t{0xF} << kind_shift)) | static_cast<uint64_t>(kind) << kind_shift;
}

}  // namespace location
}  // namespace isotherm
