#include "base/bytes.h"

#include <gtest/gtest.h>

#include <string>

namespace isotherm::bytes_test {
namespace {

TEST(Bytes, EveryLengthIsCopiedWhole) {
  for (size_t size = 0; size <= 200; ++size) {
    std::string from(size, ' ');
    for (size_t i = 0; i < size; ++i) from[i] = static_cast<char>('!' + i % 90);
    std::string to(size + 2, '.');
    copy_bytes(to.data() + 1, from.data(), size);
    EXPECT_EQ(to, '.' + from + '.');
  }
}

TEST(Bytes, EveryByteIsCompared) {
  for (size_t size = 0; size <= 70; ++size) {
    const std::string one(size, 'a');
    EXPECT_TRUE(equal_bytes(one.data(), std::string(one).data(), size));
    for (size_t i = 0; i < size; ++i) {
      std::string other = one;
      other[i] = 'b';
      EXPECT_FALSE(equal_bytes(one.data(), other.data(), size)) << size << ' ' << i;
    }
  }
}

}  // namespace
}  // namespace isotherm::bytes_test
