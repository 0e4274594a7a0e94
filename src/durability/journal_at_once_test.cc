// What the journal lets happen without a batch, or without a call of the system: gets that show
// what is safe, and records that are stored to mapped segments.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "durability/journal.h"
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

// In files that are memory records are stored in the place of writes.
TEST_F(JournalAtOnceTest, WhatWasStoredToMappedSegmentsIsThereAgain) {
  std::string in_memory = "/dev/shm/isotherm-journal-XXXXXX";
  if (::mkdtemp(in_memory.data()) == nullptr) GTEST_SKIP();
  constexpr uint64_t bytes = 4096;
  const int file = system_files().open(in_memory + "/probe");
  ASSERT_EQ(system_files().allocate(file, bytes), 0);
  char* const mapped = system_files().map(file, bytes);
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
