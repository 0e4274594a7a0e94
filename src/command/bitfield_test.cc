#include "isotherm/bitfield.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace isotherm::bitfield_test::bitfield_test {
namespace {

using Kind = BitfieldStep::Kind;
using Overflow = BitfieldStep::Overflow;

BitfieldStep step(Kind kind, bool is_signed, int bits, uint64_t offset, int64_t operand = 0,
                  Overflow overflow = Overflow::wrap) {
  BitfieldStep made;
  made.kind = kind;
  made.is_signed = is_signed;
  made.bits = static_cast<uint8_t>(bits);
  made.offset = offset;
  made.operand = operand;
  made.overflow = overflow;
  return made;
}

// Runs one step on a value of 32 bytes.
BitfieldStep run(BitfieldStep one, std::string& value) {
  run_bitfield({&one, 1}, value.data(), value.size());
  return one;
}

TEST(Bitfield, FieldsHoldTheirHighestBitFirst) {
  std::string value(4, '\0');
  run(step(Kind::set, false, 8, 8, 0xA5), value);
  EXPECT_EQ(value, std::string("\0\xA5\0\0", 4));
  EXPECT_EQ(run(step(Kind::get, false, 4, 8), value).result, 0xA);
  EXPECT_EQ(run(step(Kind::get, true, 4, 8), value).result, -6);
  EXPECT_EQ(run(step(Kind::get, false, 6, 6), value).result, 0b001010);
}

TEST(Bitfield, ReadsZerosBehindTheEnd) {
  BitfieldStep steps[] = {step(Kind::get, false, 16, 0), step(Kind::get, true, 64, 1000)};
  read_bitfield(steps, "\xFF", 1);
  EXPECT_EQ(steps[0].result, 0xFF00);
  EXPECT_EQ(steps[1].result, 0);
  EXPECT_EQ(bitfield_bytes(steps), 0u);
}

TEST(Bitfield, NeedsTheBytesThatItWrites) {
  const BitfieldStep steps[] = {step(Kind::set, false, 3, 13, 1), step(Kind::get, false, 8, 900),
                                step(Kind::add, true, 8, 9, 1)};
  EXPECT_EQ(bitfield_bytes(steps), 3u);
}

// One field of each width, in the middle of ones and of zeros, against arithmetic in 128 bits.
TEST(Bitfield, WritesStayWithinTheirFieldAndItsRange) {
  __extension__ using Wide = __int128;
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 20'000; ++trial) {
    const bool is_signed = random() % 2 == 0;
    const int bits = 1 + static_cast<int>(random() % (is_signed ? 64 : 63));
    const uint64_t offset = random() % 100;
    const char around = random() % 2 == 0 ? '\0' : '\xFF';
    std::string value(32, around);
    const Wide most = (Wide{1} << (is_signed ? bits - 1 : bits)) - 1;
    const Wide least = is_signed ? -most - 1 : 0;
    const auto any = [&] { return static_cast<int64_t>(random() >> random() % 64); };
    const auto in_range = [&](Wide number) {
      const Wide count = most - least + 1;
      const Wide place = (number - least) % count;
      return least + (place < 0 ? place + count : place);
    };
    const auto before = static_cast<int64_t>(in_range(any()));
    run(step(Kind::set, is_signed, bits, offset, before), value);
    ASSERT_EQ(run(step(Kind::get, is_signed, bits, offset), value).result, before);

    const int64_t delta = random() % 2 == 0 ? any() : -any();
    const auto overflow = static_cast<Overflow>(random() % 3);
    const BitfieldStep added =
        run(step(Kind::add, is_signed, bits, offset, delta, overflow), value);
    const Wide sum = Wide{before} + delta;
    const bool fits = sum >= least && sum <= most;
    Wide expected = sum;
    if (!fits && overflow == Overflow::wrap) expected = in_range(sum);
    if (!fits && overflow == Overflow::saturate) expected = std::clamp(sum, least, most);
    ASSERT_EQ(added.stored, fits || overflow != Overflow::fail);
    if (!added.stored) expected = before;
    if (added.stored) {
      ASSERT_EQ(added.result, static_cast<int64_t>(expected));
    }
    ASSERT_EQ(run(step(Kind::get, is_signed, bits, offset), value).result,
              static_cast<int64_t>(expected));

    // What is around it is as it was.
    run(step(Kind::set, true, bits, offset, around == '\0' ? 0 : -1), value);
    ASSERT_EQ(value, std::string(32, around));
  }
}

TEST(Bitfield, ANegativeNumberIsAboveAnUnsignedField) {
  std::string value(1, '\0');
  EXPECT_EQ(run(step(Kind::set, false, 8, 0, -1, Overflow::saturate), value).result, 0);
  EXPECT_EQ(value, "\xFF");
  EXPECT_FALSE(run(step(Kind::set, false, 8, 0, -1, Overflow::fail), value).stored);
}

}  // namespace
}  // namespace isotherm::bitfield_test::bitfield_test
