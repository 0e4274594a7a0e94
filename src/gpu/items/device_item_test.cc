// The words of an item before its key, of all shapes.
#include "gpu/items/device_item.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace isotherm::device_item_test {
namespace {

ItemHead written(const ItemShape& shape, std::vector<uint64_t>& words, bool on_host = false) {
  words.assign(shape.head_words() + 1, 7);
  shape.write(words.data(), on_host);
  EXPECT_EQ(words.back(), 7u);
  return ItemHead::of(reinterpret_cast<uint64_t>(words.data()));
}

TEST(DeviceItem, TellsWhatItWasMadeOf) {
  std::vector<uint64_t> words;
  for (const uint32_t key : {0u, 1u, 16u, 255u, 256u, 65'535u}) {
    for (const uint32_t value : {0u, 64u, 2'047u, 2'048u, 8u << 20}) {
      for (const uint64_t version :
           {uint64_t{1} << 19, uint64_t{5} << 19 | 3, uint64_t{1} << 59, ~uint64_t{0}}) {
        for (const int64_t expiry :
             {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
          for (const uint32_t flags : {0u, ~0u}) {
            const ItemShape shape{key, value, version, expiry, flags, value == 64};
            const ItemHead item = written(shape, words, key == 16);
            EXPECT_EQ(item.key_bytes, key);
            EXPECT_EQ(item.value_bytes, value);
            EXPECT_EQ(item.version(), version);
            EXPECT_EQ(item.expiry(), expiry);
            EXPECT_EQ(item.flags(), flags);
            EXPECT_EQ(item.next(), 0u);
            EXPECT_EQ(item.bytes(), shape.bytes());
            EXPECT_EQ(item.key(), words.data() + shape.head_words());
            EXPECT_EQ(item_classes::is_on_host(item.list()), key == 16);
          }
        }
      }
    }
  }
}

TEST(DeviceItem, TakesEightBytesBesideKeyAndValueWhereItNeedsNoMore) {
  const uint64_t version = uint64_t{1} << 40;
  EXPECT_EQ((ItemShape{16, 64, version}.bytes()), 88u);
  EXPECT_EQ((ItemShape{255, 2'047, version}.bytes()), 8u + 256 + 2'048);
  EXPECT_EQ((ItemShape{256, 64, version}.bytes()), 16u + 256 + 64);
  EXPECT_EQ((ItemShape{16, 64, version, 1}.bytes()), 104u);
  EXPECT_EQ((ItemShape{16, 64, version, 1, 1, true}.bytes()), 120u);
}

TEST(DeviceItem, MarksAndLinksLeaveTheRest) {
  std::vector<uint64_t> words;
  const ItemShape shape{3, 4, uint64_t{9} << 19, 5, 6, true};
  const ItemHead item = written(shape, words);
  item.mark_read();
  ItemHead::set_next(item.location, 77);
  const ItemHead now = ItemHead::of(item.location);
  EXPECT_EQ(now.head, item.head | item_head::read_bit);
  EXPECT_EQ(now.next(), 77u);
  EXPECT_EQ(now.expiry(), 5);
  EXPECT_EQ(now.flags(), 6u);
  EXPECT_EQ(now.version(), shape.version);
}

}  // namespace
}  // namespace isotherm::device_item_test
