// ValuePlace: where a value that lies in device memory is, a number of 64 bits that an item keeps
// instead of the value (items/item.h).
//
//   63..60 device     59..40 segment of the log     39..20 first unit in it     19..0 number in it
//
// A unit is 16 bytes; values begin at one. executor/values/value_log.h says what a segment is.
#pragma once

#include <cstdint>

namespace isotherm {

using ValuePlace = uint64_t;

namespace value_place {

inline constexpr uint64_t unit_bytes = 16;
inline constexpr uint32_t most_segments = 1 << 20;
inline constexpr uint32_t most_units = 1 << 20;  // of a segment; and so values

constexpr ValuePlace make(uint32_t device, uint32_t segment, uint32_t unit, uint32_t number) {
  return uint64_t{device} << 60 | uint64_t{segment} << 40 | uint64_t{unit} << 20 | number;
}
constexpr uint32_t device(ValuePlace place) { return static_cast<uint32_t>(place >> 60); }
constexpr uint32_t segment(ValuePlace place) {
  return static_cast<uint32_t>(place >> 40) & (most_segments - 1);
}
constexpr uint32_t unit(ValuePlace place) {
  return static_cast<uint32_t>(place >> 20) & (most_units - 1);
}
constexpr uint32_t number(ValuePlace place) {
  return static_cast<uint32_t>(place) & (most_units - 1);
}

// What a value takes there, in units.
constexpr uint32_t units_of(uint64_t bytes) {
  return static_cast<uint32_t>((bytes + unit_bytes - 1) / unit_bytes);
}

}  // namespace value_place
}  // namespace isotherm
