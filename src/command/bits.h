// Bits: a value as a row of bits, the highest of each byte first, as SETBIT numbers them.
//
// Ranges are half open and lie within the value. Both functions look at eight bytes at a time.
//
// Threads. Functions of their arguments.
#pragma once

#include <cstdint>
#include <string_view>

namespace isotherm {

// How many of the bits from `first` to before `end` are set.
uint64_t count_bits(std::string_view value, uint64_t first, uint64_t end);

// The first of the bits from `first` to before `end` that is `bit`; `end` where there is none.
uint64_t find_bit(std::string_view value, bool bit, uint64_t first, uint64_t end);

}  // namespace isotherm
