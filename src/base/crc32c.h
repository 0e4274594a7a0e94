// CRC-32C (Castagnoli): finds bytes that a disk or a torn write changed.
//
// `crc32c(crc, …)` goes on from the sum of what came before, which is 0 at first, so pieces may be
// summed one by one. It takes the processor's instruction where there is one (SSE 4.2).
#pragma once

#include <cstddef>
#include <cstdint>

namespace isotherm {

uint32_t crc32c(uint32_t crc, const void* data, size_t bytes);
// Of two texts, one behind the other: `first` is the first one's sum, and `second` that of the
// other alone, which has so many bytes. So threads may sum pieces of a text side by side.
uint32_t crc32c_joined(uint32_t first, uint32_t second, uint64_t bytes);
// Without the instruction.
uint32_t crc32c_plain(uint32_t crc, const void* data, size_t bytes);

}  // namespace isotherm
