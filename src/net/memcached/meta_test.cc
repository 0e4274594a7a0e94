// Flags of meta commands and keys in base64.
#include "net/memcached/meta.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace isotherm::net::memcached_meta_test {
namespace {

constexpr int64_t now_ms = 1'700'000'000'000;

std::string decoded(std::string_view text) {
  std::string bytes(text.size() + 3, '\0');
  bytes.resize(decode_base64(text, bytes.data()));
  return bytes;
}

TEST(MemcachedMeta, Base64GoesThereAndBack) {
  std::mt19937 random(1);
  for (size_t length = 1; length < 200; ++length) {
    std::string bytes(length, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    std::string text;
    encode_base64(bytes, text);
    EXPECT_EQ(text.size(), (length + 2) / 3 * 4);
    EXPECT_EQ(decoded(text), bytes) << length;
  }
}

TEST(MemcachedMeta, Base64IsReadAsMemcachedReadsIt) {
  EXPECT_EQ(decoded("Zm9v"), "foo");
  EXPECT_EQ(decoded("Zm8="), "fo");
  EXPECT_EQ(decoded("Zg=="), "f");
  EXPECT_EQ(decoded("Z\x01m9v!"), "foo") << "what is no letter is skipped";
  EXPECT_EQ(decoded("Zg==Zm9v"), "f") << "what follows the padding is ignored";
  for (const char* wrong : {"", "Zm9", "Zm9vZ", "Z===", "====", "!!"}) {
    EXPECT_EQ(decoded(wrong), "") << wrong;
  }
}

TEST(MemcachedMeta, TheLongestKeyInBase64HasRoom) {
  const std::string text(memcached_key_bytes_max / 4 * 4, 'A');
  MetaCommand command;
  command.key = text;
  EXPECT_EQ(parse_meta_flags("b", now_ms, command), "");
  EXPECT_EQ(command.key, std::string(text.size() / 4 * 3, '\0'));
}

TEST(MemcachedMeta, TheLastOfTwoExpiriesHolds) {
  const auto vivified = [](std::string_view flags) {
    MetaCommand command;
    EXPECT_EQ(parse_meta_flags(flags, now_ms, command), "");
    return (command.vivify_expiry - now_ms) / 1000;
  };
  EXPECT_EQ(vivified("N30"), 30);
  EXPECT_EQ(vivified("N30 T60"), 60);
  EXPECT_EQ(vivified("T60 N30"), 30);
}

TEST(MemcachedMeta, ACommandKeepsItsKeyWhereItIsKept) {
  MetaCommands commands;
  std::vector<MetaCommand*> kept;
  for (int round = 0; round < 2; ++round) {
    kept.clear();
    for (int i = 0; i < 300; ++i) {
      MetaCommand command;
      command.key = i % 2 == 0 ? "Zm9v" : "bar";
      EXPECT_EQ(parse_meta_flags(i % 2 == 0 ? "b" : "", now_ms, command), "");
      kept.push_back(&commands.keep(command));
      command.decoded.fill('x');
    }
    for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept[i]->key, i % 2 == 0 ? "foo" : "bar");
    commands.clear();
  }
}

}  // namespace
}  // namespace isotherm::net::memcached_meta_test
