#include "executor/values/value_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace isotherm::value_log_test {
namespace {

constexpr uint64_t segment_bytes = 4 << 10;
constexpr uint64_t first_address = uint64_t{1} << 40;

class ValueLogTest : public ::testing::Test {
 protected:
  struct Known {
    uint64_t bytes;
    Location location;
  };

  ValueLog make(uint64_t segments, uint64_t devices = 1) {
    std::vector<ValueLog::Area> areas;
    for (uint64_t i = 0; i < devices; ++i) {
      areas.push_back({first_address * (i + 1), segments * segment_bytes + 100});
    }
    return {areas, segment_bytes, epochs, budget};
  }
  // Cleans until there is nothing to clean; how many values moved.
  uint64_t clean(ValueLog& log, std::map<ValuePlace, Known>& known) {
    uint64_t moved = 0;
    ValueLog::Value values[5];
    while (const size_t count = log.to_clean(values)) {
      for (size_t i = 0; i < count; ++i) {
        const auto at = known.find(values[i].place);
        if (at == known.end()) ADD_FAILURE() << "a value that is dead";
        EXPECT_EQ(values[i].location, at->second.location);
        const auto place = log.add(at->second.bytes, at->second.location, ValueLog::For::cleaning);
        if (!place) return moved;
        log.free(at->first, at->second.bytes);
        known[*place] = at->second;
        known.erase(at->first);
        ++moved;
      }
    }
    return moved;
  }

  EpochDomain epochs;
  MemoryBudget budget{0};
};

TEST_F(ValueLogTest, PlacesDoNotOverlap) {
  ValueLog log = make(8, 2);
  std::mt19937_64 random(1);
  std::map<uint64_t, uint64_t> taken;  // from, to
  uint64_t bytes = 0;
  for (Location location = 1;; ++location) {
    const uint64_t size = 1 + random() % 1000;
    const auto place = log.add(size, location);
    if (!place) break;
    const uint64_t from = log.address(*place);
    EXPECT_EQ(from % value_place::unit_bytes, 0u);
    taken[from] = from + size;
    bytes += (size + 15) / 16 * 16;
  }
  EXPECT_EQ(log.live_bytes(), bytes);
  EXPECT_EQ(log.values(), taken.size());
  EXPECT_GT(bytes, log.capacity() * 3 / 4);
  uint64_t end = 0;
  std::set<uint64_t> devices;
  for (const auto& [from, to] : taken) {
    EXPECT_GE(from, end);
    end = to;
    const uint64_t device = from / first_address;
    devices.insert(device);
    EXPECT_LE(to, device * first_address + 8 * segment_bytes);
    EXPECT_EQ((to - 1) / segment_bytes, from / segment_bytes) << "a value over two segments";
  }
  EXPECT_EQ(devices.size(), 2u);
}

TEST_F(ValueLogTest, RefusesValuesThatAreTooLong) {
  ValueLog log = make(8);
  EXPECT_EQ(log.largest_value(), segment_bytes / 4);
  EXPECT_FALSE(log.add(segment_bytes / 4 + 1, 1));
  EXPECT_TRUE(log.add(segment_bytes / 4, 1));
}

TEST_F(ValueLogTest, ASegmentIsWrittenAgainOnlyWhenItsReadersHaveLeft) {
  ValueLog log = make(4);
  std::vector<ValuePlace> places;
  while (const auto place = log.add(512, 1)) places.push_back(*place);
  EpochDomain::Slot* reader = epochs.acquire();
  epochs.enter(*reader);
  for (const ValuePlace place : places) log.free(place, 512);
  EXPECT_EQ(log.live_bytes(), 0u);
  std::set<uint64_t> before;
  for (const ValuePlace place : places) before.insert(log.address(place));
  // What was never written, and the rest of the head, can be had meanwhile.
  while (const auto place = log.add(512, 1)) EXPECT_FALSE(before.contains(log.address(*place)));
  epochs.leave(*reader);
  EXPECT_TRUE(log.has_room(512));
  const auto place = log.add(512, 1);
  ASSERT_TRUE(place);
  EXPECT_TRUE(before.contains(log.address(*place)));
  epochs.release(reader);
}

TEST_F(ValueLogTest, CleaningKeepsRoomUnderChurn) {
  ValueLog log = make(40);
  std::mt19937_64 random(7);
  std::map<ValuePlace, Known> known;
  uint64_t bytes = 0;
  uint64_t cleaned = 0;
  uint64_t refused = 0;
  for (Location location = 1; location < 40'000; ++location) {
    const uint64_t size = 1 + random() % 900;
    const auto place = log.add(size, location);
    if (place) {
      known[*place] = {size, location};
      bytes += size;
    } else {
      ++refused;
    }
    // Three quarters of the capacity stay.
    while (bytes > log.capacity() * 3 / 4) {
      auto one = known.lower_bound(random() % value_place::make(0, 40, 0, 0));
      if (one == known.end()) one = known.begin();
      bytes -= one->second.bytes;
      log.free(one->first, one->second.bytes);
      known.erase(one);
    }
    if (location % 16 == 0) cleaned += clean(log, known);
  }
  EXPECT_EQ(log.values(), known.size());
  EXPECT_GT(cleaned, 1000u);
  EXPECT_LT(refused, 10u);
}

// However much more comes than goes.
TEST_F(ValueLogTest, NewValuesNeverTakeTheSegmentOfCleaning) {
  ValueLog log = make(64);
  std::mt19937_64 random(3);
  std::map<ValuePlace, Known> known;
  uint64_t sent = 0;
  for (Location step = 1; step <= 3'000; ++step) {
    for (int i = 0; i < 40; ++i) {
      const auto place = log.add(500, step);
      if (!place) break;
      known[*place] = {500, step};
      sent += step > 1'000;
    }
    for (int i = 0; i < 8 && !known.empty(); ++i) {
      auto one = known.lower_bound(random() % value_place::make(0, 64, 0, 0));
      if (one == known.end()) one = known.begin();
      log.free(one->first, 500);
      known.erase(one);
    }
    // A bounded share of cleaning.
    ValueLog::Value values[16];
    const size_t count = log.to_clean(values);
    for (size_t i = 0; i < count; ++i) {
      const auto place = log.add(500, values[i].location, ValueLog::For::cleaning);
      ASSERT_TRUE(place) << "step " << step;
      known[*place] = known[values[i].place];
      known.erase(values[i].place);
      log.free(values[i].place, 500);
    }
  }
  // What dies makes room for as much.
  EXPECT_GT(sent, 2'000u * 6);
}

TEST_F(ValueLogTest, EndsThatNoValueFitsIntoAreNotCleaned) {
  ValueLog log = make(40);
  for (Location location = 1; log.add(850, location); ++location) {
  }
  ValueLog::Value values[16];
  EXPECT_EQ(log.to_clean(values), 0u);
}

TEST_F(ValueLogTest, CleaningFindsItemsWhereTheyHaveMovedTo) {
  ValueLog log = make(4);
  std::map<ValuePlace, Known> known;
  for (Location location = 1; const auto place = log.add(512, location); ++location) {
    known[*place] = {512, location};
  }
  // All but one of each segment die; those that are left have moved meanwhile.
  for (auto one = known.begin(); one != known.end();) {
    if (value_place::number(one->first) != 0) {
      log.free(one->first, 512);
      one = known.erase(one);
      continue;
    }
    one->second.location += 1000;
    log.move(one->first, one->second.location);
    ++one;
  }
  EXPECT_GT(clean(log, known), 0u);
}

TEST_F(ValueLogTest, ItsListsCountAsIndex) {
  {
    ValueLog log = make(4);
    for (Location location = 1; log.add(64, location); ++location) {
    }
    EXPECT_GE(budget.index.load(), static_cast<int64_t>(log.values() * 12));
  }
  EXPECT_EQ(budget.index.load(), 0);
}

TEST_F(ValueLogTest, SegmentsSuitTheMemory) {
  EXPECT_EQ(ValueLog::segment_bytes_for(uint64_t{80} << 30), 4u << 20);
  EXPECT_EQ(ValueLog::segment_bytes_for(16 << 20), 1u << 20);
  EXPECT_EQ(ValueLog::segment_bytes_for(1000), 64u << 10);
}

}  // namespace
}  // namespace isotherm::value_log_test
