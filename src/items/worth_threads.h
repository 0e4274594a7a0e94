// From how many rows on work is shared among threads, which each take a moment to begin.
//
// `rows` is the number in a build that is fast. Under a sanitizer a row takes ten times as long, so
// fewer are worth it, and a test of shared work needs no more than these.
#pragma once

#include <cstdint>

#include "items/poison.h"

namespace isotherm {

constexpr uint32_t worth_threads(uint32_t rows) { return poison::sanitized ? rows / 16 : rows; }

}  // namespace isotherm
