// GrowthShare: the lines that a thread still has to move for what it has written.
//
// The threads that fill an index also make it grow. Each pays half a line a write (three times what
// growth needs) after its batches, in steps of at most most_lines, so that the index keeps up with
// batches of any size and with any number of threads, whose steps run side by side.
//
// Threads. One.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>

#include "index/line_index.h"

namespace isotherm {

class GrowthShare {
 public:
  static constexpr uint64_t least_lines = 64;  // of a step
  static constexpr uint64_t most_lines = 1024;
  // A thread owes no more than this: nobody has to make up for a burst at once.
  static constexpr uint64_t most_owed = 1 << 15;

  void add(uint64_t writes) { owed_ = std::min(owed_ + writes / 2, most_owed); }

  // Moves lines until all is paid, nothing is left to move, or memory fails; true while there is
  // more.
  bool pay(LineIndex& index) {
    while (index.wants_step()) {
      const auto lines = static_cast<uint32_t>(std::clamp(owed_, least_lines, most_lines));
      if (!step(index, lines)) break;
      owed_ -= std::min<uint64_t>(owed_, lines);
      if (owed_ == 0) return true;
    }
    owed_ = 0;
    return false;
  }

 private:
  static bool step(LineIndex& index, uint32_t lines) {
    try {
      return index.step(lines);
    } catch (const std::bad_alloc&) {  // the writes have succeeded; later ones go on with it
      return false;
    }
  }

  uint64_t owed_ = 0;
};

}  // namespace isotherm
