// Moments of a tree: what they show stays, whatever becomes of runs and files; and checkpoints.
#include "tree/tree_moment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "items/item.h"
#include "models/tree_files_in_memory.h"
#include "tree/tree.h"

namespace isotherm::tree_moment_test {
namespace {

using Model = std::map<std::string, std::string>;

class TreeMomentTest : public ::testing::Test {
 protected:
  static constexpr uint64_t run_bytes = 16 << 10;

  TreeMomentTest() {
    TreeOptions options;
    options.run_bytes = run_bytes;
    options.pause_ms = 1;
    options.count = [this](int64_t bytes) { counted_ += bytes; };
    tree_ = std::make_unique<Tree>(std::make_unique<TreeFilesInMemory>(disk_), options);
  }
  // As a batch with one row does.
  void change(const std::string& key, const char* value, uint32_t database = 0) {
    alignas(Item) char memory[1024];
    Batch batch;
    const CommitSink::Begun begun = tree_->begins(batch);
    ItemChange change{};
    change.database = database;
    change.key = key;
    change.hash = tree_->hash_of(0, key);
    change.version = ++version_;
    change.token = begun.token;
    if (value != nullptr) {
      const Item::Parts parts{.key = key, .value_bytes = std::string_view(value).size()};
      Item* const item = Item::create(memory, parts);
      std::memcpy(item->value_data(), value, parts.value_bytes);
      item->set_version(version_);
      change.new_item = item;
    }
    tree_->changed(change);
    static_cast<void>(tree_->ends(begun.token));  // and does not wait for room
  }
  static std::string tree_key(const std::string& key, uint32_t database = 0) {
    std::string text;
    TreeRecord::put_key(database, key, text);
    return text;
  }
  static std::string value_of(std::string_view record) {
    TreeRecord its;
    EXPECT_TRUE(its.read(record));
    return std::string(its.value);
  }
  static std::string read(const TreeMoment& moment, const std::string& key) {
    TreeRead read;
    moment.read(key, read);
    EXPECT_NE(read.state, TreeRead::State::failed);
    return read.state == TreeRead::State::found ? value_of(read.value) : "(absent)";
  }
  // All pairs, which both directions and reads must agree on.
  static Model all(const TreeMoment& moment) {
    TreeIterator at =
        moment.iterator(tree_key({}, moment.database()), tree_key({}, moment.database() + 1));
    Model pairs;
    for (at.seek({}); at.valid(); at.next()) {
      const std::string key(at.key().substr(TreeRecord::prefix_bytes));
      EXPECT_TRUE(pairs.empty() || pairs.rbegin()->first < key);
      pairs[key] = value_of(at.value());
      EXPECT_EQ(read(moment, key), pairs[key]);
    }
    auto pair = pairs.rbegin();
    for (at.seek_to_last(); at.valid(); at.prev(), ++pair) {
      if (pair == pairs.rend()) break;
      EXPECT_EQ(at.key().substr(TreeRecord::prefix_bytes), pair->first);
    }
    EXPECT_FALSE(at.valid());
    EXPECT_TRUE(pair == pairs.rend());
    return pairs;
  }

  TreeDisk disk_;
  std::atomic<int64_t> counted_{0};
  uint64_t version_ = 0;
  std::unique_ptr<Tree> tree_;
};

TEST_F(TreeMomentTest, WhatItShowsStays) {
  change("a", "1");
  change("b", "1");
  ASSERT_TRUE(tree_->flush());
  change("b", "2");
  const auto first = tree_->take_moment(0);
  change("b", "3");
  change("a", nullptr);
  change("c", "1");
  const auto second = tree_->take_moment(0);
  change("b", "4");
  change("c", nullptr);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(all(*first), (Model{{"a", "1"}, {"b", "2"}}));
    EXPECT_EQ(all(*second), (Model{{"b", "3"}, {"c", "1"}}));
    EXPECT_EQ(all(*tree_->take_moment(0)), (Model{{"b", "4"}}));
    EXPECT_EQ(read(*second, "a"), "(absent)");
    ASSERT_TRUE(tree_->flush());
  }
}

TEST_F(TreeMomentTest, AFlushOfADatabaseHidesWhatIsOlder) {
  change("a", "1");
  ASSERT_TRUE(tree_->flush());
  change("b", "1");
  change("b", "1", 1);
  const auto before = tree_->take_moment(0);
  tree_->flushed(0, ++version_, 0);
  const auto between = tree_->take_moment(0);
  change("c", "1");
  // The run begins with the flush, and this one with nothing.
  tree_->flushed(0, ++version_, 0);
  tree_->flushed(0, ++version_, 0);
  EXPECT_EQ(all(*before), (Model{{"a", "1"}, {"b", "1"}}));
  EXPECT_EQ(all(*between), Model{});
  EXPECT_EQ(all(*tree_->take_moment(0)), Model{});
  EXPECT_EQ(all(*tree_->take_moment(1)), (Model{{"b", "1"}}));
}

// Moves of an iterator beside those of a map, over random changes, moments and flushes.
TEST_F(TreeMomentTest, RandomMovesAreThoseOfAMap) {
  std::mt19937 random(3);
  const auto draw = [&](uint32_t below) { return random() % below; };
  const auto a_key = [&] { return "key" + std::to_string(draw(40)); };
  Model now;
  std::vector<std::pair<std::shared_ptr<const TreeMoment>, Model>> moments;
  for (int step = 0; step < 300; ++step) {
    for (uint32_t i = draw(8); i != 0; --i) {
      const std::string key = a_key();
      const std::string value(draw(50), 'v');
      const bool erases = draw(3) == 0;
      change(key, erases ? nullptr : value.c_str());
      if (erases) now.erase(key);
      if (!erases) now[key] = value;
    }
    if (draw(6) == 0) {
      ASSERT_TRUE(tree_->flush());
    }
    if (draw(4) == 0) moments.emplace_back(tree_->take_moment(0), now);
    if (moments.size() > 4) moments.erase(moments.begin() + draw(4));
    if (moments.empty()) continue;
    const auto& [moment, model] = moments[draw(static_cast<uint32_t>(moments.size()))];
    const std::string from = a_key();
    const std::string to = std::max(from, a_key());
    TreeIterator at = moment->iterator(tree_key(from), tree_key(to));
    const auto first = model.lower_bound(from);
    const auto end = model.lower_bound(to);
    auto right = end;
    for (int move = 0; move < 20; ++move) {
      const std::string key = a_key();
      const uint32_t kind = right == end ? draw(2) : draw(6);
      if (kind == 0) {
        at.seek(tree_key(key));
        right = key < from ? first : key >= to ? end : model.lower_bound(key);
      } else if (kind == 1) {
        at.seek_before(tree_key(key));
        right = key >= to ? end : key <= from ? first : model.lower_bound(key);
        right = right == first ? end : std::prev(right);
      } else if (kind % 2 == 0) {
        at.next();
        ++right;
      } else {
        at.prev();
        right = right == first ? end : std::prev(right);
      }
      ASSERT_EQ(at.valid(), right != end) << step << ' ' << kind << ' ' << key;
      if (!at.valid()) continue;
      ASSERT_EQ(at.key().substr(TreeRecord::prefix_bytes), right->first);
      ASSERT_EQ(value_of(at.value()), right->second);
    }
  }
}

// Each change is of all keys together, made while no moment is taken.
TEST_F(TreeMomentTest, ThreadsThatChangeDoNotDisturbThoseThatRead) {
  constexpr int keys = 60;
  std::mutex standing;  // as Batch::stand_still has it
  std::atomic<bool> ends{false};
  std::thread writer([&] {
    for (int round = 0; round < 200; ++round) {
      const std::lock_guard guard(standing);
      for (int i = 0; i < keys; ++i) {
        change("key" + std::to_string(i), std::to_string(round).c_str());
      }
    }
    ends = true;
  });
  const auto read_all = [&] {
    while (!ends) {
      std::shared_ptr<const TreeMoment> moment;
      {
        const std::lock_guard guard(standing);
        moment = tree_->take_moment(0);
      }
      const Model pairs = all(*moment);
      ASSERT_TRUE(pairs.empty() || pairs.size() == keys);
      for (const auto& [key, value] : pairs) ASSERT_EQ(value, pairs.begin()->second);
    }
  };
  std::thread reader(read_all);
  read_all();
  reader.join();
  writer.join();
}

// Each is of another time, and is held up to the end, beside runs that are sealed, taken in, and
// taken in at once where moments keep too much.
TEST_F(TreeMomentTest, ManyShowWhatTheyDidWhateverIsTakenIn) {
  std::mt19937 random(5);
  const std::string filler(600, 'f');
  Model now;
  std::vector<std::pair<std::shared_ptr<const TreeMoment>, Model>> moments;
  for (int step = 0; step < 800; ++step) {
    const std::string key = "key" + std::to_string(random() % 60);
    const std::string value = std::to_string(step) + filler.substr(random() % 600);
    const bool erases = random() % 4 == 0;
    change(key, erases ? nullptr : value.c_str());
    if (erases) now.erase(key);
    if (!erases) now[key] = value;
    if (random() % 10 == 0) moments.emplace_back(tree_->take_moment(0), now);
    disk_.fails_to_write = step % 200 < 150;
    if (random() % 20 == 0) tree_->flush();
    if (random() % 120 == 0) {
      tree_->flushed(0, ++version_, 0);
      now.clear();
    }
    if (moments.empty()) continue;
    const auto& [moment, model] = moments[random() % moments.size()];
    ASSERT_EQ(all(*moment), model);
  }
  disk_.fails_to_write = false;
  ASSERT_TRUE(tree_->flush());
  // They were put in order since; and of a run that was being taken in by pieces when the disk
  // failed, all is kept for those that the files may then have more of than they show.
  constexpr int failures = 800 / 200;
  EXPECT_LE(tree_->held_by_moments(), (Tree::most_kept_runs + 2 + failures) * run_bytes);
  for (const auto& [moment, model] : moments) ASSERT_EQ(all(*moment), model);
}

// What moments keep then is more than they may, so that runs are taken in by pieces.
class FullMomentTest : public TreeMomentTest {
 protected:
  FullMomentTest() {
    change("base", "1");
    EXPECT_TRUE(tree_->flush());
    for (int run = 0; run < 8; ++run) {
      change_some();
      held_.push_back(tree_->take_moment(0));
      EXPECT_TRUE(tree_->flush());
    }
  }
  void change_some() {
    for (int i = 0; i < 15; ++i) {
      change("key" + std::to_string(i), std::string(700, 'v').c_str());
    }
  }

  std::vector<std::shared_ptr<const TreeMoment>> held_;
};

// The run that has the flush was empty, and active, when the moment was taken.
TEST_F(FullMomentTest, AFlushBehindItLeavesWhatItShows) {
  const auto moment = tree_->take_moment(0);
  const Model before = all(*moment);
  EXPECT_EQ(before.size(), 16u);
  tree_->flushed(0, ++version_, 0);
  change_some();
  ASSERT_TRUE(tree_->flush());
  EXPECT_EQ(all(*moment), before);
}

// The first time it is not worth pieces, for too many; they are when it is tried again.
TEST_F(FullMomentTest, ShowsNothingOfFilesThatTookInMoreThanTheySaid) {
  change_some();
  const auto moment = tree_->take_moment(0);
  const Model before = all(*moment);
  std::vector<std::shared_ptr<const TreeMoment>> more;
  for (int i = 0; i < 16; ++i) more.push_back(tree_->take_moment(0));
  change("later", "1");
  disk_.throws_behind = true;
  EXPECT_FALSE(tree_->flush());
  more.clear();
  ASSERT_TRUE(tree_->flush());
  EXPECT_EQ(all(*moment), before);
}

// An iterator over the moment was there the first time, so a later one had its piece then.
TEST_F(FullMomentTest, ShowsNothingOfThePieceOfALaterMoment) {
  const auto moment = tree_->take_moment(0);
  const Model before = all(*moment);
  std::optional<TreeIterator> iterator(moment->iterator(tree_key({}), tree_key({}, 1)));
  change_some();
  change("later", "1");
  const auto later = tree_->take_moment(0);
  const Model behind = all(*later);
  change("last", "1");
  disk_.throws_behind = true;
  EXPECT_FALSE(tree_->flush());
  iterator.reset();
  ASSERT_TRUE(tree_->flush());
  EXPECT_TRUE(all(*moment) == before);
  EXPECT_TRUE(all(*later) == behind);
}

// They keep the run themselves.
TEST_F(FullMomentTest, IteratorsCostNoPieces) {
  std::vector<TreeIterator> iterators;
  for (int i = 0; i < 10; ++i) {
    change("key" + std::to_string(i), "1");
    held_.push_back(tree_->take_moment(0));
    iterators.push_back(held_.back()->iterator(tree_key({}), tree_key({}, 1)));
  }
  change("key", "1");
  const uint32_t ingested = disk_.ingested;
  ASSERT_TRUE(tree_->flush());
  EXPECT_EQ(disk_.ingested, ingested + 1);
  iterators.front().seek({});
  EXPECT_EQ(value_of(iterators.front().value()), "1");
}

// What was sealed before a moment was taken goes when it was taken in.
TEST_F(TreeMomentTest, KeepsTheRunAloneThatWasActive) {
  change("a", "1");
  const auto moment = tree_->take_moment(0);
  ASSERT_TRUE(tree_->flush());
  const uint64_t held = tree_->held_by_moments();
  EXPECT_NE(held, 0u);
  const auto later = tree_->take_moment(0);
  change("a", std::string(400, 'v').c_str());
  ASSERT_TRUE(tree_->flush());
  change("a", "3");
  const auto last = tree_->take_moment(0);
  EXPECT_EQ(all(*moment), (Model{{"a", "1"}}));
  EXPECT_EQ(all(*later), (Model{{"a", "1"}}));
  EXPECT_EQ(all(*last), (Model{{"a", "3"}}));
}

// An iterator goes on over what the moment had when it was made.
TEST_F(TreeMomentTest, AnIteratorKeepsWhatItReads) {
  for (int i = 0; i < 20; ++i) change("key" + std::to_string(10 + i), "1");
  const auto moment = tree_->take_moment(0);
  std::vector<std::shared_ptr<const TreeMoment>> others;
  TreeIterator at = moment->iterator(tree_key({}), tree_key({}, 1));
  at.seek({});
  const std::string value(500, 'v');
  for (int i = 0; i < 400; ++i) {
    change("key" + std::to_string(i % 40), value.c_str());
    if (i % 20 == 0) others.push_back(tree_->take_moment(0));
  }
  ASSERT_TRUE(tree_->flush());
  int shown = 0;
  for (; at.valid(); at.next(), ++shown) EXPECT_EQ(value_of(at.value()), "1");
  EXPECT_EQ(shown, 20);
}

TEST_F(TreeMomentTest, RunsThatAMomentHoldsCountUntilItGoes) {
  change("a", std::string(400, 'v').c_str());
  auto moment = tree_->take_moment(0);
  ASSERT_TRUE(tree_->flush());
  change("b", "1");
  ASSERT_TRUE(tree_->flush());
  const int64_t held = counted_;
  moment.reset();
  change("c", "1");
  ASSERT_TRUE(tree_->flush());
  EXPECT_LT(counted_, held - 400);
  tree_.reset();
  EXPECT_EQ(counted_, 0);
}

TEST_F(TreeMomentTest, ACheckpointIsOfTheMomentAtWhichNoRowRan) {
  const auto still = [&](const std::function<void()>& work) {
    work();
    change("later", "1");
    tree_->flush();
    return true;
  };
  change("a", "1");
  EXPECT_EQ(tree_->checkpoint("one", still), "");
  EXPECT_EQ(tree_->checkpoint("two", [](const auto& work) { return work(), true; }), "");
  // Nothing is in a run.
  EXPECT_EQ(tree_->checkpoint("three", still), "");
  EXPECT_TRUE(disk_.checkpoints["one"].contains(tree_key("a")));
  EXPECT_FALSE(disk_.checkpoints["one"].contains(tree_key("later")));
  EXPECT_TRUE(disk_.checkpoints["two"].contains(tree_key("later")));
  EXPECT_EQ(disk_.checkpoints["three"].size(), disk_.checkpoints["two"].size());
  disk_.fails_to_write = true;
  change("b", "1");
  EXPECT_EQ(tree_->checkpoint("four", [](const auto& work) { return work(), true; }), "no room");
  EXPECT_NE(tree_->checkpoint("five", [](const auto&) { return false; }), "");
  disk_.fails_to_write = false;
}

}  // namespace
}  // namespace isotherm::tree_moment_test
