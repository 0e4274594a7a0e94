// Decimal: fractions as INCRBYFLOAT reads and writes them.
//
// Read is whatever C's strtold takes whole, hexadecimal and "inf" included, without white space
// before it; not "nan", and nothing whose value is beyond the range or below the least one.
// Written are at most 17 digits behind the point, without zeros at the end and without exponent.
//
// Threads. Functions of their arguments; the program keeps the "C" locale.
// Limits. Texts of less than longest_decimal bytes.
#pragma once

#include <cstddef>
#include <string_view>

namespace isotherm {

inline constexpr size_t longest_decimal = 5 * 1024;

// False where the text is no such number.
bool parse_decimal(std::string_view text, long double& value);
// Writes a finite value and returns the length.
size_t format_decimal(long double value, char (&text)[longest_decimal]);

}  // namespace isotherm
