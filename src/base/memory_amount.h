// Amounts of memory as redis.conf writes them: digits and a unit, 1k = 1000 bytes, 1kb = 1024
// bytes, likewise m and g, in any case. An amount beyond 64 bits is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace isotherm {

std::optional<uint64_t> parse_memory(std::string_view text);

}  // namespace isotherm
