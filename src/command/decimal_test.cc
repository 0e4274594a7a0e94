#include "command/decimal.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace isotherm::decimal_test::decimal_test {
namespace {

std::string formatted(long double value) {
  static char text[longest_decimal];
  return {text, format_decimal(value, text)};
}

TEST(Decimal, IsWrittenWithoutExponentAndWithoutZerosAtTheEnd) {
  EXPECT_EQ(formatted(0), "0");
  EXPECT_EQ(formatted(-0.0L), "0");
  EXPECT_EQ(formatted(10.5L), "10.5");
  EXPECT_EQ(formatted(-100), "-100");
  EXPECT_EQ(formatted(0.1L + 0.2L), "0.3");
  EXPECT_EQ(formatted(1e-30L), "0");
  EXPECT_EQ(formatted(-1e-30L), "0");
  EXPECT_EQ(formatted(1e21L), "1000000000000000000000");
  EXPECT_LT(formatted(-std::numeric_limits<long double>::max()).size(), longest_decimal);
}

TEST(Decimal, ReadsWhatIsWhollyANumber) {
  long double value = 0;
  for (const char* text : {"1", "+1", "1.", "1e0", "0x1", "10e-1"}) {
    EXPECT_TRUE(parse_decimal(text, value)) << text;
    EXPECT_EQ(value, 1) << text;
  }
  for (const char* text : {"", " 1", "1 ", "\t1", "nan", "1x", "--1", "1e5000", "1e-5000", "."}) {
    EXPECT_FALSE(parse_decimal(text, value)) << text;
  }
  EXPECT_FALSE(parse_decimal(std::string_view("1\0", 2), value));
  EXPECT_FALSE(parse_decimal(std::string(longest_decimal, '1'), value));
  EXPECT_TRUE(parse_decimal("inf", value));
}

}  // namespace
}  // namespace isotherm::decimal_test::decimal_test
