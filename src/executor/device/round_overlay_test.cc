// What a round's overlay remembers, and what it forgets when the next round begins.
#include "executor/device/round_overlay.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/tile.h"

namespace isotherm::round_overlay_test {
namespace {

std::map<uint64_t, Location> changes_of(const RoundOverlay& overlay) {
  std::map<uint64_t, Location> changes;
  overlay.each_change([&](uint64_t key, Location root) {
    EXPECT_TRUE(changes.emplace(key, root).second) << "twice";
  });
  return changes;
}

TEST(RoundOverlayTest, RemembersRandomChangesAsAMapDoes) {
  RoundOverlay overlay;
  std::mt19937_64 random(1);
  for (int round = 0; round < 20; ++round) {
    overlay.begin(0, 1);
    EXPECT_TRUE(changes_of(overlay).empty());
    std::map<uint64_t, Location> model;
    for (int i = 0; i < 3000; ++i) {
      // Keys that agree in the bits the overlay looks at first, too.
      const uint64_t key = random() % 1000 * (round % 2 == 0 ? 1 : uint64_t{1} << 44);
      const Location found = key % 3 == 0 ? location::none : key + 7;
      const auto known = model.find(key);
      ASSERT_EQ(overlay.root(key, found), known != model.end() ? known->second : found);
      const Location root = random() % 4 == 0 ? location::none : random() % 5000;
      overlay.set(key, found, root);
      model[key] = root;
    }
    // What is as the device has it needs no change.
    std::erase_if(model, [](const auto& entry) {
      return entry.second == (entry.first % 3 == 0 ? location::none : entry.first + 7);
    });
    EXPECT_EQ(changes_of(overlay), model);
  }
}

TEST(RoundOverlayTest, VersionsOfThreadsNeverMeet) {
  RoundOverlay first;
  RoundOverlay second;
  first.begin(100, 2);
  second.begin(101, 2);
  for (uint64_t i = 1; i < 10; ++i) {
    EXPECT_EQ(first.next_version(), 100 + 2 * i);
    EXPECT_EQ(second.next_version(), 101 + 2 * i);
  }
  EXPECT_EQ(first.last_version(), 118u);
}

TEST(RoundIndexTest, CountsEntriesOfTheDatabase) {
  RoundOverlay overlay;
  overlay.begin(0, 1);
  Database database;
  RoundIndex index(&overlay, database, 5, location::none);
  const auto put = [&](Action action, uint64_t word) {
    return index.update<TilePlain>(0, [&](bool, uint64_t, RoundOverlay&) -> Decision {
      return {action, word};
    });
  };
  EXPECT_EQ(put(Action::store, 9).change, Change::inserted);
  EXPECT_EQ(put(Action::store, 10).change, Change::replaced);
  EXPECT_EQ(put(Action::keep, 11).previous.word, 10u);
  EXPECT_EQ(database.entries_on_device, 1);
  EXPECT_EQ(put(Action::erase, 0).change, Change::erased);
  EXPECT_FALSE(index.find<TilePlain>(0).found);
  EXPECT_EQ(database.entries_on_device, 0);
}

}  // namespace
}  // namespace isotherm::round_overlay_test
