#include "base/crc64.h"

#include <gtest/gtest.h>

#include <string>

namespace isotherm::crc64_test::crc64_test {
namespace {

TEST(Crc64, GivesTheKnownSum) {
  EXPECT_EQ(crc64("123456789"), 0xe9c6d914c4b8d9caU);
  EXPECT_EQ(crc64(""), 0u);
}

TEST(Crc64, GoesOnFromAnyPlace) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += static_cast<char>(i * 37);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(crc64(text.substr(cut), crc64(text.substr(0, cut))), crc64(text));
  }
}

}  // namespace
}  // namespace isotherm::crc64_test::crc64_test
