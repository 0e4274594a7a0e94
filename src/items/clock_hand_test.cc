#include "items/clock_hand.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <random>
#include <set>
#include <unordered_map>
#include <utility>

#include "items/item_store_fixture.h"
#include "items/poison.h"

namespace isotherm::clock_hand_test {
namespace {

struct ClockHandTest : ItemStoreFixture {
  // Everything that a full round visits.
  std::set<Location> round(bool volatile_only = false) {
    std::set<Location> visited;
    const EpochGuard guard(epochs, *slot);
    for (int i = 0; i < 200; ++i) {
      store->sweep_clock(
          64,
          [&](Location location) {
            visited.insert(location);
            return true;
          },
          volatile_only);
    }
    return visited;
  }
};

TEST_F(ClockHandTest, AnEmptyStoreIsSweptInNoTime) { EXPECT_TRUE(round().empty()); }

TEST_F(ClockHandTest, UsedItemsGetASecondChance) {
  std::vector<Location> all;
  for (int i = 0; i < 3; ++i) all.push_back(put(std::to_string(i), 50000));
  // Large ones are passed over once.
  const EpochGuard first_round(epochs, *slot);
  store->sweep_clock(10, [](Location) { return true; });
  for (int i = 0; i < 100; ++i) all.push_back(put(std::to_string(i), 20));
  std::set<Location> first;
  const auto visit = [&](Location location) {
    first.insert(location);
    return true;
  };
  for (size_t i = 0; i < all.size(); i += 2) store->touch(all[i]);
  uint32_t looked = 0;
  while (looked < all.size()) looked += store->sweep_clock(1, visit);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(first.contains(all[i]), i % 2 == 1) << i;
  for (const Location location : first) cache->retire(location);
  const size_t retired = std::exchange(first, {}).size();
  for (int i = 0; i < 10; ++i) store->sweep_clock(1000, visit);
  EXPECT_EQ(first.size(), all.size() - retired);
}

// Of a crowd that passes, none drives out what was read once before.
TEST_F(ClockHandTest, NewItemsGiveWayBeforeThoseThatWereRead) {
  for (const size_t size : {size_t{3000}, size_t{9000}, size_t{50'000}}) {
    std::vector<Location> good;
    for (int i = 0; i < 40; ++i) good.push_back(put("good " + std::to_string(i), size));
    for (const Location location : good) store->touch(location);
    std::vector<Location> crowd;
    const auto evict_one = [&] {
      const EpochGuard guard(epochs, *slot);
      for (bool done = false; !done;) {
        store->sweep_clock(64, [&](Location location) {
          EXPECT_FALSE(store->is_proven(location));
          EXPECT_EQ(std::count(good.begin(), good.end(), location), 0);
          std::erase(crowd, location);
          cache->retire(location);
          done = true;
          return false;
        });
      }
    };
    for (int i = 0; i < 200; ++i) {
      crowd.push_back(put("crowd " + std::to_string(i), size));
      if (crowd.size() > 40) evict_one();
      if (i % 16 == 0) cache->reclaim();
    }
    for (const Location location : good) EXPECT_TRUE(store->is_proven(location)) << size;
    for (const Location location : good) cache->retire(location);
    for (const Location location : crowd) cache->retire(location);
  }
  EXPECT_EQ(store->is_proven(put("new", 3000)), false);
}

// The hand whose turn it is has no use for what it finds, so the other one moves.
TEST_F(ClockHandTest, SweepsForFewItemsComeToBothKinds) {
  for (const size_t size : {size_t{20}, size_t{60'000}}) {
    const Location proven = put("proven", size, 1000);
    for (int i = 0; i < 300; ++i) put(std::to_string(i), 20);
    store->prove(proven);
    EXPECT_EQ(round(true), std::set<Location>{proven}) << size;
    cache->retire(proven);
  }
}

TEST_F(ClockHandTest, ALargeItemThatWasStoredLastGoesBehindProvenOnes) {
  const Location old = put("old", 60'000);
  store->prove(old);
  put("new", 60'000);
  const EpochGuard guard(epochs, *slot);
  Location first = location::none;
  const auto visit = [&](Location location) {
    first = location;
    return false;
  };
  for (int i = 0; i < 10 && first == location::none; ++i) store->sweep_clock(64, visit);
  EXPECT_EQ(first, old);
}

TEST_F(ClockHandTest, AMoveHandsOnWhatIsKnownOfAnItem) {
  for (const size_t size : {size_t{20}, size_t{60'000}}) {
    const Location from = put("from", size);
    const Location to = put("to", size);
    store->hand_on_marks(from, to);
    EXPECT_FALSE(store->is_used(to) || store->is_proven(to));
    store->touch(from);
    store->prove(from);
    store->hand_on_marks(from, to);
    EXPECT_TRUE(store->is_used(to) && store->is_proven(to)) << size;
    cache->retire(from);
    EXPECT_FALSE(store->is_proven(from));  // nor is the next item in this place
    store->prove(from);                    // by a hand that came late
    EXPECT_FALSE(store->is_proven(from));
  }
}

TEST_F(ClockHandTest, StopsWhenTheCallerHasEnoughAndGoesOnThere) {
  for (int i = 0; i < 100; ++i) put(std::to_string(i), 20);
  std::vector<Location> seen;
  const EpochGuard guard(epochs, *slot);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(store->sweep_clock(50,
                                 [&](Location location) {
                                   seen.push_back(location);
                                   return false;
                                 }),
              1u);
  }
  EXPECT_EQ(std::set<Location>(seen.begin(), seen.end()).size(), 100u);
}

TEST_F(ClockHandTest, BitsBehindAStopStay) {
  std::vector<Location> all;
  for (int i = 0; i < 10; ++i) all.push_back(put(std::to_string(i), 20));
  for (size_t i = 1; i < 10; ++i) store->touch(all[i]);
  const EpochGuard guard(epochs, *slot);
  int visited = 0;
  const auto stop = [&](Location) {
    ++visited;
    return false;
  };
  store->sweep_clock(100, stop);  // the first, and no further
  EXPECT_EQ(visited, 1);
  store->sweep_clock(9, stop);  // all others have been used
  EXPECT_EQ(visited, 1);
}

// Those that come behind the hand in a small store: it passes the newest over, once, and of the
// others it takes what nobody read.
TEST_F(ClockHandTest, TheNewestOfTheLargerItemsArePassedOverOnce) {
  for (const size_t size : {size_t{9000}, size_t{100'000}}) {
    std::vector<Location> old;
    for (int i = 0; i < 40; ++i) old.push_back(put("old " + std::to_string(i), size));
    const std::vector<Location> late(old.end() - 16, old.end());
    const EpochGuard guard(epochs, *slot);
    std::set<Location> first;
    const auto visit = [&](Location location) {
      first.insert(location);
      return true;
    };
    while (first.size() < 24) ASSERT_NE(store->sweep_clock(1, visit), 0u);
    for (const Location location : late) EXPECT_FALSE(first.contains(location)) << size;
    while (first.size() < 40) ASSERT_NE(store->sweep_clock(1, visit), 0u);
    for (const Location location : old) cache->retire(location);
  }
}

TEST_F(ClockHandTest, RetiredItemsAreNotVisited) {
  const Location kept = put("kept", 20);
  const Location gone = put("gone", 20);
  const Location large = put("large", 60000);
  cache->retire(gone);
  cache->retire(large);
  EXPECT_EQ(round(), std::set<Location>{kept});
}

TEST_F(ClockHandTest, VolatileOnlyMeansWithAnExpiry) {
  put("persistent", 20);
  put("large and persistent", 60000);
  const Location small = put("volatile", 20, 1000);
  const Location large = put("large", 60000, 1000);
  EXPECT_EQ(round(true), (std::set<Location>{small, large}));
}

// A cache of 5,000 of 50,000 keys, Zipf .99: the hit rate of CLOCK against that of exact LRU.
class Zipf {
 public:
  Zipf(uint32_t keys, double theta) : sums_(keys) {
    double sum = 0;
    for (uint32_t i = 0; i < keys; ++i) sums_[i] = sum += std::pow(i + 1.0, -theta);
  }
  uint32_t operator()(std::mt19937_64& random) {
    const double at = std::uniform_real_distribution<double>(0, sums_.back())(random);
    return static_cast<uint32_t>(std::upper_bound(sums_.begin(), sums_.end(), at) - sums_.begin());
  }

 private:
  std::vector<double> sums_;
};

class ExactLru {
 public:
  explicit ExactLru(size_t size) : size_(size) {}
  bool access(uint32_t key) {
    const auto found = places_.find(key);
    if (found != places_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return true;
    }
    order_.push_front(key);
    places_[key] = order_.begin();
    if (order_.size() > size_) {
      places_.erase(order_.back());
      order_.pop_back();
    }
    return false;
  }

 private:
  size_t size_;
  std::list<uint32_t> order_;
  std::unordered_map<uint32_t, std::list<uint32_t>::iterator> places_;
};

// Who looks for something smaller goes round often, and must not make the oldest the newest.
TEST_F(ClockHandTest, LargeItemsThatASweepCannotUseStayTheFirstInTheOrder) {
  const Location old = put("old", 60000);
  const EpochGuard guard(epochs, *slot);
  std::vector<Location> visited;
  const auto visit = [&](Location location) {
    visited.push_back(location);
    return true;
  };
  for (int i = 0; i < 10; ++i) store->sweep_clock(64, visit, false, 1000);
  EXPECT_TRUE(visited.empty());  // it was new
  store->sweep_clock(64, visit);
  for (int i = 0; i < 3 && visited.empty(); ++i) store->sweep_clock(64, visit, false, 1000);
  EXPECT_EQ(std::set<Location>(visited.begin(), visited.end()), std::set<Location>{old});
  const Location young = put("young", 60000);
  for (int i = 0; i < 10; ++i) store->sweep_clock(64, visit, false, 1000);
  visited.clear();
  while (visited.empty()) store->sweep_clock(64, visit);
  EXPECT_EQ(visited.front(), old);
  EXPECT_TRUE(store->is_live(young));
}

TEST_F(ClockHandTest, HitRateIsThatOfExactLru) {
  constexpr uint32_t keys = 50000;
  constexpr uint32_t room = 5000;
  constexpr int accesses = poison::sanitized ? 150'000 : 600'000;
  Zipf zipf(keys, 0.99);
  std::mt19937_64 random(7);
  ExactLru lru(room);
  std::unordered_map<std::string, Location> clock;
  int lru_hits = 0;
  int clock_hits = 0;
  for (int i = 0; i < accesses; ++i) {
    const uint32_t key = zipf(random);
    const bool counts = i >= accesses / 3;  // when both are warm
    lru_hits += lru.access(key) && counts;
    const std::string name = std::to_string(key);
    const auto found = clock.find(name);
    if (found != clock.end()) {
      store->touch(found->second);
      clock_hits += counts;
      continue;
    }
    clock[name] = put(name, 64);
    // Ahead of need, a few hundred at a time, as a server does.
    if (clock.size() > room) {
      const EpochGuard guard(epochs, *slot);
      while (clock.size() > room - 100) {
        store->sweep_clock(256, [&](Location location) {
          clock.erase(std::string(store->item(location)->key()));
          cache->retire(location);
          return clock.size() > room - 100;
        });
      }
    }
    if (i % 64 == 0) cache->reclaim();
  }
  constexpr double all = accesses * 2.0 / 3;
  RecordProperty("lru", std::to_string(lru_hits / all));
  RecordProperty("clock", std::to_string(clock_hits / all));
  EXPECT_GT(clock_hits / all, lru_hits / all - 0.03);
}

}  // namespace
}  // namespace isotherm::clock_hand_test
