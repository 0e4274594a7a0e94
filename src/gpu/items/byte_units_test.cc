#include "gpu/items/byte_units.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace isotherm::byte_units_test {
namespace {

// 64 bytes, none of them 0, at a multiple of 16.
struct alignas(16) Bytes {
  Bytes() {
    for (int i = 0; i < 64; ++i) at[i] = static_cast<char>(i * 3 + 1);
  }
  char at[64];
};

TEST(ByteUnits, AUnitIsReadFromAnyAddressInAnyLength) {
  const Bytes bytes;
  for (uint64_t from = 0; from < 48; ++from) {
    for (uint32_t length = 1; length <= 16; ++length) {
      char right[16] = {};
      std::memcpy(right, bytes.at + from, length);
      // With room on both sides, on one, on none.
      for (const ByteRange readable :
           {ByteRange{bytes.at, bytes.at + 64}, ByteRange{bytes.at, bytes.at + from + length},
            ByteRange{bytes.at + from, bytes.at + from + length}}) {
        const Pair unit = load_unit(bytes.at + from, length, readable);
        EXPECT_EQ(std::memcmp(&unit, right, 16), 0) << from << " " << length;
      }
    }
  }
}

TEST(ByteUnits, BytesAreStoredAndNoOthers) {
  Pair unit;
  std::memcpy(&unit, Bytes().at, sizeof unit);
  for (uint32_t from = 0; from < 8; ++from) {
    for (uint32_t length = 1; length < 16; ++length) {
      char to[32] = {};
      store_bytes(to + from, unit, length);
      char right[32] = {};
      std::memcpy(right + from, Bytes().at, length);
      EXPECT_EQ(std::memcmp(to, right, sizeof to), 0);
    }
  }
}

TEST(ByteUnits, RowsOutsideTheirColumnAreNotTaken) {
  const std::vector<int64_t> offsets = {4, 10, 10, 8, 30, 20};
  const BytesView view{offsets.data(), &offsets.front(), &offsets.back(), nullptr, 0};
  EXPECT_TRUE(view.takes(0, 6));
  EXPECT_FALSE(view.takes(0, 5));  // too long
  EXPECT_TRUE(view.takes(1, 0));
  EXPECT_FALSE(view.takes(2, 100));  // falls
  EXPECT_FALSE(view.takes(3, 100));  // ends behind the column
  EXPECT_FALSE(view.takes(4, 100));
  const int64_t begin = 9;
  const BytesView late{offsets.data(), &begin, &offsets.back(), nullptr, 0};
  EXPECT_FALSE(late.takes(0, 100));  // begins before it
  EXPECT_FALSE(BytesView{}.takes(0, 100));
}

}  // namespace
}  // namespace isotherm::byte_units_test
