// The index of a store on devices that are too small for it, or several, against a map: fake ones
// and, where the tests of a GPU are asked for (ISOTHERM_TEST_GPU: how many there are), GPUs.
#include "executor/device/root_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "fake_device/fake_root_table.h"
#include "gpu/platform/device_error.h"
#include "gpu/store/cuda_root_table.h"
#include "items/poison.h"

namespace isotherm::root_table_test {
namespace {

constexpr uint64_t seed = 5;
constexpr uint64_t memory = uint64_t{1} << 27;

struct Where {
  const char* name;
  bool gpu;              // each of them in turn is a device
  uint64_t keys;         // of the tests
  uint64_t small_index;  // bytes that are room for about a quarter of them
  uint64_t a_round;      // rows

  friend void PrintTo(const Where& its, std::ostream* out) { *out << its.name; }
};
constexpr Where fake{"fake", false, poison::sanitized ? 6'000 : 12'000, 64 << 10, 300};
constexpr Where gpu{"gpu", true, 600'000, 4 << 20, 5'000};

class RootTableTest : public ::testing::TestWithParam<Where> {
 protected:
  RootTableTest() : store_({}, seed), slot_(store_.epochs.acquire()) {}
  ~RootTableTest() override {
    table_.reset();
    store_.epochs.release(slot_);
    for (const auto& device : devices_) {
      EXPECT_EQ(device->take_errors(), std::vector<std::string>{});
      EXPECT_EQ(device->allocated_bytes(), 0u);
    }
  }
  void SetUp() override {
    if (GetParam().gpu && std::getenv("ISOTHERM_TEST_GPU") == nullptr) {
      GTEST_SKIP() << "skipped: no GPU";
    }
  }

  // `index_bytes` of each device for its part, 0: without a cap.
  void make(size_t devices, uint64_t index_bytes) {
    for (size_t i = 0; i < devices && !GetParam().gpu; ++i) {
      devices_.push_back(std::make_unique<FakeDevice>(i + 1, memory));
    }
    uint64_t cap = 0;
    if (index_bytes != 0) {
      // What a tier takes beside its segments shows after its first change.
      make_table(1, memory);
      round({0}, {{0, 1}});
      cap = stats().device_bytes + index_bytes;
      model_.clear();
      table_.reset();
    }
    make_table(devices, cap);
  }
  static std::vector<uint32_t> gpus(size_t devices) {
    const auto present = static_cast<uint32_t>(std::atoi(std::getenv("ISOTHERM_TEST_GPU")));
    std::vector<uint32_t> numbers;
    for (uint32_t i = 0; i < devices; ++i) numbers.push_back(i % present);
    return numbers;
  }
  void make_table(size_t devices, uint64_t cap) {
    std::vector<FakeDevice*> some;
    for (const auto& device : devices_) some.push_back(device.get());
    some.resize(std::min(some.size(), devices));
    const auto maker = GetParam().gpu ? cuda_root_tiers_maker(gpus(devices), cap)
                                      : fake_root_tiers_maker(some, cap);
    constexpr uint32_t sampled = 4;
    table_ = std::make_unique<RootTable>(store_, maker(seed), sampled);
  }

  // A round: looks up `wanted`, whose roots must be the map's, then makes the changes.
  void round(const std::vector<uint64_t>& wanted, const std::map<uint64_t, Location>& changes) {
    const EpochGuard guard(store_.epochs, *slot_);
    const RootColumns& columns = table_->columns(std::max(wanted.size(), changes.size()));
    std::copy(wanted.begin(), wanted.end(), columns.keys);
    const uint64_t half = wanted.size() / 2;
    table_->spread(half, wanted.size() - half);
    table_->spread(0, half);
    table_->find(wanted.size());
    table_->wait();
    table_->gather(0, half);
    table_->gather(half, wanted.size() - half);
    for (size_t row = 0; row < wanted.size(); ++row) {
      const auto at = model_.find(wanted[row]);
      ASSERT_EQ(columns.found[row] == 1, at != model_.end()) << "key " << wanted[row];
      if (at == model_.end()) continue;
      ASSERT_EQ(columns.roots[row], at->second) << "key " << wanted[row];
    }
    uint64_t row = 0;
    for (const auto& [key, root] : changes) {
      columns.changed_keys[row] = key;
      columns.changed_roots[row++] = root;
      if (root != location::none) {
        model_[key] = root;
      } else {
        model_.erase(key);
      }
    }
    table_->hand_in(0, row / 3);
    table_->hand_in(row / 3, row - row / 3);
    table_->change(row);
  }

  // Extremes first, and the key whose hash marks an empty slot.
  static uint64_t key(uint64_t number) {
    constexpr uint64_t special[] = {0, ~uint64_t{0}, unmix(0, seed), unmix(1, seed),
                                    unmix(~uint64_t{0}, seed)};
    return number < std::size(special) ? special[number] : number * 0x9E3779B97F4A7C15;
  }
  std::vector<uint64_t> some_keys(uint64_t below, size_t count) {
    std::vector<uint64_t> some(count);
    for (uint64_t& one : some) one = key(random_() % below);
    return some;
  }
  // Puts keys number `from` to before `to`, with lookups among all so far and some behind.
  void fill(uint64_t from, uint64_t to) {
    const uint64_t a_round = GetParam().a_round;
    for (uint64_t at = from; at < to && !HasFatalFailure(); at += a_round) {
      std::map<uint64_t, Location> changes;
      for (uint64_t i = at; i < std::min(to, at + a_round); ++i) changes[key(i)] = i + 1;
      round(some_keys(at + a_round, 100), changes);
    }
  }
  void check_all(uint64_t below) {
    const uint64_t a_round = 2 * GetParam().a_round;
    for (uint64_t at = 0; at < below && !HasFatalFailure(); at += a_round) {
      std::vector<uint64_t> wanted;
      for (uint64_t i = at; i < std::min(below, at + a_round); ++i) wanted.push_back(key(i));
      round(wanted, {});
    }
  }
  RootTableStats stats() { return table_->stats(); }

  const uint64_t keys = GetParam().keys;
  const uint64_t small_index = GetParam().small_index;

  std::mt19937_64 random_{1};
  HostStore store_;
  EpochDomain::Slot* slot_;
  std::vector<std::unique_ptr<FakeDevice>> devices_;
  std::unique_ptr<RootTable> table_;
  std::map<uint64_t, Location> model_;
};

TEST_P(RootTableTest, WhatADeviceHasNoRoomForLiesOnTheHost) {
  make(1, small_index);
  fill(0, keys);
  check_all(keys + 500);
  EXPECT_GT(stats().host_entries, keys / 4);
  EXPECT_LT(stats().host_entries, keys);
  EXPECT_GT(stats().bins_to_host, 0u);
}

TEST_P(RootTableTest, EntriesAreReplacedAndErasedWhereTheyAre) {
  make(1, small_index);
  fill(0, keys);
  for (int i = 0; i < 100 && !HasFatalFailure(); ++i) {
    std::map<uint64_t, Location> changes;
    for (const uint64_t one : some_keys(keys, 200)) {
      changes[one] = random_() % 2 == 0 ? location::none : random_() % 1000 + 1;
    }
    round(some_keys(keys, 200), changes);
  }
  check_all(keys);
}

TEST_P(RootTableTest, SeveralDevicesShareTheKeys) {
  make(3, 0);
  fill(0, keys);
  check_all(keys + 500);
  EXPECT_EQ(stats().host_entries, 0u);
}

TEST_P(RootTableTest, SeveralSmallDevicesShareThemWithTheHost) {
  make(2, small_index / 2);
  fill(0, keys);
  check_all(keys + 500);
  EXPECT_GT(stats().host_entries, keys / 4);
}

TEST_P(RootTableTest, BinsThatAreReadMuchMoveToTheDevice) {
  make(1, small_index);
  fill(0, keys);
  // A sixteenth of all hashes is read, again and again; whatever of it was the host's comes in.
  std::vector<uint64_t> hot;
  for (uint64_t i = 0; i < keys; ++i) {
    if (mix(key(i), seed) >> 60 == 2) hot.push_back(key(i));
  }
  const auto lookups_on_host = [&](int rounds) {
    const uint64_t before = stats().host_lookups;
    for (int i = 0; i < rounds && !HasFatalFailure(); ++i) {
      std::shuffle(hot.begin(), hot.end(), random_);
      round({hot.begin(), hot.begin() + static_cast<int64_t>(GetParam().a_round)}, {});
    }
    return stats().host_lookups - before;
  };
  const uint64_t at_first = lookups_on_host(50);
  EXPECT_GT(at_first, 0u);
  uint64_t now = at_first;
  for (int i = 0; i < 40 && now >= at_first / 4; ++i) now = lookups_on_host(50);
  EXPECT_LT(now, at_first / 4);
  EXPECT_GT(stats().bins_to_device, 0u);
  check_all(keys);
}

TEST_P(RootTableTest, AWalkMeetsEveryKeyWhileBinsMove) {
  make(2, small_index / 2);
  fill(0, keys / 2);
  std::set<uint64_t> seen;
  uint64_t bound = 0;
  uint64_t next = keys / 2;
  do {
    const EpochGuard guard(store_.epochs, *slot_);
    bound = table_->scan(bound, 1 << 10, 100, [&](uint64_t one, Location root) {
      EXPECT_TRUE(model_.contains(one));
      EXPECT_EQ(model_[one], root);
      seen.insert(one);
    });
    if (next < keys) fill(next, next + 100);
    next += 100;
  } while (bound != 0 && next < 10 * keys);
  EXPECT_EQ(bound, 0u);
  for (uint64_t i = 0; i < keys / 2; ++i) EXPECT_TRUE(seen.contains(key(i))) << i;
}

// Nor what is on its way, nor anything twice; and devices without entries are not asked.
TEST_P(RootTableTest, AWalkSkipsWhatTheHostHas) {
  make(2, 0);
  fill(0, keys / 8);
  table_->lean(true);
  const auto check = [&] {
    const EpochGuard guard(store_.epochs, *slot_);
    std::multimap<uint64_t, Location> seen;
    for (uint64_t bound = 0, steps = 0; steps == 0 || bound != 0; ++steps) {
      bound = table_->scan(bound, 64, 200,
                           [&](uint64_t key, Location root) { seen.emplace(key, root); });
    }
    EXPECT_TRUE(std::equal(seen.begin(), seen.end(), model_.begin(), model_.end()));
  };
  bool more = true;
  for (int i = 0; more && !HasFailure(); ++i) {
    if (i % 4 == 0) check();
    const EpochGuard guard(store_.epochs, *slot_);
    more = table_->tend();
  }
  EXPECT_EQ(stats().host_entries, model_.size());
  const auto launches = [&] {
    return std::accumulate(devices_.begin(), devices_.end(), uint64_t{0},
                           [](uint64_t sum, const auto& its) { return sum + its->launches(); });
  };
  const uint64_t before = launches();
  check();
  EXPECT_EQ(launches(), before);
}

// Whatever is asked for meanwhile is found where it is.
TEST_P(RootTableTest, LeansToTheHostAndBackToItsDevices) {
  make(2, 0);
  fill(0, keys / 4);
  const auto steps = [&](int most) {
    bool more = true;
    for (int i = 0; i < most && more && !HasFatalFailure(); ++i) {
      {
        const EpochGuard guard(store_.epochs, *slot_);
        more = table_->tend();
      }
      const std::vector<uint64_t> some = some_keys(keys / 2, 50);
      std::map<uint64_t, Location> changes;
      for (size_t row = 0; row < some.size(); row += 3) {
        changes[some[row]] = random_() % 4 == 0 ? location::none : random_() % 1000 + 1;
      }
      round(some, changes);
    }
    return more;
  };
  EXPECT_FALSE(table_->tends());
  for (int i = 0; i < 6; ++i) {
    table_->lean(i % 2 == 0);
    EXPECT_TRUE(table_->tends());
    steps(1 + i);
  }
  constexpr int all = 10'000;
  table_->lean(true);
  EXPECT_FALSE(steps(all));
  EXPECT_FALSE(table_->tends());
  EXPECT_EQ(stats().host_entries, model_.size());
  fill(keys / 4, keys / 2);
  EXPECT_EQ(stats().host_entries, model_.size()) << "new keys go there, too";
  check_all(keys / 2);
  table_->lean(false);
  EXPECT_FALSE(steps(all));
  EXPECT_EQ(stats().host_entries, 0u);
  const uint64_t on_host = stats().host_lookups;
  check_all(keys / 2);
  EXPECT_EQ(stats().host_lookups, on_host);
  table_->lean(true);
  EXPECT_FALSE(steps(all));
  table_->clear();
  model_.clear();
  EXPECT_TRUE(table_->tends()) << "what comes then goes there again";
  fill(0, 1000);
  EXPECT_FALSE(steps(all));
  EXPECT_EQ(stats().host_entries, model_.size());
}

TEST_P(RootTableTest, LeansAgainWhenThereIsMemoryForIt) {
  make(1, 0);
  fill(0, 1000);
  store_.budget.set_limit(1);
  table_->lean(true);
  const auto tend = [&] {
    const EpochGuard guard(store_.epochs, *slot_);
    return table_->tend();
  };
  EXPECT_FALSE(tend());
  EXPECT_FALSE(table_->tends());
  store_.budget.set_limit(0);
  for (int i = 0; i < 2000 && !table_->tends() && !HasFatalFailure(); ++i) round({0}, {});
  EXPECT_TRUE(table_->tends());
  while (tend()) {
  }
  EXPECT_EQ(stats().host_entries, model_.size());
}

// Such a bound is one of the host's, where a walk began while it had a part.
TEST_P(RootTableTest, AWalkThatGoesOnInTheMiddleOfALineShowsNothingBeforeIt) {
  make(1, 0);
  fill(0, 1000);
  const EpochGuard guard(store_.epochs, *slot_);
  uint64_t shown = 0;
  for (uint64_t key = 0; key < 1000; key += 10) {
    const uint64_t bound = mix(key, seed);
    table_->scan(bound, 1, 1, [&](uint64_t one, Location) {
      EXPECT_GE(mix(one, seed), bound);
      ++shown;
    });
  }
  EXPECT_GT(shown, 0u);
}

TEST_P(RootTableTest, LeansAwayFromADeviceThatIsFullAndBackAsFarAsThereIsRoom) {
  make(1, small_index);
  table_->lean(true);
  for (int i = 0; i < 4 && !HasFatalFailure(); ++i) {
    const EpochGuard guard(store_.epochs, *slot_);
    table_->tend();
  }
  fill(0, keys);
  EXPECT_EQ(stats().host_entries, keys);
  table_->lean(false);
  bool more = true;
  for (int i = 0; i < 10'000 && more && !HasFatalFailure(); ++i) {
    {
      const EpochGuard guard(store_.epochs, *slot_);
      more = table_->tend();
    }
    round(some_keys(keys, 50), {});
  }
  EXPECT_FALSE(more);
  EXPECT_GT(stats().bins_to_device, 0u);
  check_all(keys);
}

TEST_P(RootTableTest, IsEmptyAndWholeAfterBeingCleared) {
  make(1, small_index);
  fill(0, keys);
  table_->clear();
  model_.clear();
  EXPECT_EQ(stats().host_entries, 0u);
  check_all(1000);
  fill(0, keys);
  check_all(keys);
}

TEST_P(RootTableTest, ADeviceTooSmallToShareIsFull) {
  if (GetParam().gpu) GTEST_SKIP() << "the less memory, the smaller are segments";
  make(1, small_index / 7);
  EXPECT_THROW(fill(0, keys), DeviceError);
}

TEST_P(RootTableTest, FailsWithItsDevices) {
  if (GetParam().gpu) GTEST_SKIP() << "a GPU does not fail when it is told to";
  make(2, small_index / 2);
  fill(0, keys / 2);
  devices_.back()->lose();
  EXPECT_THROW(fill(keys / 2, keys), DeviceError);
  table_->give_up();
}

std::string test_name(const ::testing::TestParamInfo<Where>& test) { return test.param.name; }

INSTANTIATE_TEST_SUITE_P(Fake, RootTableTest, ::testing::Values(fake), test_name);
INSTANTIATE_TEST_SUITE_P(Gpu, RootTableTest, ::testing::Values(gpu), test_name);

}  // namespace
}  // namespace isotherm::root_table_test
