// Bit arithmetic that the CPU and the GPU spell differently.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace isotherm {

// The mask of a collective that all lanes of a warp take part in.
inline constexpr uint32_t whole_warp = 0xffffffffu;

ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t count_bits(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return static_cast<uint32_t>(__popc(bits));
#else
  return static_cast<uint32_t>(__builtin_popcount(bits));
#endif
}

// Of the bits below number `i`, 0 to 31.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t count_below(uint32_t bits, uint32_t i) {
  return count_bits(bits & ((1u << i) - 1));
}

// The numbers of the lowest and of the highest bit that is set; `bits` is not 0.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t lowest_bit(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return static_cast<uint32_t>(__ffs(static_cast<int>(bits)) - 1);
#else
  return static_cast<uint32_t>(__builtin_ctz(bits));
#endif
}
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t highest_bit(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return static_cast<uint32_t>(31 - __clz(static_cast<int>(bits)));
#else
  return static_cast<uint32_t>(31 - __builtin_clz(bits));
#endif
}

// The number of the bit that has `n` set ones below it.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t nth_bit(uint32_t bits, uint32_t n) {
  for (; n != 0; --n) bits &= bits - 1;
  return lowest_bit(bits);
}

}  // namespace isotherm
