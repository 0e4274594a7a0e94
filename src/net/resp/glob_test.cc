#include "net/resp/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace isotherm::net::glob_test {
namespace {

TEST(GlobTest, Matches) {
  EXPECT_TRUE(glob_matches("", ""));
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("***", "abc"));
  EXPECT_TRUE(glob_matches("a*c", "abbbc"));
  EXPECT_TRUE(glob_matches("a*b*c", "aXbYbZc"));
  EXPECT_TRUE(glob_matches("h?llo", "hello"));
  EXPECT_TRUE(glob_matches("h[ae]llo", "hallo"));
  EXPECT_TRUE(glob_matches("h[^e]llo", "hallo"));
  EXPECT_TRUE(glob_matches("h[a-e]llo", "hcllo"));
  EXPECT_TRUE(glob_matches("h[e-a]llo", "hcllo"));
  EXPECT_TRUE(glob_matches("\\*", "*"));
  EXPECT_TRUE(glob_matches("a\\", "a\\"));
  EXPECT_TRUE(glob_matches("[\\]]", "]"));
  EXPECT_TRUE(glob_matches("[abc", "b"));
  EXPECT_TRUE(glob_matches("[^]", "x"));
  EXPECT_TRUE(glob_matches("*[0-9]", "a1b2"));
  EXPECT_TRUE(glob_matches(std::string("a?b", 3), std::string("a\0b", 3)));
}

TEST(GlobTest, DoesNotMatch) {
  EXPECT_FALSE(glob_matches("", "a"));
  EXPECT_FALSE(glob_matches("?", ""));
  EXPECT_FALSE(glob_matches("a*c", "abcd"));
  EXPECT_FALSE(glob_matches("h[^e]llo", "hello"));
  EXPECT_FALSE(glob_matches("[]", "]"));
  EXPECT_FALSE(glob_matches("\\*", "a"));
  EXPECT_FALSE(glob_matches("ABC", "abc"));
}

TEST(GlobTest, MayIgnoreCase) {
  EXPECT_TRUE(glob_matches("MAX*", "maxmemory", true));
  EXPECT_TRUE(glob_matches("[A-C]x", "bX", true));
}

TEST(GlobTest, ManyStarsStayCheap) {
  std::string pattern;
  for (int i = 0; i < 2000; ++i) pattern += "a*";
  EXPECT_FALSE(glob_matches(pattern + "b", std::string(4000, 'a')));
}

}  // namespace
}  // namespace isotherm::net::glob_test
