#include "items/compactor.h"

#include <map>
#include <random>

#include "items/item_store_fixture.h"
#include "items/poison.h"

namespace isotherm::compactor_test {
namespace {

struct CompactorTest : ItemStoreFixture {
  explicit CompactorTest(uint64_t limit = 0) : ItemStoreFixture(limit) {}

  // One call as a server makes it; false when nothing was moved.
  uint32_t compact(uint32_t limit = 256) {
    uint32_t looked = 0;
    {
      const EpochGuard guard(epochs, *slot);
      looked = store->compact(limit, [&](Location from) { return move(from); });
    }
    cache->reclaim();
    return looked;
  }
  bool move(Location from) {
    const uint64_t bytes = store->item(from)->bytes();
    const Location to = cache->allocate(bytes);
    if (to == location::none) return false;
    EXPECT_NE(Chunk::number(to), Chunk::number(from));
    std::memcpy(store->address(to), store->address(from), bytes);
    store->set_live(to);
    const auto key = std::string(store->item(from)->key());
    EXPECT_EQ(index.at(key), from);
    index[key] = to;
    cache->retire(from);
    return true;
  }
  void fill(uint32_t count, uint64_t value_bytes) {
    for (uint32_t i = 0; i < count; ++i) {
      const std::string key = std::to_string(filled++);
      const Location location = put(key, value_bytes);
      if (location == location::none) return;
      index[key] = location;
    }
  }
  void erase_random(double share) {
    std::mt19937_64 random(5);
    std::bernoulli_distribution gone(share);
    for (auto at = index.begin(); at != index.end();) {
      if (!gone(random)) {
        ++at;
        continue;
      }
      cache->retire(at->second);
      at = index.erase(at);
    }
    settle();
  }
  void check_all() {
    for (const auto& [key, location] : index) {
      ASSERT_EQ(store->item(location)->key(), key);
      ASSERT_TRUE(store->is_live(location));
    }
  }

  std::map<std::string, Location> index;
  uint64_t filled = 0;
};

struct CappedCompactorTest : CompactorTest {
  static constexpr uint64_t cap = (poison::sanitized ? 6 : 32) << 20;
  CappedCompactorTest() : CompactorTest(cap) {}
};

TEST_F(CompactorTest, ADenseStoreIsLeftAlone) {
  fill(50000, 32);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(compact(), 0u);
}

TEST_F(CompactorTest, SparseChunksGoBack) {
  fill(200000, 32);
  const uint64_t full = chunks();
  erase_random(0.9);
  const uint64_t sparse = chunks();
  EXPECT_GT(sparse, full * 9 / 10);
  const uint64_t used = budget.used();
  for (int i = 0; i < 5000; ++i) ASSERT_LE(compact(), 256u);
  EXPECT_LE(chunks(), sparse / 5);
  EXPECT_LT(budget.used(), used / 3);
  check_all();
}

TEST_F(CompactorTest, CachedItemsOfAnotherThreadFindTheirWayBack) {
  ItemCache other(*store);
  std::vector<Location> held;
  fill(20000, 32);
  for (int i = 0; i < 100; ++i) held.push_back(other.allocate(64));
  for (const Location location : held) other.free_unpublished(location);
  erase_random(0.95);
  const uint64_t sparse = chunks();
  for (int i = 0; i < 2000; ++i) {
    compact();
    other.reclaim();
  }
  EXPECT_LE(chunks(), sparse / 2);
  check_all();
}

TEST_F(CompactorTest, NothingIsHandedOutOfAClosedChunk) {
  fill(50000, 32);
  erase_random(0.8);
  // `move` expects that the new place is not in the old chunk; here the new items of all other
  // writes, too.
  for (int i = 0; i < 300; ++i) {
    compact(16);
    fill(10, 32 + static_cast<uint64_t>(i % 2));
  }
  check_all();
}

TEST_F(CompactorTest, WithoutMemoryTheChunkOpensAgain) {
  fill(50000, 32);
  erase_random(0.8);
  const EpochGuard guard(epochs, *slot);
  for (int i = 0; i < 100; ++i) store->compact(64, [](Location) { return false; });
  check_all();
}

// A store full of small items takes large ones after some of the small ones went.
TEST_F(CappedCompactorTest, AClassThatShrankServesAnother) {
  fill(1000000, 32);
  erase_random(0.7);
  EXPECT_LE(budget.used(), budget.limit());
  const auto before = index.size();
  for (int i = 0; i < (poison::sanitized ? 2000 : 20'000); ++i) compact();
  constexpr uint32_t large = cap / 3400;
  fill(large, 1500);
  EXPECT_GT(index.size(), before + large / 100 * 99);
  EXPECT_LE(budget.used(), budget.limit());
  check_all();
}

}  // namespace
}  // namespace isotherm::compactor_test
