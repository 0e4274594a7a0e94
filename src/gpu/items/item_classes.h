// Size classes of device items.
//
// Blocks are multiples of 8 bytes: 8 bytes apart up to 256, then eight per doubling, so a block
// is at most an eighth too large. The class is computed, on the host and in kernels alike.
//
// The free blocks of a class are in two lists: those in device memory, and those in host memory.
// Lists are numbered as the classes, first all of the device, then all of the host.
#pragma once

#include <cstdint>

#include "gpu/items/byte_units.h"
#include "gpu/kernel/bits.h"
#include "isotherm/gpu/item_table.h"

namespace isotherm::item_classes {

namespace internal {
inline constexpr uint32_t fine_doubling = 5;
inline constexpr uint32_t fine = 1 << fine_doubling;  // classes of one word more each
inline constexpr uint32_t per_doubling = 8;
}  // namespace internal

inline constexpr uint32_t count = 153;
inline constexpr uint32_t lists = 2 * count;

// The smallest class that holds `bytes`, 1 or more.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t class_of(uint64_t bytes) {
  using namespace internal;
  const auto last = static_cast<uint32_t>(words_of(bytes) - 1);
  if (last < fine) return last;
  const uint32_t doubling = highest_bit(last);
  return fine + (doubling - fine_doubling) * per_doubling + (last >> (doubling - 3)) - per_doubling;
}

ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t bytes_of(uint32_t size_class) {
  using namespace internal;
  if (size_class < fine) return uint64_t{size_class + 1} * word_bytes;
  const uint32_t doubling = (size_class - fine) / per_doubling + fine_doubling;
  const uint32_t eighths = (size_class - fine) % per_doubling + per_doubling + 1;
  return (uint64_t{eighths} << (doubling - 3)) * word_bytes;
}

ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t list_of(uint32_t size_class, bool on_host) {
  return on_host ? size_class + count : size_class;
}
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_on_host(uint32_t list) { return list >= count; }
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t class_of_list(uint32_t list) {
  return list < count ? list : list - count;
}

}  // namespace isotherm::item_classes
