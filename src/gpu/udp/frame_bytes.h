// Fields of network frames and the checksum of the Internet protocols, for CPU and GPU.
//
// Frames begin at even addresses, and so do all headers in them, so words of 16 bits are read as
// such. The checksum is the same whichever byte order its words are added up in, so they are added
// as this machine reads them, and the result is stored as it writes them.
//
// Threads. Any; pure functions. Limits. Sums of up to 64 KiB.
#pragma once

#include <cstdint>

#include "base/macros.h"

#if !defined(__CUDA_ARCH__)
#include <cstring>
#endif

namespace isotherm::frame_bytes {

// 16 bits at an even address, in this machine's order.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint16_t load16(const char* from) {
#if defined(__CUDA_ARCH__)
  return *reinterpret_cast<const uint16_t*>(from);
#else
  uint16_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
#endif
}
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void store16(char* to, uint16_t word) {
#if defined(__CUDA_ARCH__)
  *reinterpret_cast<uint16_t*>(to) = word;
#else
  std::memcpy(to, &word, sizeof word);
#endif
}
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE constexpr uint16_t swapped(uint32_t word) {
  return static_cast<uint16_t>((word & 0xff) << 8 | (word >> 8 & 0xff));
}
// A number as the network writes it.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint16_t number_at(const char* from) {
  return swapped(load16(from));
}
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void put_number(char* to, uint32_t number) {
  store16(to, swapped(number));
}
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint8_t byte_at(const char* from) {
  return static_cast<uint8_t>(*from);
}

// The sum of the bytes from an even address on; behind an odd last byte comes a zero.
ISOTHERM_HOST_DEVICE inline uint32_t sum(const char* from, uint32_t bytes) {
  uint32_t all = 0;
  for (uint32_t i = 0; i + 1 < bytes; i += 2) all += load16(from + i);
  return bytes % 2 == 0 ? all : all + byte_at(from + bytes - 1);
}
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint16_t fold(uint64_t all) {
  while (all >> 16 != 0) all = (all & 0xffff) + (all >> 16);
  return static_cast<uint16_t>(all);
}
// What a sum is where its bytes begin at an odd place of the whole.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint16_t sum_at(uint32_t place, uint64_t all) {
  return place % 2 == 0 ? fold(all) : swapped(fold(all));
}

// What stands for such a sum in a header of UDP, where 0 would say that there is none.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint16_t udp_checksum(uint64_t all) {
  const auto own = static_cast<uint16_t>(~fold(all));
  return own != 0 ? own : uint16_t{0xffff};
}

inline constexpr uint16_t right_sum = 0xffff;  // of all that a checksum covers, itself included

}  // namespace isotherm::frame_bytes
