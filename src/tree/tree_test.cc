#include "tree/tree.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "items/item.h"
#include "items/poison.h"
#include "models/tree_files_in_memory.h"

namespace isotherm::tree_test {
namespace {

class Told final : public Awaited::Waiter {
 public:
  void there() override {
    const std::lock_guard guard(mutex_);
    told_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return told_; });
  }
  bool is_told() {
    const std::lock_guard guard(mutex_);
    return told_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool told_ = false;
};

class TreeTest : public ::testing::Test {
 protected:
  TreeTest() { open(); }
  ~TreeTest() override { disk_.hold(false); }
  void open(uint64_t run_bytes = 1 << 20, uint32_t stripes = 1 << 16) {
    tree_.reset();
    TreeOptions options;
    options.stripes = stripes;
    options.run_bytes = run_bytes;
    options.readers = 2;
    options.pause_ms = 1;
    options.count = [this](int64_t bytes) { counted_ += bytes; };
    tree_ = std::make_unique<Tree>(std::make_unique<TreeFilesInMemory>(disk_), options);
  }
  // A change as a row makes it; null: the key is erased.
  void change(const std::string& key, const char* value, int64_t expiry = no_expiry) {
    Batch batch;
    batch.put(key, {});
    const CommitSink::Begun begun = tree_->begins(batch);
    tell(key, value, expiry, begun.token);
    if (Awaited* const what = tree_->ends(begun.token)) {
      Told told;
      what->begin(told);
      told.wait();
    }
  }
  void tell(const std::string& key, const char* value, int64_t expiry, uint64_t token) {
    alignas(8) char memory[256];
    Item* item = nullptr;
    const std::string_view text = value != nullptr ? value : "";
    if (value != nullptr) {
      item = Item::create(memory, {.key = key, .value_bytes = text.size(), .expiry = expiry});
      std::memcpy(item->value_data(), text.data(), text.size());
      item->set_version(++version_);
    }
    tree_->changed({ItemChange::Reason::request, 0, key, tree_->hash_of(0, key), nullptr, item,
                    expiry, ++version_, token});
  }
  // What it shows: the value, "(absent)", "(coming)" or "(failed)".
  std::string look(std::string_view key, bool may_wait = true) {
    using enum Backing::Answer;
    const Backing::Answer answer = tree_->look(0, key, now_ms_, may_wait, stored_);
    return answer == found    ? std::string(stored_.value)
           : answer == absent ? "(absent)"
           : answer == coming ? "(coming)"
                              : "(failed)";
  }
  // Calls `change` while the key is read.
  template <class Change>
  void read_while(std::string_view key, Change&& change) {
    disk_.hold(true);
    EXPECT_EQ(look(key, false), "(coming)");
    const Backing::Seen seen = stored_.seen;
    Told told;
    stored_.awaited->begin(told);
    disk_.wait_for_held();
    EXPECT_FALSE(told.is_told());
    change();
    EXPECT_FALSE(tree_->is_as_seen(seen));
    disk_.hold(false);
    told.wait();
  }
  std::string all_keys(uint64_t count) {
    std::string keys;
    uint64_t cursor = 0;
    const Backing::Show show = [&](std::string_view key, uint64_t, int64_t) {
      keys.append(key) += ' ';
    };
    bool anew = false;
    do {
      if (!tree_->walk(0, cursor, count, now_ms_, show, anew)) return "(failed)";
    } while (cursor != 0);
    return keys;
  }

  TreeDisk disk_;
  std::atomic<int64_t> counted_{0};
  int64_t now_ms_ = 1000;
  uint64_t version_ = 0;
  Backing::Stored stored_;
  std::unique_ptr<Tree> tree_;
};

// That a run is full is seen by many threads, of which one seals it.
TEST_F(TreeTest, NoRunIsSealedThatHasHardlyBegun) {
  constexpr uint32_t batches = 320;
  constexpr uint32_t rows = poison::sanitized ? 25 : 500;
  std::atomic<uint64_t> version{0};
  const auto run_batch = [&](const std::string& name) {
    alignas(8) char memory[256];
    Batch batch;
    batch.put(name, {});
    const CommitSink::Begun begun = tree_->begins(batch);
    for (uint32_t row = 0; row < rows; ++row) {
      const std::string key = name + std::to_string(row);
      Item* const item = Item::create(memory, {.key = key});
      item->set_version(++version);
      tree_->changed({ItemChange::Reason::request, 0, key, tree_->hash_of(0, key), nullptr, item,
                      no_expiry, item->version(), begun.token});
    }
    if (Awaited* const what = tree_->ends(begun.token)) {
      Told told;
      what->begin(told);
      told.wait();
    }
  };
  const auto runs_by = [&](uint32_t threads) {
    open(rows << 11);
    const uint64_t before = tree_->stats().ingested;
    std::vector<std::thread> all;
    for (uint32_t thread = 0; thread < threads; ++thread) {
      all.emplace_back([&, thread] {
        for (uint32_t i = thread; i < batches; i += threads) {
          run_batch(std::to_string(threads) + " " + std::to_string(i) + " ");
        }
      });
    }
    for (std::thread& thread : all) thread.join();
    EXPECT_TRUE(tree_->flush());
    return tree_->stats().ingested - before;
  };
  const uint64_t by_one = runs_by(1);
  EXPECT_GT(by_one, 10u);
  EXPECT_LE(runs_by(8), by_one + by_one / 4);
}

TEST_F(TreeTest, TheNewestChangeIsShownWhereverItLies) {
  change("key", "one");
  EXPECT_EQ(look("key"), "one");
  EXPECT_TRUE(tree_->flush());
  EXPECT_EQ(look("key"), "one");
  EXPECT_EQ(disk_.reads, 1u);
  change("key", "two");
  EXPECT_EQ(look("key"), "two");
  change("key", nullptr);
  EXPECT_EQ(look("key"), "(absent)");
  EXPECT_TRUE(tree_->flush());
  EXPECT_EQ(look("key"), "(absent)");
  EXPECT_TRUE(disk_.pairs.empty());
  EXPECT_EQ(look("never"), "(absent)");
  EXPECT_EQ(disk_.reads, 1u) << "a filter saves the others";
}

// Each allocation of the thread that writes fails in turn, from the files on to what follows them.
TEST_F(TreeTest, WhereTheWritersMemoryFailsItGoesOn) {
  const auto stand_still = [](const std::function<void()>& work) {
    work();
    return true;
  };
  for (int64_t works = 0; works < 40; ++works) {
    const std::string name = "a name longer than a string has room for " + std::to_string(works);
    change(name, "value");
    disk_.memory_works = works;
    if (!tree_->flush()) {
      EXPECT_NE(tree_->last_error(), "");
      EXPECT_TRUE(tree_->flush()) << works;
    }
    change("another", name.c_str());
    std::string problem = tree_->checkpoint(name, stand_still);
    if (!problem.empty()) problem = tree_->checkpoint(name, stand_still);
    EXPECT_EQ(problem, "");
    EXPECT_EQ(disk_.checkpoints[name].size(), static_cast<size_t>(works) + 2);
  }
}

TEST_F(TreeTest, AllIsThereInTheNextTree) {
  change("a", "1");
  change("b", "2");
  change("a", nullptr);
  const uint64_t last = version_;
  open();
  EXPECT_EQ(look("a") + look("b"), "(absent)2");
  EXPECT_GE(tree_->last_version(), last);
  tree_.reset();
  EXPECT_EQ(counted_, 0) << "memory is given back";
}

TEST_F(TreeTest, WhatHasExpiredIsAbsent) {
  change("key", "1", now_ms_ + 10);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(look("key"), "1");
    EXPECT_EQ(stored_.expiry, now_ms_ + 10);
    now_ms_ += 10;
    EXPECT_EQ(look("key") + all_keys(10), "(absent)");
    now_ms_ -= 10;
    EXPECT_TRUE(tree_->flush());
  }
}

// The load has read the old value, and then the key is changed, be it in a run or in the files.
TEST_F(TreeTest, ALoadDoesNotOvertakeAChange) {
  for (const char* newer : {static_cast<const char*>(nullptr), "new"}) {
    for (const bool flushes : {false, true}) {
      change("key", "old");
      ASSERT_TRUE(tree_->flush());
      read_while("key", [&] {
        change("key", newer);
        if (flushes) {
          EXPECT_TRUE(tree_->flush());
        }
      });
      EXPECT_EQ(look("key"), newer != nullptr ? newer : "(absent)") << flushes;
    }
  }
}

// A key that is changed all the time keeps none of its stripe from being read.
TEST_F(TreeTest, ALoadCountsThoughOtherKeysOfItsStripeChange) {
  open(1 << 20, 1);
  change("key", "value");
  change("other", "one");
  ASSERT_TRUE(tree_->flush());
  read_while("key", [&] { change("other", "two"); });
  EXPECT_EQ(look("key", false), "value");
  EXPECT_TRUE(tree_->is_as_seen(stored_.seen));
}

TEST_F(TreeTest, SeveralShareALoadAndTakeItWhenItIsThere) {
  change("key", "value");
  ASSERT_TRUE(tree_->flush());
  disk_.hold(true);
  Told first;
  Told second;
  ASSERT_EQ(look("key", false), "(coming)");
  stored_.awaited->begin(first);
  ASSERT_EQ(look("key", false), "(coming)");
  stored_.awaited->begin(second);
  disk_.wait_for_held();
  disk_.hold(false);
  first.wait();
  second.wait();
  EXPECT_EQ(look("key", false), "value");
  EXPECT_EQ(disk_.reads, 1u);
}

TEST_F(TreeTest, FilesThatCannotBeReadSaySo) {
  change("key", "value");
  ASSERT_TRUE(tree_->flush());
  disk_.fails_to_read = true;
  EXPECT_EQ(look("key"), "(failed)");
  ASSERT_EQ(look("key", false), "(coming)");
  Told told;
  stored_.awaited->begin(told);
  told.wait();
  EXPECT_EQ(look("key", false), "(failed)");
  disk_.fails_to_read = false;
  EXPECT_EQ(look("key"), "value");
}

TEST_F(TreeTest, AFlushHidesWhatIsOlderAtOnceAndLaterInTheFiles) {
  change("file", "1");
  ASSERT_TRUE(tree_->flush());
  change("run", "1");
  Batch batch;
  batch.flush(0, 1);
  const CommitSink::Begun begun = tree_->begins(batch);
  tree_->flushed(0, ++version_, begun.token);
  tree_->ends(begun.token);
  change("later", "1");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(look("file") + look("run") + look("later"), "(absent)(absent)1");
    EXPECT_EQ(all_keys(10), "later ");
    EXPECT_EQ(tree_->count(*tree_->take_moment(0), now_ms_), 1u);
    ASSERT_TRUE(tree_->flush());
  }
  EXPECT_EQ(disk_.pairs.size(), 1u);
}

TEST_F(TreeTest, FlushesOfAllDatabasesAreOneRun) {
  change("run", "1");
  Batch batch;
  batch.flush(0, 16);
  const CommitSink::Begun begun = tree_->begins(batch);
  for (uint32_t database = 0; database < 16; ++database) {
    tree_->flushed(database, ++version_, begun.token);
  }
  tree_->ends(begun.token);
  change("later", "1");
  EXPECT_EQ(look("run") + look("later"), "(absent)1");
  ASSERT_TRUE(tree_->flush());
  EXPECT_EQ(tree_->stats().ingested, 2u);
  EXPECT_EQ(all_keys(10), "later ");
}

TEST_F(TreeTest, AWalkShowsEveryKeyOnceInOrder) {
  std::string expected;
  for (int i = 100; i < 400; ++i) {
    const std::string key = std::to_string(i);
    change(key, "old");
    if (i % 7 == 0) {
      ASSERT_TRUE(tree_->flush());
    }
    if (i % 3 == 0) change(key, nullptr);
    if (i % 6 == 0) change(key, "new");
    if (i % 3 != 0 || i % 6 == 0) expected += key + ' ';
  }
  for (const uint64_t count : {1, 3, 10, 1000}) EXPECT_EQ(all_keys(count), expected) << count;
}

// Five runs wait; the writer of the next one waits until files can be written again.
TEST_F(TreeTest, WritersWaitForRoomAndAreRefusedWhileFilesFail) {
  open(1);
  disk_.fails_to_write = true;
  change("first", "1");
  while (tree_->error().empty()) std::this_thread::yield();
  for (int i = 0; i < 20; ++i) change(std::to_string(i), "1");
  EXPECT_TRUE(tree_->refuses());
  EXPECT_TRUE(tree_->full());
  EXPECT_EQ(look("first") + look("19"), "11");
  EXPECT_FALSE(tree_->flush());
  disk_.fails_to_write = false;
  while (tree_->stats().runs != 0) std::this_thread::yield();
  EXPECT_FALSE(tree_->refuses());
  EXPECT_EQ(tree_->error(), "");
  EXPECT_EQ(tree_->count(*tree_->take_moment(0), now_ms_), 21u);
  // Not a part of them.
  disk_.fails_to_read = true;
  EXPECT_EQ(tree_->count(*tree_->take_moment(0), now_ms_), std::nullopt);
  disk_.fails_to_read = false;
  disk_.throws = true;
  EXPECT_EQ(tree_->count(*tree_->take_moment(0), now_ms_), std::nullopt);
  disk_.throws = false;
}

TEST_F(TreeTest, ATreeAndAJournalOfAnotherStoreAreRefused) {
  tree_->expect_journal(7, 0, false);
  change("key", "1");
  ASSERT_TRUE(tree_->flush());
  open();
  EXPECT_NO_THROW(tree_->expect_journal(7, 0, true));
  EXPECT_THROW(tree_->expect_journal(8, 0, true), TreeError);
  EXPECT_THROW(tree_->expect_journal(7, 1, true), TreeError) << "records are missing";
  // Changed without it.
  tree_->expect_journal(0, 0, false);
  change("key", "2");
  open();
  EXPECT_THROW(tree_->expect_journal(7, 0, true), TreeError);
  // A new one, which is known before anything was taken in.
  tree_->expect_journal(9, 0, false);
  open();
  EXPECT_NO_THROW(tree_->expect_journal(9, 0, true));
}

TEST_F(TreeTest, AnEndWithoutMemoryLeavesTheJournalNeeded) {
  tree_->expect_journal(7, 0, false);
  change("key", "1");
  ASSERT_TRUE(tree_->flush());
  disk_.throws = true;
  EXPECT_NO_THROW(tree_->end_journal());
  disk_.throws = false;
  EXPECT_NE(disk_.meta.lsn, TreeMeta::all_of_it);
  open();
  EXPECT_NO_THROW(tree_->expect_journal(7, 0, true));
}

// Long keys must not make cursors that nobody goes on from fill memory.
TEST_F(TreeTest, CursorsThatAreTooOldBeginAnew) {
  change("a", "1");
  ASSERT_TRUE(tree_->flush());
  std::string longest;
  TreeRecord::put_key(0, std::string(1 << 20, 'b'), longest);
  disk_.pairs[longest] = disk_.pairs.begin()->second;
  std::string shown;
  const Backing::Show show = [&](std::string_view key, uint64_t, int64_t) { shown += key[0]; };
  bool anew = false;
  const auto step = [&](uint64_t cursor) {
    anew = false;
    EXPECT_TRUE(tree_->walk(0, cursor, 1, now_ms_, show, anew));
    return cursor;
  };
  const uint64_t first = step(0);
  uint64_t last = 0;
  for (int i = 0; i < 20; ++i) last = step(0);
  EXPECT_FALSE(anew);
  shown.clear();
  EXPECT_EQ(step(last), 0u);
  EXPECT_FALSE(anew);
  EXPECT_NE(step(first), 0u);
  EXPECT_TRUE(anew);
  EXPECT_EQ(shown, "ba");
}

// A run is taken in when the batches that changed something before it was sealed have ended.
TEST_F(TreeTest, NoRunIsTakenInBeforeItsBatchesEnd) {
  Batch batch;
  batch.put("key", {});
  const CommitSink::Begun begun = tree_->begins(batch);
  tell("key", "1", no_expiry, begun.token);
  std::thread flusher([&] { EXPECT_TRUE(tree_->flush()); });
  while (tree_->stats().runs + tree_->stats().ingested == 0) std::this_thread::yield();
  {
    const std::lock_guard guard(disk_.mutex);
    EXPECT_TRUE(disk_.pairs.empty());
  }
  tree_->ends(begun.token);
  flusher.join();
  EXPECT_EQ(disk_.pairs.size(), 1u);
}

}  // namespace
}  // namespace isotherm::tree_test
