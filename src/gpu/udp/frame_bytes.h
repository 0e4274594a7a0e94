// Fields of network frames and the checksum of the Internet protocols, for CPU and GPU.
//
// Frames begin at even addresses, and so do all headers in them, so words of 16 bits are read as
// such. What is longer is read by whole words as far as it has any: on a GPU a lane waits as long
// for a byte of its slot. The checksum is the same whichever byte order its words are added up in,
// so they are added as this machine reads them, and the result is stored as it writes them.
//
// Threads. Any; pure functions. Limits. Sums of up to 64 KiB.
#pragma once

#include <cstdint>

#include "base/macros.h"

#if !defined(__CUDA_ARCH__)
#include <cstring>
#endif

namespace isotherm::frame_bytes {

// A word at a multiple of its size, in this machine's order.
template <class Word>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Word load_word(const char* from) {
#if defined(__CUDA_ARCH__)
  return *reinterpret_cast<const Word*>(from);
#else
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
#endif
}
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint16_t load16(const char* from) {
  return load_word<uint16_t>(from);
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

template <class Word>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_word_at(const char* from) {
  return reinterpret_cast<uintptr_t>(from) % sizeof(Word) == 0;
}

// The sum of the bytes from an even address on; behind an odd last byte comes a zero. As all that
// makes a checksum it counts modulo 0xffff, and is 0 only where all bytes are.
ISOTHERM_HOST_DEVICE inline uint64_t sum(const char* from, uint32_t bytes) {
  uint64_t all = 0;
  uint32_t at = 0;
  for (; at + 1 < bytes && !is_word_at<uint64_t>(from + at); at += 2) all += load16(from + at);
  for (; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
    const auto word = load_word<uint64_t>(from + at);
    all += (word & 0xffffffff) + (word >> 32);
  }
  for (; at + 1 < bytes; at += 2) all += load16(from + at);
  return bytes % 2 == 0 ? all : all + byte_at(from + bytes - 1);
}

// Whether some byte is a space, a control character or 127.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool has_non_text(uint32_t bytes) {
  constexpr uint32_t each = 0x01010101;
  constexpr uint32_t highest = 0x80 * each;
  const uint32_t low = (bytes - ('!' * each)) & ~bytes & highest;
  const uint32_t deleted = bytes ^ (0x7f * each);
  return (low | ((deleted - each) & ~deleted & highest)) != 0;
}
// Whether all bytes may be of a key.
ISOTHERM_HOST_DEVICE inline bool is_text(const char* from, uint32_t bytes) {
  bool right = true;
  uint32_t at = 0;
  const auto look = [&](uint32_t some) { right = right && !has_non_text(some); };
  constexpr uint32_t filled = 0x41414100;  // with letters
  for (; at < bytes && !is_word_at<uint32_t>(from + at); ++at) look(filled | byte_at(from + at));
  for (; at + sizeof(uint32_t) <= bytes; at += sizeof(uint32_t)) {
    look(load_word<uint32_t>(from + at));
  }
  for (; at < bytes; ++at) look(filled | byte_at(from + at));
  return right;
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
