// A journal that is written anew (durability/journal.h): nothing is lost, whatever the files do.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <thread>

#include "durability/journal.h"
#include "models/journal_fixture.h"

namespace isotherm::journal_rewrite_test {
namespace {

class JournalRewriteTest : public JournalFixture {
 protected:
  // As the one who rewrites does.
  bool put_all_again() {
    Worker worker(store->engine);
    for (const auto& [key, value] : store->content()) {
      Batch batch;
      batch.get(key.second);
      worker.submit(batch);
      RecordHeader record{};
      record.op = RecordOp::put;
      record.version = batch.reply(0).version;
      record.key_bytes = static_cast<uint32_t>(key.second.size());
      record.value_bytes = std::get<0>(value).size();
      std::string text(reinterpret_cast<const char*>(&record), sizeof record);
      text += key.second + std::get<0>(value);
      text.resize(record_bytes(record.key_bytes, record.value_bytes));
      if (!store->journal->put_again(text)) return false;
    }
    return true;
  }
};

// It is as before, or done.
TEST_F(JournalRewriteTest, AFaultWhileItIsWrittenAnewLosesNothing) {
  int read_again = 0;
  for (int call = 0; call < 14; ++call) {
    folder = new_folder();
    open();
    for (int i = 0; i < 10; ++i) put("key" + std::to_string(i), std::string(3000, 'a'));
    const auto content = store->content();
    Journal& journal = *store->journal;
    files.fail_after(call, 1, EIO);
    const bool begun = journal.begin_rewrite() >= 0;
    const bool ended = begun && put_all_again() && journal.end_rewrite() >= 0;
    files.heal();
    while (journal.error() != 0) std::this_thread::yield();
    const std::string left = new_folder();
    files.lose_power(folder, left);
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (!std::filesystem::exists(left + "/" + entry.path().filename().string())) {
        ADD_FAILURE() << entry.path() << " at call " << call;
      }
    }
    const JournalReader reader(left, "test", 1);
    EXPECT_TRUE(!ended || reader.manifest().first > 1) << "call " << call;
    reader.read([&](const RecordHeader& record, int64_t) {
      EXPECT_EQ(record.value(), std::get<0>(content.at({0, std::string(record.key())})));
      ++read_again;
    });
    EXPECT_EQ(read_again, 10 * (call + 1)) << "call " << call;
    EXPECT_EQ(open().content(), content) << "call " << call;
  }
}

// Writes are refused until there is a folder again, where then all is.
TEST_F(JournalRewriteTest, AFolderThatIsRemovedIsNoticedAndFilledAnew) {
  for (const SyncPolicy policy : {SyncPolicy::everysec, SyncPolicy::always}) {
    folder = new_folder();
    open(policy);
    Journal& journal = *store->journal;
    ASSERT_EQ(put("before", "1"), Status::ok);
    ASSERT_GE(journal.sync_now(), 0);
    std::filesystem::remove_all(folder);
    EXPECT_LT((put("unsafe", "1"), journal.sync_now()), 0);
    EXPECT_EQ(journal.error(), ENOENT);
    EXPECT_EQ(put("refused", "1"), Status::not_saved);
    EXPECT_FALSE(journal.is_incomplete());
    std::filesystem::create_directory(folder);
    while (journal.error() != 0) std::this_thread::yield();
    EXPECT_EQ(put("behind", "1"), Status::ok);
    EXPECT_TRUE(journal.is_incomplete());
    ASSERT_GE(journal.begin_rewrite(), 0);
    ASSERT_TRUE(put_all_again());
    ASSERT_GE(journal.end_rewrite(), 0);
    EXPECT_FALSE(journal.is_incomplete());
    const auto content = store->content();
    EXPECT_EQ(content.size(), 3u);
    EXPECT_EQ(open().content(), content);
  }
}

// A crash between the manifest and the removal of what it does not name.
TEST_F(JournalRewriteTest, WhatWasDroppedAndIsStillThereIsRemoved) {
  open();
  put("key", "1");
  const std::string first = read(path("1"));
  ASSERT_GE(store->journal->begin_rewrite(), 0);
  put("key", "2");
  ASSERT_GE(store->journal->end_rewrite(), 0);
  EXPECT_FALSE(std::filesystem::exists(path("1")));
  store.reset();
  write(path("1"), first);
  EXPECT_EQ(std::get<0>(open().content().at({0, "key"})), "2");
  EXPECT_FALSE(std::filesystem::exists(path("1")));
}

// Also where a crash left one before a number that is gone.
TEST_F(JournalRewriteTest, WhatWasDroppedIsRemovedBeforeAGapToo) {
  open();
  put("key", "1");
  const std::string first = read(path("1"));
  for (int i = 0; i < 2; ++i) {
    ASSERT_GE(store->journal->begin_rewrite(), 0);
    put("key", "2");
    ASSERT_GE(store->journal->end_rewrite(), 0);
  }
  store.reset();
  ASSERT_FALSE(std::filesystem::exists(path("2")));
  write(path("1"), first);
  EXPECT_EQ(std::get<0>(open().content().at({0, "key"})), "2");
  EXPECT_FALSE(std::filesystem::exists(path("1")));
}

TEST_F(JournalRewriteTest, ItDoesNotBeginWhereTheDiskHasNoRoom) {
  open();
  put("key", "1");
  files.leave_room(100'000);
  EXPECT_EQ(store->journal->begin_rewrite(100'000), -ENOSPC);
  EXPECT_EQ(store->journal->error(), 0);
  EXPECT_EQ(put("key", "2"), Status::ok);
  EXPECT_GE(store->journal->begin_rewrite(50'000), 0);
}

// Each start begins a segment, of which most is empty.
TEST_F(JournalRewriteTest, ManyStartsTakeLittleOfTheDisk) {
  constexpr uint64_t segment_bytes = 4 << 20;
  const auto start = [&] { open(SyncPolicy::always, segment_bytes); };
  for (int i = 0; i < 5; ++i) {
    start();
    put("key" + std::to_string(i), "value");
  }
  ASSERT_GE(store->journal->begin_rewrite(), 0);
  const std::vector<std::string> all = segments();
  ASSERT_EQ(all.size(), 6u);
  uint64_t taken = 0;
  for (const std::string& segment : all) {
    EXPECT_EQ(std::filesystem::file_size(segment), segment_bytes);
    struct stat status {};
    ASSERT_EQ(::stat(segment.c_str(), &status), 0);
    taken += static_cast<uint64_t>(status.st_blocks) * 512;
  }
  EXPECT_LT(taken, segment_bytes + all.size() * (64 << 10));
  start();
  EXPECT_EQ(store->content().size(), 5u);
}

// Writes go on as soon as there is a little room, much less than for a segment as they are.
TEST_F(JournalRewriteTest, ASegmentTakesHalfOfWhatANearlyFullDiskHas) {
  constexpr uint64_t segment_bytes = 16 << 20;
  const auto start = [&] { open(SyncPolicy::always, segment_bytes); };
  files.leave_room(6 << 20);
  start();
  EXPECT_EQ(put("key0", std::string(1000, 'a')), Status::ok);
  EXPECT_EQ(std::filesystem::file_size(segments().back()), 3u << 20);
  files.leave_room(1 << 20);
  start();
  EXPECT_EQ(put("key1", std::string(1000, 'b')), Status::ok);
  EXPECT_EQ(std::filesystem::file_size(segments().back()), 1u << 20);
  files.leave_room(100'000);
  for (int i = 0; i < 20; ++i) put("filling", std::string(50'000, 'c'));
  EXPECT_EQ(put("key2", std::string(50'000, 'd')), Status::not_saved) << "the segment is full";
  files.leave_room(100 << 20);
  while (store->journal->error() != 0) std::this_thread::yield();
  EXPECT_EQ(put("key3", "e"), Status::ok);
  start();
  EXPECT_EQ(std::get<0>(store->content().at({0, "key1"})), std::string(1000, 'b'));
  EXPECT_EQ(std::get<0>(store->content().at({0, "key2"})), std::string(50'000, 'd'));
  EXPECT_EQ(store->content().size(), 5u);
}

}  // namespace
}  // namespace isotherm::journal_rewrite_test
