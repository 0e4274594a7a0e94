#include "net/memcached_prefixes.h"

#include <gtest/gtest.h>

namespace isotherm::net::memcached_prefixes_test {
namespace {

TEST(MemcachedPrefixes, CountsByWhatStandsBeforeTheFirstDelimiter) {
  MemcachedPrefixes prefixes;
  prefixes.note_get("b:1", true);
  prefixes.note_get("b:2:3", false);
  prefixes.note_set("a:1");
  prefixes.note_delete("a:2");
  prefixes.note_set(":x");
  prefixes.note_set("none");
  EXPECT_EQ(prefixes.lines(),
            "PREFIX  get 0 hit 0 set 1 del 0\r\n"
            "PREFIX a get 0 hit 0 set 1 del 1\r\n"
            "PREFIX b get 2 hit 1 set 0 del 0\r\n");
  prefixes.clear();
  EXPECT_EQ(prefixes.lines(), "");
}

TEST(MemcachedPrefixes, AreNoMoreThanSoMany) {
  MemcachedPrefixes prefixes;
  for (size_t i = 0; i <= MemcachedPrefixes::most; ++i) {
    prefixes.note_set(std::to_string(i) + ":");
  }
  prefixes.note_get("0:", true);
  const std::string lines = prefixes.lines();
  EXPECT_NE(lines.find("PREFIX 0 get 1 hit 1 set 1 del 0\r\n"), std::string::npos);
  EXPECT_EQ(lines.find("PREFIX " + std::to_string(MemcachedPrefixes::most)), std::string::npos);
}

}  // namespace
}  // namespace isotherm::net::memcached_prefixes_test
