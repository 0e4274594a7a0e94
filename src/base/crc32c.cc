#include "base/crc32c.h"

#include <nmmintrin.h>

#include <array>
#include <cstring>

namespace isotherm {
namespace {

constexpr uint32_t crc32c_polynomial = 0x82F63B78;

constexpr std::array<uint32_t, 256> crc32c_table = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc % 2 != 0 ? crc32c_polynomial : 0);
    table[byte] = crc;
  }
  return table;
}();

// The instruction has a result after three cycles, and one can begin in each: so three pieces of
// this many bytes are summed side by side, the second and third as if nothing came before them.
constexpr size_t lane_bytes = 1024;
constexpr size_t line_bytes = 64;

// What becomes of the state of a sum when that many zero bytes follow: by each of its four bytes,
// since a sum of states becomes the sum of what they become.
constexpr auto behind_a_lane = [] {
  std::array<uint32_t, 32> of_bit{};
  for (size_t bit = 0; bit < of_bit.size(); ++bit) {
    uint32_t state = uint32_t{1} << bit;
    for (size_t i = 0; i < lane_bytes; ++i) state = state >> 8 ^ crc32c_table[state & 0xFF];
    of_bit[bit] = state;
  }
  std::array<std::array<uint32_t, 256>, 4> of_byte{};
  for (size_t bit = 0; bit < of_bit.size(); ++bit) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      if ((byte >> bit % 8 & 1) != 0) of_byte[bit / 8][byte] ^= of_bit[bit];
    }
  }
  return of_byte;
}();

uint64_t moved_by_a_lane(uint64_t state) {
  return behind_a_lane[0][state & 0xFF] ^ behind_a_lane[1][state >> 8 & 0xFF] ^
         behind_a_lane[2][state >> 16 & 0xFF] ^ behind_a_lane[3][state >> 24 & 0xFF];
}

uint64_t word_at(const char* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

__attribute__((target("sse4.2"))) uint32_t crc32c_by_instruction(uint32_t crc, const void* data,
                                                                 size_t bytes) {
  const char* at = static_cast<const char*>(data);
  uint64_t sum = static_cast<uint32_t>(~crc);
  for (; bytes >= 3 * lane_bytes; bytes -= 3 * lane_bytes, at += 3 * lane_bytes) {
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < lane_bytes; i += sizeof(uint64_t)) {
      if (i % line_bytes == 0) {
        for (size_t lane = 3; lane < 6; ++lane) __builtin_prefetch(at + lane * lane_bytes + i);
      }
      sum = _mm_crc32_u64(sum, word_at(at + i));
      second = _mm_crc32_u64(second, word_at(at + lane_bytes + i));
      third = _mm_crc32_u64(third, word_at(at + 2 * lane_bytes + i));
    }
    sum = moved_by_a_lane(moved_by_a_lane(sum) ^ second) ^ third;
  }
  for (; bytes >= 8; bytes -= 8, at += 8) sum = _mm_crc32_u64(sum, word_at(at));
  auto rest = static_cast<uint32_t>(sum);
  for (; bytes != 0; --bytes) rest = _mm_crc32_u8(rest, static_cast<uint8_t>(*at++));
  return ~rest;
}

// Sums are polynomials, with the power 0 in their highest bit. The rest of a product.
uint32_t crc32c_product(uint32_t one, uint32_t other) {
  uint32_t product = 0;
  for (uint32_t bit = uint32_t{1} << 31; bit != 0; bit >>= 1) {
    if ((one & bit) != 0) product ^= other;
    other = other >> 1 ^ (other % 2 != 0 ? crc32c_polynomial : 0);
  }
  return product;
}

const bool has_crc32c_instruction = __builtin_cpu_supports("sse4.2") != 0;

}  // namespace

uint32_t crc32c_plain(uint32_t crc, const void* data, size_t bytes) {
  const auto* at = static_cast<const uint8_t*>(data);
  crc = ~crc;
  for (; bytes != 0; --bytes) crc = crc >> 8 ^ crc32c_table[(crc ^ *at++) & 0xFF];
  return ~crc;
}

uint32_t crc32c(uint32_t crc, const void* data, size_t bytes) {
  return has_crc32c_instruction ? crc32c_by_instruction(crc, data, bytes)
                                : crc32c_plain(crc, data, bytes);
}

// A zero byte behind a text multiplies its sum by the polynomial's variable to the power of 8.
uint32_t crc32c_joined(uint32_t first, uint32_t second, uint64_t bytes) {
  constexpr uint32_t one_byte = uint32_t{1} << 23;
  for (uint32_t zeros = one_byte; bytes != 0; bytes >>= 1) {
    if (bytes % 2 != 0) first = crc32c_product(first, zeros);
    zeros = crc32c_product(zeros, zeros);
  }
  return first ^ second;
}

}  // namespace isotherm
