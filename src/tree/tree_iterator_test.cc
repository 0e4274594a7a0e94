// Iterators over runs and files while runs are put to, sealed and written; both directions, bounds,
// and keys that were erased.
#include "tree/tree_iterator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "items/item.h"
#include "items/poison.h"
#include "models/tree_files_in_memory.h"
#include "tree/tree.h"
#include "tree/tree_moment.h"

namespace isotherm::tree_iterator_test {
namespace {

std::string in_tree(const std::string& key) {
  std::string text;
  TreeRecord::put_key(0, key, text);
  return text;
}

class TreeIteratorTest : public ::testing::Test {
 protected:
  using Model = std::map<std::string, std::string>;

  TreeIteratorTest() {
    TreeOptions options;
    options.run_bytes = 24 << 10;
    options.pause_ms = 1;
    options.writers = 2;
    tree_ = std::make_unique<Tree>(std::make_unique<TreeFilesInMemory>(disk_), options);
  }
  void change(const std::string& key, const std::string* value, uint64_t version) {
    alignas(Item) char memory[512];
    Batch batch;
    const CommitSink::Begun begun = tree_->begins(batch);
    ItemChange told{};
    told.key = key;
    told.hash = tree_->hash_of(0, key);
    told.version = version;
    told.token = begun.token;
    if (value != nullptr) {
      Item* const item = Item::create(memory, {.key = key, .value_bytes = value->size()});
      value->copy(item->value_data(), value->size());
      item->set_version(version);
      told.new_item = item;
    }
    tree_->changed(told);
    static_cast<void>(tree_->ends(begun.token));
  }

  TreeDisk disk_;
  std::unique_ptr<Tree> tree_;
};

// Two threads change keys of their own, of which each knows what they had at each moment; two
// others go over moments, also old ones, from any key, both ways.
TEST_F(TreeIteratorTest, ThreadsSeeMomentsWhileRunsAreSealedAndWritten) {
  constexpr uint32_t keys = 500;
  std::mutex standing;  // of what follows, and as Batch::stand_still
  Model now;
  std::atomic<uint64_t> version{0};
  std::atomic<int> reading{2};
  std::atomic<int> asking{0};  // readers that wait, whom writers let go first, or they never would
  const auto key_of = [](uint32_t number) { return "a key " + std::to_string(1000 + number); };
  const auto write = [&](uint32_t odd) {
    std::mt19937 random(odd);
    while (reading != 0) {
      while (asking != 0) std::this_thread::yield();
      const std::lock_guard guard(standing);
      for (int i = 0; i < 4; ++i) {
        const std::string key = key_of(static_cast<uint32_t>(random() % (keys / 2)) * 2 + odd);
        const std::string value(random() % 60, static_cast<char>('a' + random() % 26));
        const bool erases = random() % 3 == 0;
        change(key, erases ? nullptr : &value, ++version);
        if (erases) now.erase(key);
        if (!erases) now[key] = value;
      }
    }
  };
  struct Seen {
    std::shared_ptr<const TreeMoment> moment;
    Model model;
  };
  const auto check = [&](const Seen& seen, std::mt19937& random) {
    const std::string first = key_of(static_cast<uint32_t>(random() % keys));
    const std::string end = std::max(first, key_of(static_cast<uint32_t>(random() % keys)));
    const std::string from = key_of(static_cast<uint32_t>(random() % keys));
    TreeIterator at = seen.moment->iterator(in_tree(first), in_tree(end));
    const auto begin = seen.model.lower_bound(first);
    const auto behind = seen.model.lower_bound(end);
    auto right = seen.model.lower_bound(std::clamp(from, first, end));
    const auto same = [&](Model::const_iterator pair) {
      TreeRecord record;
      ASSERT_TRUE(record.read(at.value()));
      ASSERT_EQ(at.key().substr(TreeRecord::prefix_bytes), pair->first);
      ASSERT_EQ(record.value, pair->second);
    };
    at.seek_before(in_tree(from));
    for (auto pair = right; pair != begin; at.prev()) {
      ASSERT_TRUE(at.valid());
      same(--pair);
    }
    ASSERT_FALSE(at.valid());
    for (at.seek(in_tree(from)); right != behind; ++right, at.next()) {
      ASSERT_TRUE(at.valid());
      same(right);
    }
    ASSERT_FALSE(at.valid());
  };
  const auto read = [&](uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<Seen> all;
    const auto goes_on = [&](int round) {
      return (round < (poison::sanitized ? 50 : 80) || version < 400) && !HasFatalFailure();
    };
    for (int round = 0; goes_on(round); ++round) {
      ++asking;
      {
        const std::lock_guard guard(standing);
        --asking;
        all.push_back({tree_->take_moment(0), now});
      }
      if (all.size() > 3) all.erase(all.begin() + static_cast<ptrdiff_t>(random() % all.size()));
      for (const Seen& seen : all) check(seen, random);
    }
    --reading;
  };
  std::vector<std::thread> threads;
  for (const uint32_t odd : {0u, 1u}) threads.emplace_back(write, odd);
  for (const uint32_t seed : {5u, 6u}) threads.emplace_back(read, seed);
  for (std::thread& thread : threads) thread.join();
  // On a busy machine the tree's own thread may not have had its turn before.
  EXPECT_TRUE(tree_->flush());
  EXPECT_GT(tree_->stats().ingested, 0);
}

// What runs know alone, with what was erased.
TEST_F(TreeIteratorTest, ChangesAreThoseOfRunsAtTheMoment) {
  const std::string value = "v";
  change("in files", &value, 1);
  ASSERT_TRUE(tree_->flush());
  change("erased", nullptr, 2);
  change("put", &value, 3);
  const auto moment = tree_->take_moment(0);
  change("later", &value, 4);
  change("put", nullptr, 5);
  TreeIterator at = moment->sources()->changes(in_tree({}), in_tree("z"));
  at.seek({});
  ASSERT_TRUE(at.valid());
  EXPECT_EQ(at.key(), in_tree("erased"));
  EXPECT_TRUE(at.value().empty());
  at.next();
  ASSERT_TRUE(at.valid());
  EXPECT_EQ(at.key(), in_tree("put"));
  EXPECT_FALSE(at.value().empty());
  at.next();
  EXPECT_FALSE(at.valid());
}

}  // namespace
}  // namespace isotherm::tree_iterator_test
