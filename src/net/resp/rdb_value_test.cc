#include "net/resp/rdb_value.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/crc64.h"

namespace isotherm::net::rdb_value_test::rdb_value_test {
namespace {

constexpr uint64_t most_bytes = 1 << 20;

std::string dumped(std::string_view value) {
  const Dump dump = dump_value(value);
  const std::string whole = dump.head + std::string(dump.body()) + dump.foot;
  EXPECT_EQ(whole.size(), dump.size());
  return whole;
}

Restored restored(std::string_view payload, std::string* value = nullptr) {
  std::string made;
  std::string_view found;
  const Restored outcome = restore_value(payload, most_bytes, made, found);
  if (value != nullptr) *value = found;
  return outcome;
}

// The content with the version and the checksum that it should have.
std::string sealed(std::string content) {
  content += std::string("\x0a\0", 2);
  const uint64_t crc = crc64(content);
  for (int i = 0; i < 8; ++i) content += static_cast<char>(crc >> (8 * i));
  return content;
}

TEST(RdbValue, ComesBack) {
  std::mt19937_64 random(1);
  std::string values[] = {"",
                          "0",
                          "-1",
                          "127",
                          "128",
                          "-128",
                          "-129",
                          "32767",
                          "32768",
                          "-32769",
                          "2147483647",
                          "2147483648",
                          "-2147483648",
                          "-2147483649",
                          "007",
                          "+1",
                          std::string(63, 'a'),
                          std::string(64, 'b'),
                          std::string(16'383, 'c'),
                          std::string(16'384, 'd'),
                          std::string(70'000, 'e')};
  for (const size_t size : {20, 63, 64, 300, 16'383, 16'384, 70'000}) {
    for (std::string& value : values) {
      std::string back;
      ASSERT_EQ(restored(dumped(value), &back), Restored::ok);
      ASSERT_EQ(back, value);
    }
    values[0].assign(size, '\0');
    for (char& c : values[0]) c = static_cast<char>(random());
  }
}

TEST(RdbValue, KeepsIntegersAndRepetitionsShort) {
  EXPECT_EQ(dumped("100").size(), 1 + 2 + 10u);
  EXPECT_EQ(dumped("-30000").size(), 1 + 3 + 10u);
  EXPECT_EQ(dumped("2000000000").size(), 1 + 5 + 10u);
  EXPECT_LT(dumped(std::string(100'000, 'x')).size(), 2000u);
}

TEST(RdbValue, EveryChangedBitAndEveryCutIsNoticed) {
  for (const std::string& value : {std::string("hello"), std::string("77"), std::string(90, 'x')}) {
    const std::string payload = dumped(value);
    for (size_t bit = 0; bit < payload.size() * 8; ++bit) {
      std::string changed = payload;
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
      EXPECT_EQ(restored(changed), Restored::unverified) << bit;
    }
    for (size_t size = 0; size < payload.size(); ++size) {
      EXPECT_EQ(restored(payload.substr(0, size)), Restored::unverified) << size;
    }
  }
}

TEST(RdbValue, LaterVersionsAreRefusedAndEarlierOnesTaken) {
  for (int version = 0; version < 20; ++version) {
    std::string content("\0\x01v", 3);
    content += static_cast<char>(version);
    content += '\0';
    const uint64_t crc = crc64(content);
    for (int i = 0; i < 8; ++i) content += static_cast<char>(crc >> (8 * i));
    EXPECT_EQ(restored(content), version <= 10 ? Restored::ok : Restored::unverified) << version;
  }
}

TEST(RdbValue, LengthsBeyondTheLimitTakeNoMemory) {
  using namespace std::string_literals;
  for (const std::string& content :
       {"\0\x81\xff\xff\xff\xff\xff\xff\xff\xff"s,  // a string of 2^64 - 1 bytes
        "\0\x80\xff\xff\xff\xff"s, "\0\xc3\x02\x81\xff\xff\xff\xff\xff\xff\xff\xff\0a"s,
        "\0\xc3\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01\0a"s,  // packed in so many
        "\0\xc3\x03\x80\x00\x0f\xff\xff\xe0\xff\0"s,           // more than could be packed
        "\0\x90"s, "\0\xc4\0"s, "\x01\0"s, "\x0e"s}) {
    EXPECT_EQ(restored(sealed(content)), Restored::malformed);
  }
  EXPECT_EQ(restored(sealed("\0\x80"s + "\0\x10\0\x01"s + std::string(most_bytes + 1, 'x'))),
            Restored::malformed);
}

// With the right checksum around it, any content at all is a value within the limit or malformed.
TEST(RdbValue, AnyContentIsSafe) {
  std::mt19937 random(3);
  int good = 0;
  for (int trial = 0; trial < 50'000; ++trial) {
    std::string content(1 + random() % 40, '\0');
    for (char& c : content) c = static_cast<char>(random() % 3 == 0 ? random() : random() % 12);
    if (random() % 8 != 0) content[0] = 0;
    if (content.size() > 1 && random() % 2 == 0)
      content[1] = static_cast<char>(0xC0 + random() % 5);
    std::string value;
    const Restored outcome = restored(sealed(content), &value);
    ASSERT_NE(outcome, Restored::unverified);
    if (outcome != Restored::ok) continue;
    ++good;
    ASSERT_LE(value.size(), most_bytes);
    std::string back;
    ASSERT_EQ(restored(dumped(value), &back), Restored::ok);
    ASSERT_EQ(back, value);
  }
  EXPECT_GT(good, 1000);
}

}  // namespace
}  // namespace isotherm::net::rdb_value_test::rdb_value_test
