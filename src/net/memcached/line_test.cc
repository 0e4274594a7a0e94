#include "net/memcached/line.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>

#include "isotherm/batch.h"

namespace isotherm::net::memcached_line_test {
namespace {

std::optional<uint64_t> unsigned_of(std::string_view word) {
  uint64_t value = 0;
  return parse_unsigned(word, value) ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> signed_of(std::string_view word) {
  int64_t value = 0;
  return parse_signed(word, value) ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> expiry_of(std::string_view word, int64_t now_ms) {
  int64_t value = 0;
  return parse_expiry(word, now_ms, value) ? std::optional(value) : std::nullopt;
}

TEST(MemcachedLine, WordsAreSeparatedBySpacesOnly) {
  const Words words = split_words("  set  a\tb 0\r ");
  ASSERT_EQ(words.count, 3u);
  EXPECT_EQ(words[0], "set");
  EXPECT_EQ(words[1], "a\tb");
  EXPECT_EQ(words.last(), "0\r");
  EXPECT_EQ(split_words("").count, 0u);
  EXPECT_EQ(split_words("   ").count, 0u);
}

TEST(MemcachedLine, NoMoreWordsThanTheCapacity) {
  EXPECT_EQ(split_words("1 2 3 4 5 6 7").count, 7u);
  EXPECT_EQ(split_words("1 2 3 4 5 6 7 8").count, Words::capacity);
  EXPECT_EQ(split_words("1 2 3 4 5 6 7 8 9").count, Words::capacity);
}

TEST(MemcachedLine, TakeWordLeavesTheRest) {
  std::string_view text = " one two";
  EXPECT_EQ(take_word(text), "one");
  EXPECT_EQ(text, " two");
  EXPECT_EQ(take_word(text), "two");
  EXPECT_EQ(take_word(text), "");
  EXPECT_EQ(take_word(text), "");
}

TEST(MemcachedLine, UnsignedAsStrtoullReadsIt) {
  EXPECT_EQ(unsigned_of("0"), 0u);
  EXPECT_EQ(unsigned_of("+5"), 5u);
  EXPECT_EQ(unsigned_of("\t5"), 5u);
  EXPECT_EQ(unsigned_of("5\tx"), 5u);
  EXPECT_EQ(unsigned_of("-0"), 0u);
  EXPECT_EQ(unsigned_of("000000000000000000000000000012"), 12u);
  EXPECT_EQ(unsigned_of("18446744073709551615"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(unsigned_of("-18446744073709551615"), 1u);
  for (const char* bad :
       {"", "x", "-1", "\t", "+", "-", "--1", "1x", "1.0", "0x1", "1-", "18446744073709551616",
        "-18446744073709551616", "9223372036854775808\t-"}) {
    EXPECT_EQ(unsigned_of(bad), std::nullopt) << bad;
  }
}

TEST(MemcachedLine, SignedToItsLimits) {
  EXPECT_EQ(signed_of("-1"), -1);
  EXPECT_EQ(signed_of("9223372036854775807"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(signed_of("-9223372036854775808"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(signed_of("9223372036854775808"), std::nullopt);
  EXPECT_EQ(signed_of("-9223372036854775809"), std::nullopt);
  EXPECT_EQ(signed_of("noreply"), std::nullopt);
}

TEST(MemcachedLine, FlagsKeepThirtyTwoBits) {
  uint32_t flags = 0;
  EXPECT_TRUE(parse_flags("4294967295", flags));
  EXPECT_EQ(flags, 4294967295u);
  EXPECT_TRUE(parse_flags("4294967297", flags));
  EXPECT_EQ(flags, 1u);
  EXPECT_FALSE(parse_flags("-1", flags));
}

TEST(MemcachedLine, ExpiryIsRelativeUpToThirtyDays) {
  constexpr int64_t now = 1'700'000'000'500;
  EXPECT_EQ(expiry_of("0", now), no_expiry);
  EXPECT_EQ(expiry_of("10", now), now + 10'000);
  EXPECT_EQ(expiry_of("2592000", now), now + 2'592'000'000);
  EXPECT_EQ(expiry_of("2592001", now), 2'592'001'000);
  EXPECT_EQ(expiry_of("1700000010", now), 1'700'000'010'000);
  EXPECT_EQ(expiry_of("4102444800", now), 4'102'444'800'000);
  EXPECT_EQ(expiry_of("x", now), std::nullopt);
}

// Some clients send a negative number as the 32 bits that stand for it.
TEST(MemcachedLine, ANegativeExpiryOf32BitsHasPassed) {
  constexpr int64_t now = 1'700'000'000'500;
  EXPECT_EQ(expiry_of("4294967295", now), expiry_of("-1", now));
  EXPECT_EQ(expiry_of("4292375296", now), expiry_of("-1", now));
  EXPECT_EQ(expiry_of("4292375295", now), 4'292'375'295'000);
  EXPECT_EQ(expiry_of("4294967296", now), 4'294'967'296'000);
}

TEST(MemcachedLine, ExpiryIsNeverZeroByAccidentAndNeverOverflows) {
  constexpr int64_t now = 1'700'000'000'500;
  for (const char* past : {"-1", "-2147483648", "-9223372036854775808"}) {
    const auto expiry = expiry_of(past, now);
    ASSERT_TRUE(expiry.has_value());
    EXPECT_NE(*expiry, no_expiry);
    EXPECT_LT(*expiry, now);
  }
  EXPECT_GT(*expiry_of("9223372036854775807", now), now);
}

}  // namespace
}  // namespace isotherm::net::memcached_line_test
