// Bins between a device and the host: where what the device has begins.
#include "gpu/split/root_bins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

namespace isotherm::root_bins_test {
namespace {

using Side = RootBins::Side;

// Every hash that lies where one side may end, and its neighbours.
std::vector<uint64_t> edges(const RootBins& bins) {
  std::vector<uint64_t> all;
  const auto add = [&](uint64_t hash) {
    for (const uint64_t one : {hash - 1, hash, hash + 1}) all.push_back(one);
  };
  for (uint64_t number = 0; number < bins.bins().size(); ++number) {
    add(HashBin{number, bins.bits()}.first());
    add(bins.bins()[number].boundary);
  }
  std::sort(all.begin(), all.end());
  return all;
}

void check(const RootBins& bins) {
  const std::vector<uint64_t> all = edges(bins);
  for (const uint64_t hash : all) {
    const auto first = std::find_if(
        all.begin(), all.end(), [&](uint64_t one) { return one >= hash && !bins.on_host(one); });
    const std::optional<uint64_t> found = bins.next_of_device(hash);
    ASSERT_EQ(found.has_value(), first != all.end()) << hash;
    ASSERT_EQ(found.value_or(0), found ? *first : 0) << hash;
  }
}

TEST(RootBinsTest, WhatTheDeviceHasBeginsWhereTheHostEnds) {
  std::mt19937_64 random(7);
  for (const int bits : {0, 1, 3}) {
    RootBins bins(bits);
    for (int step = 0; step < 300; ++step) {
      check(bins);
      const uint64_t number = random() % bins.bins().size();
      const Side to = bins.bins()[number].to_host ? Side::host : Side::device;
      if (!bins.moves(to)) {
        bins.move(number);
      } else if (random() % 2 == 0) {
        bins.arrive(to);
      } else {
        const HashBin bin = bins.moving(to);
        const uint64_t rest = bin.end() - bins.boundary(to);
        bins.set_boundary(to, bins.boundary(to) + (rest < 3 ? 1 : random() % (rest - 1) + 1));
      }
    }
  }
}

}  // namespace
}  // namespace isotherm::root_bins_test
