// The promise of epochs, under threads: whoever finds an item, by its place in a table that stands
// for the index or by its live bit, reads that item and nothing else for as long as it is in its
// epoch. Items carry their own location and a sum, freed ones are poisoned. Without epochs
// it must fail (tests/broken).
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "items/item_store_fixture.h"

namespace isotherm::item_stress_test {
namespace {

struct ItemStress : ItemStoreFixture {
  static constexpr uint32_t places = 512;

  // key: the place; value: the location, repeated.
  static constexpr uint64_t most_in_chunks = 216;
  static constexpr uint64_t large = 40000;
  static uint64_t value_bytes(uint64_t random) {
    return random % 128 == 127 ? large : 16 + random % 200 / 8 * 8;
  }

  Location make(ItemCache& own, uint32_t place, uint64_t random, int64_t expiry) {
    const std::string key = std::to_string(place);
    Item::Parts parts;
    parts.key = key;
    parts.value_bytes = value_bytes(random);
    parts.expiry = expiry;
    const Location location = own.allocate(parts.bytes());
    Item* item = Item::create(store->address(location), parts);
    for (uint64_t i = 0; i < parts.value_bytes; i += 8) {
      std::memcpy(item->value_data() + i, &location, 8);
    }
    return location;
  }

  bool good(Location location) const {
    const Item* item = store->item(location);
    const std::string_view value = item->value();
    if (value.size() > most_in_chunks && value.size() != large) return false;
    if (value.size() % 8 != 0 || item->key().size() > 3) return false;
    for (uint64_t i = 0; i < value.size(); i += 8) {
      Location seen;
      std::memcpy(&seen, value.data() + i, 8);
      if (seen != location) return false;
    }
    return true;
  }

  // Some place for a damaged key, too: the broken build goes on to the end and fails there.
  uint32_t place_of(Location location) const {
    uint32_t place = 0;
    for (const char digit : store->item(location)->key().substr(0, 3)) {
      place = place * 10 + static_cast<uint32_t>(digit - '0');
    }
    return place % places;
  }

  // Takes the item out of its place, if it is still there.
  void erase_if_still(ItemCache& own, Location location) {
    const uint32_t place = place_of(location);
    Location expected = location;
    if (table[place].compare_exchange_strong(expected, location::none)) own.retire(location);
  }

  void sweep(ItemCache& own, uint64_t random) {
    const auto check = [&](Location location) {
      if (!good(location)) ++bad;
      return true;
    };
    const auto erase = [&](Location location) {
      if (!good(location)) {
        ++bad;
      } else {
        erase_if_still(own, location);
      }
      return true;
    };
    switch (random % 4) {
      case 0:
        store->sweep_clock(16, erase);
        break;
      case 1:
        store->sweep_random(8, check);
        break;
      case 2:
        store->sweep_expired(static_cast<int64_t>(random >> 32), 32, erase);
        break;
      default:
        store->compact(32, [&](Location location) { return move(own, location); });
    }
  }

  bool move(ItemCache& own, Location from) {
    if (!good(from)) {
      ++bad;
      return true;
    }
    const uint32_t place = place_of(from);
    const Item* item = store->item(from);
    const Location to = make(own, place, item->value().size() - 16, item->expiry());
    store->set_live(to);
    store->note_expiry(to, item->expiry());
    Location expected = from;
    if (to == from) {
      ++bad;
      return false;
    }
    own.retire(table[place].compare_exchange_strong(expected, to) ? from : to);
    return true;
  }

  void work(uint64_t seed, int rounds) {
    ItemCache own(*store);
    EpochDomain::Slot* mine = epochs.acquire();
    std::mt19937_64 random(seed);
    // Ends at the first sight of damage, before the broken build damages more.
    for (int round = 0; round < rounds && bad == 0; ++round) {
      {
        const EpochGuard guard(epochs, *mine);
        Location held[16];
        for (Location& location : held) location = table[random() % places].load();
        for (int i = 0; i < 8; ++i) {
          const auto place = static_cast<uint32_t>(random() % places);
          const auto expiry = random() % 2 == 0 ? no_expiry : static_cast<int64_t>(random() >> 32);
          const Location fresh = make(own, place, random(), expiry);
          store->set_live(fresh);
          store->note_expiry(fresh, expiry);
          const Location old = table[place].exchange(fresh);
          if (old != location::none) own.retire(old);
        }
        sweep(own, random());
        for (const Location location : held) {
          if (location == location::none) continue;
          if (!good(location)) ++bad;
          store->touch(location);
        }
      }
      own.reclaim();
    }
    epochs.release(mine);
  }

  std::atomic<Location> table[places] = {};
  std::atomic<uint64_t> bad{0};
};

TEST_F(ItemStress, WhatIsReadIsNeverReused) {
  constexpr int rounds = 4000;
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 3; ++seed)
    threads.emplace_back([=, this] { work(seed, rounds); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0u);
}

}  // namespace
}  // namespace isotherm::item_stress_test
