#include "tree/tree_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <string>

#include "base/hash.h"
#include "models/failing_memory.h"
#include "models/numbered_tree_key.h"

namespace isotherm {
namespace {

class TreeRunTest : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Order, TreeRunTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Ordered" : "Unordered"; });

// Puts keys, and looks at all of them.
void look_at_the_newest(TreeRun& run, bool in_order) {
  TreeRun::Locks locks;
  std::map<std::string, std::string> model;
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = numbered_tree_key(static_cast<int>(random() % 3000));
    const std::string value(random() % 40, static_cast<char>('a' + i % 26));
    const bool erases = random() % 5 == 0;
    TreeRecord record;
    record.version = static_cast<uint64_t>(i) + 1;
    record.value = value;
    run.put(hash_bytes(key, 0), key, erases ? nullptr : &record);
    std::string& text = model[key];
    text.resize(erases ? 0 : record.bytes());
    if (!erases) record.write(text.data());
    // Keys that come later find their places in the order as well.
    if (in_order && i % 700 == 0) run.in_order(locks, 2);
  }
  for (int i = 0; i < 3100; ++i) {
    const std::string key = numbered_tree_key(i);
    const TreeRun::Found found = run.find(hash_bytes(key, 0), key);
    const auto expected = model.find(key);
    ASSERT_EQ(found.known, expected != model.end()) << i;
    if (!found.known) continue;
    ASSERT_EQ(found.erased, expected->second.empty()) << i;
    ASSERT_EQ(found.value, expected->second) << i;
  }
  std::map<std::string, std::string> shown;
  const std::vector<TreeEntry> all = run.all(in_order, 3);
  for (const TreeEntry& entry : all) shown.emplace(entry.key, entry.value);
  EXPECT_EQ(all.size(), model.size());
  EXPECT_TRUE(shown == model);
  const auto is_before = [](const TreeEntry& a, const TreeEntry& b) { return a.key < b.key; };
  if (in_order) {
    EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), is_before));
    for (const bool sealed : {false, true}) {
      if (sealed) run.seal();
      const std::shared_ptr<const RunOrder> order = run.in_order(locks, 2);
      if (sealed) {
        EXPECT_EQ(order->pieces().size(), 1);
      }
      std::map<std::string, std::string> ordered;
      size_t keys = 0;
      for (const auto& piece : order->pieces()) {
        EXPECT_TRUE(std::is_sorted(piece->begin(), piece->end()));
        keys += piece->size();
        for (const RunPlace& place : *piece) {
          ordered.emplace(place.entry->key(), place.entry->at_moment(RunEntry::latest).value);
        }
      }
      EXPECT_EQ(keys, model.size());
      EXPECT_TRUE(ordered == model);
    }
  }
  EXPECT_GT(run.bytes(), model.size() * 40);
  EXPECT_LT(run.bytes(), model.size() * 400);
}

// Of each key the newest is found and shown once; erased ones are known to be. The second run has
// tables as those of the first from the start.
TEST_P(TreeRunTest, HasTheNewestOfEachKey) {
  TreeRun first;
  const uint64_t small = first.first_bytes();
  look_at_the_newest(first, GetParam());
  TreeRun second(first, first.lists(), 2);
  EXPECT_TRUE(second.empty());
  EXPECT_GT(second.first_bytes(), small);
  EXPECT_EQ(second.lists(), GetParam());
  look_at_the_newest(second, GetParam());
  EXPECT_NEAR(static_cast<double>(second.bytes()), static_cast<double>(first.bytes()),
              static_cast<double>(first.bytes()) / 4);
}

// A put for which there is no memory leaves what was known of the key.
TEST(TreeRun, ShowsWhatItDidWhereThereIsNoMemory) {
  const std::string key = numbered_tree_key(7);
  const uint64_t hash = hash_bytes(key, 0);
  for (const bool is_new : {true, false}) {
    bool failed = true;
    for (int works = 0; failed; ++works) {
      TreeRun run;
      TreeRecord record;
      record.value = "old";
      if (!is_new) run.put(hash, key, &record);
      const std::string large(40'000, 'v');
      record.value = large;
      bool threw = false;
      {
        const FailingMemory memory(works);
        try {
          run.put(hash, key, &record, 2, 1);
        } catch (const std::bad_alloc&) {
          threw = true;
        }
        failed = FailingMemory::failed();
      }
      EXPECT_EQ(threw, failed) << works;
      const TreeRun::Found found = run.find(hash, key);
      EXPECT_EQ(found.known, !threw || !is_new);
      EXPECT_FALSE(found.erased);
      if (found.known) {
        EXPECT_EQ(found.value.size(), 9 + (threw ? 3 : large.size()));
      }
      run.put(hash, key, &record, 3);
      EXPECT_EQ(run.find(hash, key).value.size(), 9 + large.size());
    }
  }
}

}  // namespace
}  // namespace isotherm
