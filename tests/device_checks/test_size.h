// Sizes of tests: `make test` runs each at the size that still finds what the check is for,
// `make test-long` (ISOTHERM_TEST_LONG=1) at its full one, but under sanitizers, where a row takes
// ten times as long.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "items/poison.h"

namespace isotherm {

inline bool long_tests() {
  static const bool asked = [] {
    const char* text = std::getenv("ISOTHERM_TEST_LONG");
    return text != nullptr && std::string_view(text) == "1";
  }();
  return asked && !poison::sanitized;
}

// Few rows of a batch on the fake device run the same lines of kernels as many do,
// and the same of the host's code around them (docs/tests.md says how that was counted).
inline uint64_t test_size(uint64_t usual, uint64_t full) { return long_tests() ? full : usual; }

}  // namespace isotherm
