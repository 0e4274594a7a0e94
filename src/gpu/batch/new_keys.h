// NewKeys: whether the next puts are expected to be of new keys, by what the last ones did.
//
// Keys arrive as they did a moment ago: tables are filled, and later their keys are put again. A
// part of puts that begins with gpu/batch/try_kernels.h saves entering the writers whose keys are
// new, and looks twice for the others, so it pays only where nearly all are new. A wrong guess
// costs time, nothing else.
//
// Threads. One at a time.
#pragma once

#include <cstdint>

namespace isotherm {

enum class TryPuts : uint8_t {
  never,
  where_new,  // by what is expected
  always,
};

struct TryOptions {
  TryPuts when = TryPuts::where_new;
  // Parts with fewer rows do not try where it is by what is expected: they take as long as their
  // kernels take to start, and trying takes more kernels.
  uint32_t least_rows = 1 << 17;

  // Whether a part of so many puts does, whose keys are `expected` to be new or not.
  bool tries(uint64_t rows, bool expected) const {
    if (when != TryPuts::where_new) return when == TryPuts::always;
    return rows >= least_rows && expected;
  }
};

class NewKeys {
 public:
  // A part with `rows` rows, all of them puts, has ended and inserted so many entries.
  void note(uint64_t rows, uint64_t inserted) { expected_ = inserted >= rows - rows / new_of; }
  // Before the first part they are.
  bool expected() const { return expected_; }

 private:
  static constexpr uint64_t new_of = 8;  // one row of so many may have a key that is there
  bool expected_ = true;
};

}  // namespace isotherm
