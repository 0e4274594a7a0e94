#include "isotherm/bitfield.h"

#include <algorithm>

namespace isotherm {
namespace {

__extension__ using Wide = __int128;  // holds every sum of two numbers

// The field as a pattern of bits; those behind the end of the value are zeros.
uint64_t load(const char* value, uint64_t bytes, const BitfieldStep& step) {
  uint64_t pattern = 0;
  for (uint64_t bit = step.offset; bit < step.offset + step.bits; ++bit) {
    const uint64_t byte = bit / 8;
    const auto octet = byte < bytes ? static_cast<uint8_t>(value[byte]) : uint8_t{0};
    pattern = pattern << 1 | (octet >> (7 - bit % 8) & 1);
  }
  return pattern;
}

void store(char* value, const BitfieldStep& step, uint64_t pattern) {
  for (uint64_t bit = step.offset + step.bits; bit-- > step.offset; pattern >>= 1) {
    const auto mask = static_cast<uint8_t>(1 << (7 - bit % 8));
    const auto octet = static_cast<uint8_t>(value[bit / 8]);
    value[bit / 8] = static_cast<char>((pattern & 1) != 0 ? octet | mask : octet & ~mask);
  }
}

// The number that the low bits of a pattern are in the field.
int64_t number_of(const BitfieldStep& step, uint64_t pattern) {
  const int unused = 64 - step.bits;
  pattern <<= unused;
  return step.is_signed ? static_cast<int64_t>(pattern) >> unused
                        : static_cast<int64_t>(pattern >> unused);
}

// What the step would store if fields had no bounds. A negative number that is set in an unsigned
// field counts as one above all bounds.
Wide wanted(const BitfieldStep& step, int64_t before) {
  if (step.kind == BitfieldStep::Kind::add) return Wide{before} + step.operand;
  return step.is_signed ? Wide{step.operand} : Wide{static_cast<uint64_t>(step.operand)};
}

// The pattern that a step which writes leaves in its field; notes its result.
uint64_t written(BitfieldStep& step, uint64_t pattern) {
  const int64_t before = number_of(step, pattern);
  const int magnitude = step.is_signed ? step.bits - 1 : step.bits;
  const Wide most = (Wide{1} << magnitude) - 1;
  const Wide least = step.is_signed ? -most - 1 : 0;
  Wide number = wanted(step, before);
  step.stored = true;
  if (number < least || number > most) {
    switch (step.overflow) {
      case BitfieldStep::Overflow::fail:
        step.stored = false;
        return pattern;
      case BitfieldStep::Overflow::saturate:
        number = std::clamp(number, least, most);
        break;
      case BitfieldStep::Overflow::wrap:
        break;
    }
  }
  const uint64_t after = static_cast<uint64_t>(number) & ~uint64_t{0} >> (64 - step.bits);
  step.result = step.kind == BitfieldStep::Kind::add ? number_of(step, after) : before;
  return after;
}

// The same of any step.
uint64_t run(BitfieldStep& step, uint64_t pattern) {
  if (step.kind != BitfieldStep::Kind::get) return written(step, pattern);
  step.result = number_of(step, pattern);
  return pattern;
}

}  // namespace

bool are_fields(std::span<const BitfieldStep> steps) {
  return std::ranges::all_of(steps, [](const BitfieldStep& step) {
    return step.bits != 0 && step.bits <= (step.is_signed ? 64 : 63) &&
           step.offset < uint64_t{1} << 60;
  });
}

uint64_t bitfield_bytes(std::span<const BitfieldStep> steps) {
  uint64_t bits = 0;
  for (const BitfieldStep& step : steps) {
    if (step.kind != BitfieldStep::Kind::get) bits = std::max(bits, step.offset + step.bits);
  }
  return (bits + 7) / 8;
}

void run_bitfield(std::span<BitfieldStep> steps, char* value, uint64_t bytes) {
  for (BitfieldStep& step : steps) {
    const uint64_t before = load(value, bytes, step);
    const uint64_t after = run(step, before);
    if (after != before) store(value, step, after);
  }
}

bool read_bitfield(std::span<BitfieldStep> steps, const char* value, uint64_t bytes) {
  for (BitfieldStep& step : steps) {
    const uint64_t before = load(value, bytes, step);
    if (run(step, before) != before) return false;
  }
  return true;
}

}  // namespace isotherm
