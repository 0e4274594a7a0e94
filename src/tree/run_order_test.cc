#include "tree/run_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/worker_pool.h"
#include "models/failing_memory.h"
#include "tree/tree_run.h"

namespace isotherm::run_order_test {
namespace {

// Short keys, with zeros, that often begin alike: where their heads agree and they do not.
std::string a_key(std::mt19937& random) {
  std::string key(random() % 24, '\0');
  for (size_t i = 0; i < key.size(); ++i) {
    if (random() % 4 == 0) key[i] = static_cast<char>(random() % 3 == 0 ? 0xff : random() % 2);
  }
  return key;
}

TEST(KeyHead, OrdersKeysAsTheirBytes) {
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::string a = a_key(random);
    const std::string b = random() % 8 == 0 ? a : a_key(random);
    const int order = compare_keys(KeyHead::of(a), a, KeyHead::of(b), b);
    ASSERT_EQ(order < 0, a < b) << i;
    ASSERT_EQ(order == 0, a == b) << i;
  }
}

TEST(RunOrder, FindsAndMergesWhatCame) {
  std::mt19937 random(2);
  std::deque<std::string> keys;
  std::deque<RunEntry> entries;
  std::vector<std::string> sorted;
  RunOrder order;
  WorkerPool pool(3);
  for (int round = 0; round < 60; ++round) {
    std::vector<RunPlace> more;
    for (uint32_t left = random() % 40; left != 0; --left) {
      const std::string key = a_key(random);
      if (std::binary_search(sorted.begin(), sorted.end(), key)) continue;
      sorted.insert(std::lower_bound(sorted.begin(), sorted.end(), key), key);
      more.emplace_back(entries.emplace_back(keys.emplace_back(key), 0));
    }
    sort_places(more, pool);
    order = RunOrder(order, std::move(more), round % 20 == 19);
    for (size_t i = 1; i < order.pieces().size(); ++i) {
      EXPECT_GE(order.pieces()[i - 1]->size(), 2 * order.pieces()[i]->size());
    }
    for (int i = 0; i < 50; ++i) {
      const std::string key = a_key(random);
      size_t before = 0;
      for (const auto& piece : order.pieces()) {
        const KeyHead head = KeyHead::of(key);
        const RunPlace* const place = RunPiece::lower_bound(piece->block_of(head), head, key);
        before += static_cast<size_t>(place - piece->begin());
        EXPECT_TRUE(place == piece->end() || place->entry->key() >= key);
      }
      const auto right = std::lower_bound(sorted.begin(), sorted.end(), key);
      ASSERT_EQ(before, static_cast<size_t>(right - sorted.begin()));
    }
  }
}

TEST(RunOrder, SortsManyPlacesByParts) {
  std::mt19937 random(3);
  WorkerPool pool(3);
  for (const bool alike : {false, true}) {
    std::deque<std::string> keys;
    std::deque<RunEntry> entries;
    std::vector<RunPlace> places;
    for (int i = 0; i < 40'000; ++i) {
      // Heads that all agree, or nearly none.
      const std::string number = std::to_string(random());
      const std::string& key = keys.emplace_back(alike ? "0123456789abcdef" + number : number);
      places.emplace_back(entries.emplace_back(key, 0));
    }
    std::vector<RunPlace> expected = places;
    std::stable_sort(expected.begin(), expected.end());
    sort_places(places, pool);
    for (size_t i = 0; i < places.size(); ++i) {
      ASSERT_EQ(places[i].entry->key(), expected[i].entry->key()) << i << (alike ? " alike" : "");
    }
  }
}

// Keys that could not be sorted in are, when somebody asks again.
TEST(RunOrder, LosesNoKeyWhereThereIsNoMemory) {
  bool failed = true;
  for (int works = 0; failed; ++works) {
    TreeRun run;
    TreeRun::Locks locks;
    const auto put = [&](int first, int end) {
      for (int i = first; i < end; ++i) {
        const std::string key = "key" + std::to_string(i);
        run.put(hash_bytes(key, 0), key, nullptr);
      }
    };
    put(0, 50);
    if (works % 2 == 0) run.in_order(locks, 1);
    put(50, 60);
    {
      const FailingMemory memory(works / 2);
      try {
        run.in_order(locks, 1);
      } catch (const std::bad_alloc&) {
      }
      failed = FailingMemory::failed() || works % 2 == 0;
    }
    size_t keys = 0;
    for (const auto& piece : run.in_order(locks, 1)->pieces()) keys += piece->size();
    ASSERT_EQ(keys, 60) << works;
  }
}

}  // namespace
}  // namespace isotherm::run_order_test
