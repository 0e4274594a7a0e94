#include "base/crc32c.h"

#include <nmmintrin.h>

#include <array>
#include <cstring>

namespace isotherm {
namespace {

constexpr std::array<uint32_t, 256> crc32c_table = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc % 2 != 0 ? 0x82F63B78 : 0);
    table[byte] = crc;
  }
  return table;
}();

__attribute__((target("sse4.2"))) uint32_t crc32c_by_instruction(uint32_t crc, const void* data,
                                                                 size_t bytes) {
  const char* at = static_cast<const char*>(data);
  uint64_t sum = ~crc;
  for (; bytes >= 8; bytes -= 8, at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, 8);
    sum = _mm_crc32_u64(sum, word);
  }
  auto rest = static_cast<uint32_t>(sum);
  for (; bytes != 0; --bytes) rest = _mm_crc32_u8(rest, static_cast<uint8_t>(*at++));
  return ~rest;
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

}  // namespace isotherm
