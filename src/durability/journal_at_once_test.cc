// What the journal lets happen without a batch, or without a call of the system: gets that show
// what is safe, and records that are stored to mapped segments.
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "base/hash.h"
#include "durability/journal.h"
#include "durability/key_marks.h"
#include "items/poison.h"
#include "models/journal_fixture.h"

namespace isotherm::journal_at_once_test {
namespace {

using JournalAtOnceTest = JournalFixture;

TEST_F(JournalAtOnceTest, AGetAtOnceShowsWhatIsSafe) {
  open();
  put("key", "0");
  put("other", "0");
  files.hold_syncs(true);
  Worker writer(store->engine, false);
  Worker reader(store->engine, false);
  std::string value;
  uint64_t version = 0;
  Batch write;
  write.put("key", "1");
  ASSERT_EQ(writer.start(write), Worker::Started::under_way);
  EXPECT_FALSE(writer.get_at_once(0, "other", value, version));
  EXPECT_FALSE(reader.get_at_once(0, "key", value, version));
  EXPECT_TRUE(reader.get_at_once(0, "other", value, version));
  EXPECT_EQ(value, "0");
  files.hold_syncs(false);
  writer.wait_for(write);
  EXPECT_TRUE(reader.get_at_once(0, "key", value, version));
  EXPECT_EQ(value, "1");
  EXPECT_EQ(version, write.reply(0).version);
}

// Keys share marks by their hash, but hardly ever both of theirs. The hash is the same each time.
TEST_F(JournalAtOnceTest, ReadersOfOtherKeysDoNotWaitBesideManyChanges) {
  open();
  const auto names = [](const std::string& prefix, int count) {
    std::vector<std::string> all;
    for (int i = 0; i < count; ++i) all.push_back(prefix + std::to_string(i));
    return all;
  };
  const std::vector<std::string> changed = names("changed", 1600);
  const std::vector<std::string> others = names("other", 8000);
  files.hold_syncs(true);
  Worker writer(store->engine, false);
  Worker reader(store->engine, false);
  Batch write;
  for (const std::string& key : changed) write.put(key, "1");
  ASSERT_EQ(writer.start(write), Worker::Started::under_way);
  int waiting = 0;
  std::deque<Batch> reads(10);
  for (size_t i = 0; i < reads.size(); ++i) {
    for (size_t j = 0; j < 800; ++j) reads[i].get(others[i * 800 + j]);
    if (reader.start(reads[i]) == Worker::Started::under_way) ++waiting;
  }
  EXPECT_LE(waiting, 3);
  Batch of_changed;
  of_changed.get(changed[7]);
  EXPECT_EQ(reader.start(of_changed), Worker::Started::under_way);
  files.hold_syncs(false);
  writer.wait_for(write);
  for (Batch& read : reads) reader.wait_for(read);
  reader.wait_for(of_changed);
  EXPECT_EQ(of_changed.reply(0).value(), "1");
}

TEST(KeyMarks, SayWhoHasChangedAKeyLast) {
  KeyMarks marks;
  const uint64_t key = hash_bytes("key", 1);
  EXPECT_TRUE(marks.is_before(key, 0, 0));
  EXPECT_EQ(marks.raise(key, 5), 0u);
  EXPECT_EQ(marks.raise(key, 5), 0u);
  EXPECT_TRUE(marks.is_before(key, 5, 0));
  EXPECT_FALSE(marks.is_before(key, 4, 0));
  EXPECT_TRUE(marks.is_before(key, 4, 5));
  EXPECT_FALSE(marks.is_before(key, 4, 6));
  EXPECT_TRUE(marks.is_before(hash_in(1, key), 4, 0));
  EXPECT_EQ(marks.raise(key, 7), 5u);
  EXPECT_EQ(marks.raise(key, 6), 7u);
  EXPECT_FALSE(marks.is_before(key, 6, 6));
  // Whoever shares a mark with keys of two batches is told of the other one.
  for (uint64_t i = 0; i < 1 << 19; ++i) marks.raise(mix(i, 1), 8);
  EXPECT_EQ(marks.raise(key, 9), 8u);
}

// In files that are memory records are stored in the place of writes.
TEST_F(JournalAtOnceTest, WhatWasStoredToMappedSegmentsIsThereAgain) {
  std::string in_memory = "/dev/shm/isotherm-journal-XXXXXX";
  if (::mkdtemp(in_memory.data()) == nullptr) GTEST_SKIP();
  constexpr uint64_t bytes = 4096;
  const int file = system_files().open(in_memory + "/probe");
  ASSERT_EQ(system_files().allocate(file, bytes), 0);
  char* const mapped = system_files().map(file, bytes, true);
  if (mapped != nullptr) system_files().unmap(mapped, bytes);
  system_files().close(file);
  for (const SyncPolicy policy : {SyncPolicy::always, SyncPolicy::no}) {
    folder = in_memory + "/" + std::to_string(folders++);
    std::filesystem::create_directory(folder);
    const auto reopen = [&] {
      store.reset();
      store = std::make_unique<JournaledStore>(folder, clock, system_files(), policy);
      return store->content();
    };
    reopen();
    run_history(1, poison::sanitized ? 10 : 40);
    const auto before = store->content();
    EXPECT_GT(before.size(), 20u);
    EXPECT_EQ(reopen(), before);
    EXPECT_EQ(store->torn_bytes, 0u);
    EXPECT_EQ(reopen(), before);
    store.reset();
    EXPECT_GT(segments().size(), 5u);
  }
  std::filesystem::remove_all(in_memory);
  if (mapped == nullptr) GTEST_SKIP() << "/dev/shm is on a disk";
}

}  // namespace
}  // namespace isotherm::journal_at_once_test
