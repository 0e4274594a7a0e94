#include "net/text.h"

#include <gtest/gtest.h>

namespace isotherm::net::text_test {
namespace {

TEST(TextTest, ReadsIntegersAsRedisDoes) {
  EXPECT_EQ(parse_integer("0"), 0);
  EXPECT_EQ(parse_integer("-1"), -1);
  EXPECT_EQ(parse_integer("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(parse_integer("-9223372036854775808"), INT64_MIN);
  for (const char* text : {"", "-", "-0", "01", "-01", "+1", " 1", "1 ", "1.0", "a", "0x1",
                           "9223372036854775808", "-9223372036854775809"}) {
    EXPECT_FALSE(parse_integer(text).has_value()) << text;
  }
}

TEST(TextTest, IgnoresCaseOfLettersOnly) {
  EXPECT_TRUE(equals_ignoring_case("GeT", "gEt"));
  EXPECT_FALSE(equals_ignoring_case("get", "gets"));
  EXPECT_FALSE(equals_ignoring_case("[", "{"));
}

}  // namespace
}  // namespace isotherm::net::text_test
