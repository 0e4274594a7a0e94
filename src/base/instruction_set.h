// InstructionSet: which copy of the probing loops runs on this processor.
//
// Chosen at run time, so that one binary serves every x86-64 machine. Builds with `only_plain` have
// the plain copy alone: under the thread sanitizer, which does not follow wide compares of memory
// that others write, and where rules break on demand, since the rules are in code that all copies
// share.
#pragma once

#include <cstdint>

#include "base/pair.h"

namespace isotherm {

enum class InstructionSet : uint8_t { plain, avx2, avx512 };

#if defined(ISOTHERM_TSAN) || defined(ISOTHERM_BROKEN)
constexpr bool only_plain = true;
#else
constexpr bool only_plain = false;
#endif

inline InstructionSet instruction_set() {
#if !defined(ISOTHERM_TSAN)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("bmi2")) {
    return InstructionSet::avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) {
    return InstructionSet::avx2;
  }
#endif
  return InstructionSet::plain;
}

}  // namespace isotherm
