// The order of keys, as kernels compare them, beside that of std::string.
#include "gpu/sorted/sorted_key.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "device_checks/sorted_checks.h"

namespace isotherm::sorted_key_test {
namespace {

int sign(int number) { return (number > 0) - (number < 0); }

// A key as records have it, with a value behind it that is no part of it.
struct InRecord {
  explicit InRecord(const std::string& key) : words(words_of(key.size()), 0) {
    words.push_back(~uint64_t{0});
    std::memcpy(words.data(), key.data(), key.size());
    view = {words.data(), static_cast<uint32_t>(key.size())};
  }
  std::vector<uint64_t> words;
  StoredKey view;
};

// And as columns have it, from any address on.
struct InColumn {
  InColumn(const std::string& key, size_t skip) : bytes(64 + key.size() + 64, '\xee') {
    const char* const data = bytes.data() + skip;
    bytes.replace(skip, key.size(), key);
    view = {data, static_cast<uint32_t>(key.size()), {bytes.data(), bytes.data() + bytes.size()}};
  }
  std::string bytes;
  AskedKey view;
};

TEST(SortedKeys, HaveTheOrderOfTheirBytes) {
  SortedKeys source(1);
  const std::vector<std::string> keys = source.keys(300);
  for (const std::string& a : keys) {
    const InRecord stored(a);
    for (const std::string& b : keys) {
      const int wanted = sign(a.compare(b));
      EXPECT_EQ(sign(compare_keys(stored.view, InRecord(b).view)), wanted);
      const InColumn asked(b, source.below(32));
      EXPECT_EQ(sign(compare_keys(stored.view, asked.view)), wanted);
      EXPECT_EQ(sign(compare_keys(asked.view, stored.view)), -wanted);
    }
  }
}

TEST(SortedKeys, HavePrefixesInTheSameOrder) {
  SortedKeys source(2);
  const std::vector<std::string> keys = source.keys(300);
  for (const std::string& text : {std::string(), std::string("12345678"), std::string("123"),
                                  std::string(9, '\0'), std::string(8, '\xff')}) {
    const KeyFront front = KeyFront::of(text);
    uint32_t different = 0;
    for (const std::string& a : keys) {
      const uint64_t prefix = front.prefix(InRecord(a).view);
      EXPECT_EQ(prefix, front.prefix(InColumn(a, 5).view));
      EXPECT_EQ(prefix, front.prefix(HostKey{a.data(), static_cast<uint32_t>(a.size())}));
      for (const std::string& b : keys) {
        const uint64_t other = front.prefix(InRecord(b).view);
        EXPECT_TRUE(prefix <= other || b < a);
        different += prefix != other ? 1 : 0;
      }
    }
    EXPECT_GT(different, 0u) << text;
  }
}

TEST(SortedKeys, ThatBeginWithTheFrontAreToldApartByWhatFollows) {
  const std::string text("i\0\0\0\0user:", 10);
  const KeyFront front = KeyFront::of(text);
  EXPECT_EQ(front.prefix(InRecord(text + "12345678, and more").view), 0x3132333435363738u);
  EXPECT_EQ(front.prefix(InRecord(text).view), 0u);
  EXPECT_EQ(front.prefix(InRecord("i").view), 0u);
  EXPECT_EQ(front.prefix(InRecord("m").view), ~uint64_t{0});
}

}  // namespace
}  // namespace isotherm::sorted_key_test
