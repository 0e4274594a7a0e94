// Tables with an index of a fixed size: every answer is right or "evicted", every eviction is
// counted, and readers never miss what is there.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "gpu/table/host_cache.h"
#include "isotherm/fixed_table.h"
#include "models/cache_model.h"

namespace isotherm::fixed_cache_test {
namespace {

using Values = std::vector<uint64_t>;
constexpr uint64_t seed = 99;

class FixedCache : public ::testing::TestWithParam<FixedIndexKind> {
 protected:
  static FixedOptions options(uint64_t entries) {
    FixedOptions options;
    options.index = GetParam();
    options.expected_entries = entries;
    options.hash_seed = seed;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, FixedCache,
                         ::testing::Values(FixedIndexKind::cuckoo, FixedIndexKind::set),
                         [](const auto& test) {
                           return test.param == FixedIndexKind::cuckoo ? "Cuckoo" : "Set";
                         });

// A table beside a model that knows what eviction may do.
class Modelled {
 public:
  explicit Modelled(const FixedOptions& options) : table(options), handle(table) {}

  void run(const std::vector<DeviceRequest>& requests) {
    HostRequests columns(requests);
    handle.run(columns.call());
    model.compare(requests, columns.values_out, columns.found);
  }
  void check_all() {
    run(model.gets());
    EXPECT_EQ(model.wrong(), 0u);
    EXPECT_EQ(model.forgotten(), table.evictions());
    EXPECT_EQ(model.entries().size(), table.size());
    std::unordered_map<uint64_t, uint64_t> seen;
    uint64_t cursor = 0;
    do {
      cursor = handle.scan(cursor, 100, [&](uint64_t key, uint64_t value) {
        EXPECT_TRUE(seen.emplace(key, value).second);
      });
    } while (cursor != 0);
    EXPECT_EQ(seen, model.entries());
  }

  FixedTable table;
  FixedHandle handle;
  CacheModel model;
};

TEST_P(FixedCache, IsRightOrHasEvictedAndCountsWhatItEvicted) {
  std::mt19937_64 random(1);
  Modelled its(options(2048));
  for (int call = 0; call < 60; ++call) {
    std::vector<DeviceRequest> requests(1 + random() % 400);
    for (DeviceRequest& request : requests) {
      request = {static_cast<TableOp>(random() % 6), random() % 6000, random() % 3, random() % 3};
    }
    its.run(requests);
  }
  its.check_all();
  EXPECT_GT(its.table.evictions(), 100u);
  EXPECT_GT(its.table.size(), 1500u);
}

// Keys of one bucket, one set, one signature, one tag; and those whose hashes are 0 and 2^64 - 1.
TEST_P(FixedCache, IsRightOnKeysThatAllMeet) {
  std::mt19937_64 random(2);
  for (const uint64_t differ : {uint64_t{0xfff} << 40, uint64_t{0xff}, uint64_t{0x3f} << 6}) {
    Modelled its(options(2048));
    Values keys = {0, ~uint64_t{0}, unmix(0, seed), unmix(~uint64_t{0}, seed)};
    const uint64_t base = random();
    for (int i = 0; i < 300; ++i) {
      keys.push_back(unmix((base & ~differ) | (random() & differ), seed));
    }
    for (int call = 0; call < 20; ++call) {
      std::vector<DeviceRequest> requests(200);
      for (DeviceRequest& request : requests) {
        request = {static_cast<TableOp>(random() % 6), keys[random() % keys.size()], random() % 3,
                   random() % 3};
      }
      its.run(requests);
    }
    its.check_all();
  }
}

TEST_P(FixedCache, OffersWhatAHandleOffers) {
  FixedTable table(options(1000));
  FixedHandle handle(table);
  EXPECT_EQ(handle.put(Values{1, 2, 3}, Values{10, 20, 30}).done, 3u);
  Values values = {7, 7, 7};
  std::vector<uint8_t> found(3, 9);
  EXPECT_EQ(handle.get(Values{1, 5, 3}, values, found), 2u);
  EXPECT_EQ(values, (Values{10, 7, 30}));
  EXPECT_EQ(found, (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(handle.get(2), 20u);
  EXPECT_EQ(handle.get(4), std::nullopt);
  std::vector<uint8_t> stored(2);
  handle.put_if_absent(Values{3, 4}, Values{31, 41}, stored);
  EXPECT_EQ(stored, (std::vector<uint8_t>{0, 1}));
  uint64_t current = 0;
  EXPECT_EQ(handle.compare_and_swap(4, 1, 2, &current), Status::condition_failed);
  EXPECT_EQ(current, 41u);
  EXPECT_EQ(handle.compare_and_swap(4, 41, 2), Status::ok);
  EXPECT_EQ(handle.compare_and_swap(9, 41, 2), Status::not_found);
  EXPECT_EQ(handle.get(4), 2u);
  EXPECT_EQ(handle.erase(Values{4, 4, 1}), 2u);
  EXPECT_EQ(table.size(), 2u);
  EXPECT_EQ(table.evictions(), 0u);
  EXPECT_FALSE(handle.maintain());
}

TEST_P(FixedCache, TakesNoMoreThanItIsTold) {
  FixedOptions capped = options(0);
  EXPECT_THROW(FixedTable{capped}, std::invalid_argument);
  capped.maxmemory = 1'000'000;
  FixedTable table(capped);
  EXPECT_LE(table.memory(), capped.maxmemory);
  FixedHandle handle(table);
  Values keys(60'000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  const FixedHandle::Result result = handle.put(keys, keys);
  EXPECT_EQ(result.done, keys.size());
  EXPECT_EQ(result.evicted, table.evictions());
  EXPECT_EQ(table.size() + table.evictions(), keys.size());
  EXPECT_LE(static_cast<double>(table.memory()) / static_cast<double>(table.size()), 25);
}

// Threads put and erase keys of their own, so that cells of the others' keys move all the time.
TEST_P(FixedCache, NoThreadMissesAKeyOrSeesAnothersValue) {
  constexpr uint64_t threads = 4;
  constexpr uint64_t keys_each = 1000;
  const auto cache =
      make_host_cache(GetParam(), 0, 4096 * (GetParam() == FixedIndexKind::set ? 2 : 1), seed);
  std::atomic<uint64_t> wrong = 0, missed = 0;
  const auto work = [&](uint64_t mine) {
    std::mt19937_64 random(mine);
    uint64_t stamp[keys_each] = {};  // 0: absent
    for (int round = 0; round < 20; ++round) {
      std::vector<DeviceRequest> requests(keys_each);
      for (DeviceRequest& request : requests) {
        const uint64_t op = random() % 8;
        request = {op < 4    ? TableOp::put
                   : op == 4 ? TableOp::erase
                             : TableOp::get,
                   (random() % keys_each) * threads + mine, 1 + random() % 1000, 0};
      }
      HostRequests columns(requests);
      cache->run(columns.call());
      for (uint64_t i = 0; i < requests.size(); ++i) {
        uint64_t& known = stamp[requests[i].key / threads];
        if (columns.found[i] != 0 && columns.values_out[i] != known) ++wrong;
        if (columns.found[i] == 0 && known != 0) ++missed;
        if (requests[i].op == TableOp::put) known = requests[i].value;
        if (requests[i].op == TableOp::erase) known = 0;
      }
    }
  };
  std::vector<std::thread> all;
  for (uint64_t t = 0; t < threads; ++t) all.emplace_back(work, t);
  for (std::thread& thread : all) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_LE(missed, cache->evictions());
  if (GetParam() == FixedIndexKind::cuckoo) {
    EXPECT_EQ(cache->evictions(), 0u);
    EXPECT_GT(cache->displaced(), 10u);
  }
}

// What comes without a comparison is a pair that was stored, also beside writers; and nearly always
// that of the key which was asked for.
TEST_P(FixedCache, GetsWithoutAComparisonShowWhatIsStored) {
  constexpr uint64_t keys = 2000;
  constexpr uint64_t changed = 1000;  // keys from there on are erased and put meanwhile
  FixedTable table(options(4096));
  FixedHandle handle(table);
  std::vector<uint64_t> all(keys + 500);
  std::iota(all.begin(), all.end(), 0);
  std::vector<uint64_t> values(all.size());
  std::ranges::transform(all, values.begin(), [](uint64_t key) { return key * 3 + 1; });
  handle.put(std::span(all).first(keys), std::span(values).first(keys));
  std::atomic<bool> stops{false};
  std::thread writer([&] {
    FixedHandle its(table);
    const auto some = std::span(all).first(keys).subspan(changed);
    while (!stops.load()) {
      its.erase(some);
      its.put(some, std::span(values).first(keys).subspan(changed));
    }
  });
  std::vector<uint64_t> stored(all.size());
  std::vector<uint64_t> seen(all.size());
  std::vector<uint8_t> found(all.size());
  for (int round = 0; round < 50; ++round) {
    const uint64_t count = handle.get_stored(all, stored, seen, found);
    EXPECT_EQ(count, static_cast<uint64_t>(std::ranges::count(found, 1)));
    uint64_t own = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      if (found[i] == 0) {
        EXPECT_GE(i, changed) << "a key that stays is missing";
        continue;
      }
      ASSERT_LT(stored[i], keys);
      ASSERT_EQ(seen[i], stored[i] * 3 + 1);
      own += stored[i] == i ? 1 : 0;
    }
    // Signatures of 32 bits, and of 8 in a set of 16.
    EXPECT_GE(own, GetParam() == FixedIndexKind::cuckoo ? changed : changed * 9 / 10);
  }
  stops = true;
  writer.join();
  EXPECT_THROW(handle.get_stored(all, stored, seen, std::span(found).first(3)),
               std::invalid_argument);
  FixedTable lines;
  EXPECT_THROW(FixedHandle(lines).get_stored(all, stored, seen, found), std::invalid_argument);
}

}  // namespace
}  // namespace isotherm::fixed_cache_test
