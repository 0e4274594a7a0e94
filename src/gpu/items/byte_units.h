// Byte strings in units of 16 bytes: reads at any address, and columns of strings as kernels see
// them. Items are made of words of 8 bytes (gpu/items/device_item.h).
//
// A string may begin anywhere, but the GPU reads 16 bytes at multiples of 16 only. A unit of a
// string is put together from the one or two aligned units that it touches. Those may reach beyond
// the string; they are read whole only where they lie within a range that is known to be readable,
// else byte by byte.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/pair.h"

namespace isotherm {

inline constexpr uint32_t unit_bytes = sizeof(Pair);

// Units that `bytes` take.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t units_of(uint64_t bytes) {
  return (bytes + unit_bytes - 1) / unit_bytes;
}

inline constexpr uint32_t word_bytes = 8;

// Words that `bytes` take.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t words_of(uint64_t bytes) {
  return (bytes + word_bytes - 1) / word_bytes;
}

// A word that nobody writes while the kernel runs: on the GPU the load may go through the L1 cache.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t load_steady_word(const uint64_t* from) {
#if defined(__CUDA_ARCH__)
  uint64_t word;
  asm("ld.global.nc.u64 %0, [%1];" : "=l"(word) : "l"(from));
  return word;
#else
  return *from;
#endif
}

// Memory that may be read.
struct ByteRange {
  const char* begin = nullptr;
  const char* end = nullptr;

  // Around items, whose slabs are whole units.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static ByteRange of_items() {
    return {nullptr, reinterpret_cast<const char*>(~uintptr_t{0})};
  }
};

namespace byte_units_internal {

// The first `bytes` of 16, 1 to 16; the others 0.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Pair cut(Pair unit, uint32_t bytes) {
  if (bytes <= 8) {
    if (bytes < 8) unit.first &= (uint64_t{1} << (8 * bytes)) - 1;
    unit.second = 0;
  } else if (bytes < 16) {
    unit.second &= (uint64_t{1} << (8 * (bytes - 8))) - 1;
  }
  return unit;
}

// 16 of 32 bytes, from byte `skip` on, 0 to 15.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Pair window(Pair low, Pair high, uint32_t skip) {
  const bool late = skip >= 8;
  const uint64_t a = late ? low.second : low.first;
  const uint64_t b = late ? high.first : low.second;
  const uint64_t c = late ? high.second : high.first;
  const uint32_t bits = skip % 8 * 8;
  if (bits == 0) return {a, b};
  return {a >> bits | b << (64 - bits), b >> bits | c << (64 - bits)};
}

// All 16 bytes, behind `bytes` zeros, 0 to 15: as many fall off at the end.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Pair moved_up(Pair unit, uint32_t bytes) {
  const bool far = bytes >= 8;
  const uint64_t low = far ? 0 : unit.first;
  const uint64_t high = far ? unit.first : unit.second;
  const uint32_t bits = bytes % 8 * 8;
  if (bits == 0) return {low, high};
  return {low << bits, high << bits | low >> (64 - bits)};
}

ISOTHERM_HOST_DEVICE inline Pair read_bytes(const char* from, uint32_t bytes) {
  uint64_t half[2] = {0, 0};
  for (uint32_t i = 0; i < bytes; ++i) {
    half[i / 8] |= uint64_t{static_cast<unsigned char>(from[i])} << (i % 8 * 8);
  }
  return {half[0], half[1]};
}

}  // namespace byte_units_internal

// `bytes` bytes, 1 to 16, from any address on, and zeros behind them; nobody writes them while the
// kernel runs.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Pair load_unit(const char* from, uint32_t bytes,
                                                    ByteRange readable) {
  using byte_units_internal::cut;
  const auto skip = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % unit_bytes);
  const char* first = from - skip;
  if (skip == 0 && bytes == unit_bytes) {
    return load_steady_pair(reinterpret_cast<const Pair*>(first));
  }
  const bool two = skip + bytes > unit_bytes;
  if (first < readable.begin || first + (two ? 2 : 1) * unit_bytes > readable.end) {
    return byte_units_internal::read_bytes(from, bytes);
  }
  const Pair low = load_steady_pair(reinterpret_cast<const Pair*>(first));
  const Pair high = two ? load_steady_pair(reinterpret_cast<const Pair*>(first) + 1) : Pair{0, 0};
  return cut(byte_units_internal::window(low, high, skip), bytes);
}

// The first `bytes` of a unit, 1 to 15, to any address.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void store_bytes(char* to, Pair unit, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; ++i) {
    const uint64_t half = i < 8 ? unit.first : unit.second;
    to[i] = static_cast<char>(half >> (i % 8 * 8));
  }
}

// Rows of a column of byte strings: row i from offsets[i] to offsets[i + 1]. The column is from
// *begin to *end; `bytes` is where the byte number `first` lies.
struct BytesView {
  const int64_t* offsets = nullptr;  // null: no column
  const int64_t* begin = nullptr;
  const int64_t* end = nullptr;
  const char* bytes = nullptr;
  int64_t first = 0;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t size(uint32_t row) const {
    return static_cast<uint64_t>(offsets[row + 1] - offsets[row]);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE const char* data(uint32_t row) const {
    return bytes + (offsets[row] - first);
  }
  // Whether the row lies in the column and has `most` bytes at most.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool takes(uint32_t row, uint64_t most) const {
    if (offsets == nullptr) return false;
    const int64_t from = offsets[row];
    const int64_t upto = offsets[row + 1];
    return from >= *begin && from <= upto && upto <= *end &&
           static_cast<uint64_t>(upto - from) <= most;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE ByteRange readable() const {
    return {bytes + (*begin - first), bytes + (*end - first)};
  }
};

}  // namespace isotherm
