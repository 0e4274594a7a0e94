#include "gpu/table/fixed_loops.h"

#include "base/instruction_set.h"

namespace isotherm {

const FixedLoops& fixed_loops() {
  if constexpr (!only_plain) {
    switch (instruction_set()) {
      case InstructionSet::avx512:
        return fixed_loops_avx512;
      case InstructionSet::avx2:
        return fixed_loops_avx2;
      case InstructionSet::plain:
        break;
    }
  }
  return fixed_loops_plain;
}

}  // namespace isotherm
