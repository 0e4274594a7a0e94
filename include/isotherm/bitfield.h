// Bitfield: integers of any width at any bit of a value.
//
// Layout. Bit 0 is the highest bit of the first byte. A field of `bits` bits at `offset` holds its
// highest bit first, so a field of 8 bits at a multiple of 8 is a byte:
//   byte        0                 1
//   bit         0 1 2 3 4 5 6 7   8 9 …
//   u4 at 6                 └──────┘
//
// Steps read and write fields of one value in their order, each seeing what those before it wrote,
// and hold their own results. Bits behind the end of a value read as zeros. A value that is written
// to grows with zeros to the end of the last field that a step writes, also where the step then
// stores nothing because its number is out of bounds.
//
// Threads. Functions of their arguments. Limits. Signed fields of 1 to 64 bits, unsigned ones of 1
// to 63; offsets below 2^60. A request with any other step is `invalid`, and none of its steps run.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace isotherm {

struct BitfieldStep {
  enum class Kind : uint8_t { get, set, add };
  // What a write that leaves the range of its field does: loses the high bits, stores the nearest
  // bound, or stores nothing.
  enum class Overflow : uint8_t { wrap, saturate, fail };

  Kind kind = Kind::get;
  Overflow overflow = Overflow::wrap;
  bool is_signed = false;
  uint8_t bits = 1;
  uint64_t offset = 0;  // in bits
  int64_t operand = 0;  // set: the new number; add: the difference
  // Results. get, set: the number before; add: the new one. Stored: false where it would overflow.
  int64_t result = 0;
  bool stored = true;
};

// Steps as the value of a request (Batch::bitfield), and back.
inline std::string_view as_value(std::span<BitfieldStep> steps) {
  return {reinterpret_cast<const char*>(steps.data()), steps.size_bytes()};
}
inline std::span<BitfieldStep> bitfield_steps(std::string_view value) {
  auto* steps = const_cast<BitfieldStep*>(reinterpret_cast<const BitfieldStep*>(value.data()));
  return {steps, value.size() / sizeof(BitfieldStep)};
}

// Whether all steps are within the limits; what follows takes no others.
bool are_fields(std::span<const BitfieldStep> steps);

// How long a value must be at least for what the steps write, in bytes; 0: they write nothing.
uint64_t bitfield_bytes(std::span<const BitfieldStep> steps);

// Runs the steps on a value of at least bitfield_bytes(steps).
void run_bitfield(std::span<BitfieldStep> steps, char* value, uint64_t bytes);
// The same without writing. False: a step would change the value, and results do not hold.
bool read_bitfield(std::span<BitfieldStep> steps, const char* value, uint64_t bytes);

}  // namespace isotherm
