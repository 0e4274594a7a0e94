// in_turns: the parts of a call, on their way through channels that they take turns in.
//
// begin(part, channel) queues a part, end(part, channel) waits for what the host needs of it. Both
// are called in the order of the parts, and at most `ahead` parts have begun and not ended; so the
// way in, the device and the way out overlap for successive parts (Mega-KV, section 4.3). A channel
// is used again when its part has ended.
#pragma once

#include <cstdint>

namespace isotherm {

template <class Begin, class End>
void in_turns(uint64_t parts, uint64_t channels, uint64_t ahead, Begin&& begin, End&& end) {
  for (uint64_t begun = 0, ended = 0; ended < parts;) {
    if (begun < parts && begun - ended < ahead) {
      begin(begun, begun % channels);
      ++begun;
    } else {
      end(ended, ended % channels);
      ++ended;
    }
  }
}

// The parts of so many rows.
constexpr uint64_t parts_of(uint64_t rows, uint64_t part_rows) {
  return (rows + part_rows - 1) / part_rows;
}

}  // namespace isotherm
