// ItemStoreFixture: a store with everything it stands on, and one thread's view of it; for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "items/item_store.h"

namespace isotherm {

struct ItemStoreFixture : ::testing::Test {
  explicit ItemStoreFixture(uint64_t limit = 0)
      : budget(limit),
        store(std::make_unique<ItemStore>(pages, budget, epochs)),
        cache(std::make_unique<ItemCache>(*store)),
        slot(epochs.acquire()) {}
  ~ItemStoreFixture() override {
    epochs.release(slot);
    cache.reset();
    store.reset();
    EXPECT_EQ(budget.items.load(), 0);
    EXPECT_EQ(pages.pages_taken(), 0u);
  }

  // A live item.
  Location put(const std::string& key, uint64_t value_bytes, int64_t expiry = no_expiry) {
    Item::Parts parts;
    parts.key = key;
    parts.value_bytes = value_bytes;
    parts.expiry = expiry;
    const Location location = cache->allocate(parts.bytes());
    if (location == location::none) return location;
    Item* item = Item::create(store->address(location), parts);
    std::memset(item->value_data(), 'v', value_bytes);
    store->set_live(location);
    store->note_expiry(location, expiry);
    return location;
  }
  // Frees whatever no reader holds back.
  void settle() {
    for (int i = 0; i < 2000; ++i) cache->reclaim(1 << 20);
  }
  uint64_t chunks() const { return store->memory().chunks / Chunk::bytes; }

  Pages pages;
  MemoryBudget budget;
  EpochDomain epochs;
  std::unique_ptr<ItemStore> store;
  std::unique_ptr<ItemCache> cache;
  EpochDomain::Slot* slot;
};

}  // namespace isotherm
