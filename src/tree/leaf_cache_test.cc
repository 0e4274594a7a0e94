// Ranges by leaves beside the same without them, while what the files have changes.
#include "tree/leaf_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "models/tree_files_in_memory.h"

namespace isotherm::leaf_cache_test {
namespace {

class LeafCacheTest : public ::testing::Test {
 protected:
  explicit LeafCacheTest(uint64_t most_bytes = 64 << 10) : leaves_(most_bytes) {}

  std::unique_ptr<TreeView> view() {
    return leaves_.view([this] { return std::make_unique<TreeViewInMemory>(disk_); });
  }
  static std::string key_of(uint32_t number) {
    std::string key = "key" + std::to_string(10'000 + number);
    return key;
  }
  // As TreeFiles::ingest.
  void change(const std::vector<std::pair<uint32_t, std::string>>& pairs) {
    std::vector<std::string> keys;
    std::vector<TreeEntry> entries;
    for (const auto& [number, value] : pairs) keys.push_back(key_of(number));
    for (size_t i = 0; i < pairs.size(); ++i) entries.push_back({keys[i], pairs[i].second});
    const LeafCache::Change change(leaves_, entries);
    const std::lock_guard guard(disk_.mutex);
    for (const TreeEntry& entry : entries) {
      if (entry.value.empty()) {
        disk_.pairs.erase(std::string(entry.key));
      } else {
        disk_.pairs[std::string(entry.key)] = entry.value;
      }
    }
  }
  TreePairs pairs_now() {
    const std::lock_guard guard(disk_.mutex);
    return disk_.pairs;
  }
  // Of at most so many pairs, both ways.
  static void check(TreeView& view, const TreePairs& right, const std::string& first,
                    const std::string& end, const std::string& from, size_t most) {
    const std::unique_ptr<TreeCursor> at = view.cursor(first, end, false);
    at->seek(from);
    for (auto pair = right.lower_bound(std::max(first, from)); most-- != 0; ++pair, at->next()) {
      const bool valid = pair != right.end() && pair->first < end;
      ASSERT_EQ(at->valid(), valid);
      if (!valid) break;
      ASSERT_EQ(at->key(), pair->first);
      ASSERT_EQ(at->value(), pair->second);
    }
    at->seek_before(from);
    const auto behind = right.lower_bound(from);
    const bool valid = behind != right.begin() && std::prev(behind)->first >= first;
    ASSERT_EQ(at->valid(), valid);
    if (valid) {
      ASSERT_EQ(at->key(), std::prev(behind)->first);
    }
  }

  TreeDisk disk_;
  LeafCache leaves_;
};

TEST_F(LeafCacheTest, RandomRangesOfViewsOfAllAgesAreThoseOfAMap) {
  constexpr uint32_t keys = 900;
  std::mt19937 random(4);
  std::vector<std::pair<std::unique_ptr<TreeView>, TreePairs>> views;
  for (uint32_t i = 0; i < keys; i += 2) change({{i, "first"}});
  for (int step = 0; step < 4000; ++step) {
    if (random() % 40 == 0) {
      std::vector<std::pair<uint32_t, std::string>> pairs;
      for (uint32_t left = random() % 4; left != 0; --left) {
        const uint32_t number = static_cast<uint32_t>(random() % keys);
        pairs.emplace_back(number, random() % 3 == 0 ? "" : std::to_string(step));
      }
      change(pairs);
    }
    if (random() % 500 == 0) {
      const std::string first = key_of(random() % keys);
      const std::string end = key_of(random() % keys);
      const LeafCache::Change change(leaves_, first, end);
      const std::lock_guard guard(disk_.mutex);
      auto at = disk_.pairs.lower_bound(first);
      while (at != disk_.pairs.end() && at->first < end) at = disk_.pairs.erase(at);
    }
    if (views.empty() || random() % 30 == 0) views.emplace_back(view(), pairs_now());
    if (views.size() > 4) views.erase(views.begin() + static_cast<ptrdiff_t>(random() % 4));
    auto& [files, right] = views[random() % views.size()];
    const bool whole = random() % 3 != 0;
    const std::string first = whole ? std::string() : key_of(random() % keys);
    const std::string end = whole ? std::string("z") : std::max(first, key_of(random() % keys));
    const std::string from = std::clamp(key_of(random() % keys), first, end);
    check(*files, right, first, end, from, random() % 200);
    if (HasFatalFailure()) FAIL() << step;
    ASSERT_LE(leaves_.bytes(), 64 << 10);
  }
}

TEST_F(LeafCacheTest, WhatWasReadIsNotReadAgainUntilItChanges) {
  for (uint32_t i = 0; i < 1000; ++i) change({{i, "v"}});
  const auto read = [&](TreeView& files, uint32_t from, uint32_t pairs) {
    const std::unique_ptr<TreeCursor> at = files.cursor({}, "z", false);
    at->seek(key_of(from));
    while (--pairs != 0) at->next();
    return std::string(at->value());
  };
  auto before = view();
  read(*before, 100, 400);
  const uint64_t bytes = leaves_.bytes();
  EXPECT_GT(bytes, 400 * 10);
  disk_.throws = true;  // a cursor of the files that goes on
  auto files = view();
  EXPECT_EQ(read(*files, 100, 400), "v");
  EXPECT_EQ(read(*files, 250, 100), "v");
  EXPECT_THROW(read(*files, 450, 100), std::bad_alloc);
  disk_.throws = false;
  change({{300, "w"}});
  EXPECT_LT(leaves_.bytes(), bytes);
  EXPECT_EQ(read(*view(), 300, 1), "w");
  EXPECT_EQ(read(*before, 300, 1), "v");
  EXPECT_EQ(read(*view(), 200, 101), "w");
}

TEST_F(LeafCacheTest, KeepsNothingOfWhatIsReadOnce) {
  for (uint32_t i = 0; i < 100; ++i) change({{i, "v"}});
  const auto files = view();
  const std::unique_ptr<TreeCursor> at = files->cursor({}, "z", true);
  uint32_t pairs = 0;
  for (at->seek({}); at->valid(); at->next()) ++pairs;
  EXPECT_EQ(pairs, 100);
  EXPECT_EQ(leaves_.bytes(), 0);
}

// A view that is made while the files change has no leaves, and makes none.
TEST_F(LeafCacheTest, LeavesAreOfOneSideOfAChange) {
  for (uint32_t i = 0; i < 100; ++i) change({{i, "v"}});
  std::unique_ptr<TreeView> between;
  {
    const LeafCache::Change change(leaves_, std::span<const TreeEntry>());
    between = view();
    check(*between, pairs_now(), {}, "z", key_of(0), 100);
    EXPECT_EQ(leaves_.bytes(), 0);
  }
  check(*between, pairs_now(), {}, "z", key_of(0), 100);
  EXPECT_EQ(leaves_.bytes(), 0);
}

class SmallLeafCacheTest : public LeafCacheTest {
 protected:
  SmallLeafCacheTest() : LeafCacheTest(8 << 10) {}
};

TEST_F(SmallLeafCacheTest, ThreadsReadWhileFilesChange) {
  constexpr uint32_t keys = 600;
  for (uint32_t i = 0; i < keys; ++i) change({{i, "0"}});
  std::mutex making;  // a view and what it shows
  std::atomic<bool> ends{false};
  const auto read = [&](unsigned seed) {
    std::mt19937 random(seed);
    while (!ends) {
      std::unique_ptr<TreeView> files;
      TreePairs right;
      {
        const std::lock_guard guard(making);
        files = view();
        right = pairs_now();
      }
      for (int i = 0; i < 5; ++i) {
        check(*files, right, {}, "z", key_of(random() % keys), random() % 150);
      }
    }
  };
  std::thread one(read, 1);
  std::thread two(read, 2);
  std::mt19937 random(3);
  for (int round = 0; round < 150; ++round) {
    const std::lock_guard guard(making);
    change({{static_cast<uint32_t>(random() % keys), std::to_string(round)}});
  }
  ends = true;
  one.join();
  two.join();
}

}  // namespace
}  // namespace isotherm::leaf_cache_test
