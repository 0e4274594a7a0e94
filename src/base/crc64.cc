#include "base/crc64.h"

#include <array>
#include <cstring>

namespace isotherm {
namespace {

constexpr uint64_t polynomial = 0x95ac9329ac4bc9b5;  // 0xad93d23594c935a9, reflected

using Table = std::array<uint64_t, 256>;

// Table k moves a byte over itself and k bytes of zeros.
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (uint64_t byte = 0; byte < 256; ++byte) {
    uint64_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ polynomial : crc >> 1;
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint64_t before = tables[k - 1][byte];
      tables[k][byte] = before >> 8 ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr std::array<Table, 8> tables = make_tables();

}  // namespace

uint64_t crc64(std::string_view bytes, uint64_t crc) {
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, 8);
    word ^= crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= tables[7 - k][word >> (8 * k) & 0xFF];
  }
  for (; left > 0; --left, ++at) {
    crc = crc >> 8 ^ tables[0][(crc ^ static_cast<uint8_t>(*at)) & 0xFF];
  }
  return crc;
}

}  // namespace isotherm
