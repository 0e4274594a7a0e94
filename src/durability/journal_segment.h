// JournalSegment: where a segment of a journal begins: all that was appended before is in those
// before it, and on disk.
#pragma once

#include <cstdint>

namespace isotherm {

struct JournalSegment {
  uint64_t lsn = 0;
  uint64_t number = 0;  // 0: none
};

}  // namespace isotherm
