// Crc64: the checksum at the end of what DUMP answers.
//
// Polynomial 0xad93d23594c935a9 with bits reflected; the sum begins with 0 and is not changed at
// the end. Eight tables take eight bytes a step.
//
// Threads. A function of its arguments.
#pragma once

#include <cstdint>
#include <string_view>

namespace isotherm {

// Goes on from `crc`, which is 0 for the first bytes.
uint64_t crc64(std::string_view bytes, uint64_t crc = 0);

}  // namespace isotherm
