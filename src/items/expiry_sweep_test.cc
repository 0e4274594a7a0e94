#include "items/expiry_sweep.h"

#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "items/item_store_fixture.h"

namespace isotherm::expiry_sweep_test {
namespace {

struct ExpirySweepTest : ItemStoreFixture {
  // Sweeps until a whole pass is done, retiring what expired.
  uint64_t expire(int64_t now_ms, uint32_t limit = 64) {
    uint64_t expired = 0;
    const EpochGuard guard(epochs, *slot);
    for (int i = 0; i < 3000; ++i) {
      store->sweep_expired(now_ms, limit, [&](Location location) {
        EXPECT_TRUE(store->item(location)->expired(now_ms));
        cache->retire(location);
        ++expired;
        return true;
      });
    }
    return expired;
  }
};

TEST_F(ExpirySweepTest, NothingIsLookedAtBeforeItIsDue) {
  for (int i = 0; i < 5000; ++i) put("key", 20, 1000);
  put("large", 60000, 1000);
  const EpochGuard guard(epochs, *slot);
  const auto visit = [](Location) {
    ADD_FAILURE();
    return true;
  };
  for (int i = 0; i < 100; ++i) EXPECT_EQ(store->sweep_expired(999, 1000, visit), 0u);
}

TEST_F(ExpirySweepTest, EverythingDueIsFoundAndNothingElse) {
  std::mt19937_64 random(3);
  std::vector<int64_t> times;
  for (int i = 0; i < 20000; ++i) {
    const auto at = static_cast<int64_t>(1 + random() % 1000);
    times.push_back(at);
    put("key", random() % 300, at);
    if (i % 3 == 0) put("persistent", random() % 300);
    if (i % 100 == 0) {
      put("large", 60000, at);
      times.push_back(at);
    }
  }
  std::sort(times.begin(), times.end());
  uint64_t so_far = 0;
  for (const int64_t now : {1, 2, 10, 300, 301, 999, 1000}) {
    const auto due =
        static_cast<uint64_t>(std::upper_bound(times.begin(), times.end(), now) - times.begin());
    so_far += expire(now, now % 2 == 0 ? 64 : 7);
    EXPECT_EQ(so_far, due) << now;
  }
  EXPECT_EQ(so_far, times.size());
}

TEST_F(ExpirySweepTest, AnExpiryThatChangedIsFollowed) {
  const Location later = put("later", 20, 100);
  const Location sooner = put("sooner", 20, 5000);
  store->item(later)->set_expiry(300);
  store->note_expiry(later, 300);
  EXPECT_EQ(expire(200), 0u);
  store->item(sooner)->set_expiry(250);
  store->note_expiry(sooner, 250);
  EXPECT_EQ(expire(260), 1u);
  EXPECT_EQ(expire(300), 1u);
}

TEST_F(ExpirySweepTest, WhatTheCallerLeavesStaysDue) {
  for (int i = 0; i < 300; ++i) put("key", 20, 100);
  {
    const EpochGuard guard(epochs, *slot);
    int visits = 0;
    store->sweep_expired(200, 1000, [&](Location) { return ++visits < 10; });
    EXPECT_EQ(visits, 10);
  }
  EXPECT_EQ(expire(200), 300u);
}

// Threads give items expiries while sweeps run; a last sweep must find every one that is left.
TEST_F(ExpirySweepTest, NoExpiryIsForgottenUnderThreads) {
  constexpr int per_thread = 20000;
  std::atomic<uint64_t> expired{0};
  std::atomic<int> running{2};
  const auto write = [&](uint64_t seed) {
    ItemCache own(*store);
    std::mt19937_64 random(seed);
    for (int i = 0; i < per_thread; ++i) {
      Item::Parts parts;
      parts.key = "key";
      parts.value_bytes = random() % 100;
      parts.expiry = 1000000;
      const Location location = own.allocate(parts.bytes());
      Item* item = Item::create(store->address(location), parts);
      store->set_live(location);
      store->note_expiry(location, parts.expiry);
      const auto sooner = static_cast<int64_t>(1 + random() % 1000);
      item->set_expiry(sooner);
      store->note_expiry(location, sooner);
    }
    --running;
  };
  std::thread one(write, 1);
  std::thread two(write, 2);
  const auto retire = [&](Location location) {
    cache->retire(location);
    ++expired;
    return true;
  };
  for (int64_t now = 0; running > 0; now = (now + 13) % 1000) {
    const EpochGuard guard(epochs, *slot);
    store->sweep_expired(now, 50, retire);
  }
  one.join();
  two.join();
  expired += expire(1000);
  EXPECT_EQ(expired, 2u * per_thread);
}

}  // namespace
}  // namespace isotherm::expiry_sweep_test
