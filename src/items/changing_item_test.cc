// The lease of a value that may change where it lies: many readers, or one writer.
#include "items/changing_item.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "items/item_store_fixture.h"
#include "items/objects.h"

namespace isotherm::changing_item_test {
namespace {

using Writing = ChangingItem::Writing;

class ChangingItemTest : public ItemStoreFixture {
 protected:
  // One that is not live, for its memory to be freed at the end.
  ChangingItemTest() {
    const Item::Parts parts{.key = "key", .value_bytes = 50'000};
    location = cache->allocate(parts.bytes());
    item = Item::create(store->address(location), parts);
    item->set_version(7);
    item->let_change();
  }
  ~ChangingItemTest() override { cache->free_unpublished(location); }

  Location location;
  Item* item;
};

TEST_F(ChangingItemTest, IsAStringThatNoShortWayTakes) {
  EXPECT_EQ(item->type(), ValueType::string);
  EXPECT_FALSE(item->is_object());
  EXPECT_FALSE(item->is_bare());
  EXPECT_FALSE(item->is_plain());
  EXPECT_FALSE(item->is_shown_at_once());
  EXPECT_EQ(Objects::version_of(*item), 7u);
  ChangingItem::set_version(*item, 9);
  EXPECT_EQ(Objects::version_of(*item), 9u);
}

TEST_F(ChangingItemTest, NobodyWritesWhileOthersRead) {
  EXPECT_TRUE(Writing(location));
  ChangingItem::share(location);
  EXPECT_FALSE(Writing(location));
  ItemStore::keep(location);
  store->let_go(location);
  EXPECT_FALSE(Writing(location));
  store->let_go(location);
  store->touch(location);
  {
    const Writing first(location);
    EXPECT_TRUE(first);
    EXPECT_FALSE(Writing(location));
  }
  ChangingItem::fix(location);
  EXPECT_FALSE(Writing(location));
}

TEST_F(ChangingItemTest, HasRoomForWhatItsBlockHolds) {
  const Item::Parts parts{.key = "key", .value_bytes = 100'000};
  for (const uint64_t room : {0, 12'345}) {
    const Location its = cache->allocate(parts.bytes() + room);
    Item& grows = *Item::create(store->address(its), parts);
    const uint64_t most = ChangingItem::most_value_bytes(grows);
    EXPECT_GE(most, parts.value_bytes + room);
    std::fill_n(grows.value_data(), most, 'a');
    grows.lengthen_value(most);
    EXPECT_EQ(grows.value(), std::string(most, 'a'));
    EXPECT_LE(grows.bytes(), ItemStore::footprint(its));
    EXPECT_EQ(ChangingItem::most_value_bytes(grows), most);
    cache->free_unpublished(its);
  }
  const Item::Parts with_state{.key = "key", .value_bytes = 100'000, .state = 1};
  const Location its = cache->allocate(with_state.bytes() + 1000);
  const Item& stays = *Item::create(store->address(its), with_state);
  EXPECT_EQ(ChangingItem::most_value_bytes(stays), 100'000u);
  cache->free_unpublished(its);
}

TEST_F(ChangingItemTest, ReadersSeeWholeChanges) {
  constexpr uint64_t bytes = 5000;
  std::fill_n(item->value_data(), bytes, 'a');
  std::atomic<uint64_t> written{0};
  std::thread writer([&] {
    for (uint64_t i = 1; written.load() < 50; ++i) {
      const Writing writing(location);
      if (!writing) continue;
      std::fill_n(item->value_data(), bytes, static_cast<char>('a' + i % 26));
      ChangingItem::set_version(*item, i);
      ++written;
    }
  });
  while (written.load() < 50) {
    ChangingItem::share(location);
    const uint64_t version = ChangingItem::version(*item);
    const std::string_view seen(item->value_data(), bytes);
    EXPECT_TRUE(version == 7 || seen[0] == static_cast<char>('a' + version % 26));
    EXPECT_EQ(seen, std::string(bytes, seen[0]));
    store->let_go(location);
    std::this_thread::yield();
  }
  writer.join();
}

}  // namespace
}  // namespace isotherm::changing_item_test
