// A journal that rests: marks say that the blocks before them were on disk.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>

#include "models/journal_fixture.h"

namespace isotherm::journal_rest_test {
namespace {

class JournalRestTest : public JournalFixture {
 protected:
  // A copy of the files as a crash would leave them now.
  void copy_to(const std::string& to) const {
    write(to + "/test.1", read(path("1")));
    write(to + "/test.manifest", read(path("manifest")));
  }
  // Where a mark begins that says that all before it was on disk, and nothing is behind it; 0:
  // there is none. One may lie before the last change, where that came late.
  static size_t mark_of(const std::string& of) {
    constexpr size_t bytes = sizeof(BlockHeader) + sizeof(RecordHeader);
    const size_t end = JournalReader(of, "test", 1).used_bytes();
    if (end < sizeof(SegmentHeader) + bytes) return 0;
    BlockHeader last{};
    std::memcpy(&last, read(of + "/test.1").data() + end - bytes, sizeof last);
    const bool is_mark = last.magic == BlockHeader::right_magic && last.synced == last.lsn &&
                         last.lsn == end - bytes - sizeof(SegmentHeader);
    return is_mark ? end - bytes : 0;
  }
};

// The process ends a second behind its last change: all was on disk, so none of it may be missing.
TEST_F(JournalRestTest, DamageInWhatWasSyncedLastIsNoTornTail) {
  open(SyncPolicy::everysec);
  for (int i = 0; i < 20; ++i) put("key" + std::to_string(i), "value");
  const std::string copy = new_folder();
  size_t mark = 0;
  for (; mark == 0; mark = mark_of(copy)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    copy_to(copy);
  }
  const std::string whole = read(copy + "/test.1");
  for (size_t at = sizeof(SegmentHeader); at < mark; at += 97) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    write(copy + "/test.1", damaged);
    EXPECT_THROW(JournalReader(copy, "test", 1), JournalError) << at;
  }
  write(copy + "/test.1", whole);
  EXPECT_EQ(JournalReader(copy, "test", 1).torn_bytes(), 0u);
}

// A start in the place of the last one, which was killed.
TEST_F(JournalRestTest, StartsThatAreKilledLeaveOneFile) {
  open();
  ASSERT_EQ(put("key", "1"), Status::ok);
  const auto start_again = [&] {
    const std::string left = new_folder();
    std::filesystem::copy(folder, left);
    folder = left;
    open();
  };
  for (int i = 0; i < 4; ++i) start_again();
  EXPECT_EQ(segments().size(), 2u);
  ASSERT_EQ(put("key", "2"), Status::ok);
  start_again();
  EXPECT_EQ(segments().size(), 3u);
  EXPECT_EQ(store->content().size(), 1u);
  EXPECT_EQ(std::get<0>(store->content().begin()->second), "2");
}

// The mark itself is not synced, or a store that rests would be synced for ever.
// Each start that writes leaves one.
TEST_F(JournalRestTest, SmallSegmentsTakeNoMapOfTheProcess) {
  constexpr size_t starts = 40;
  for (size_t i = 0; i < starts; ++i) {
    open();
    ASSERT_EQ(put("key", std::to_string(i)), Status::ok);
  }
  store.reset();
  ASSERT_GE(segments().size(), starts);
  const auto maps = [] {
    std::ifstream lines("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(lines), {}, '\n');
  };
  const auto before = maps();
  const JournalReader reader(folder, "test", 2);
  EXPECT_LT(maps(), before + static_cast<long>(starts) / 4);
  std::string value;
  reader.read([&](const RecordHeader& record, int64_t) { value = record.value(); });
  EXPECT_EQ(value, std::to_string(starts - 1));
}

// So that an index has room for them from the start, and none for keys that are gone.
TEST_F(JournalRestTest, ItTellsOfHowManyKeysItHasAtLeast) {
  using Keys = std::map<uint32_t, uint64_t>;
  const auto least = [&] { return JournalReader(folder, "test", 3).keys_at_least(); };
  open(SyncPolicy::always);
  for (int i = 0; i < 300; ++i) put("key" + std::to_string(i % 100), "value");
  EXPECT_EQ(least(), (Keys{{0, 100}}));
  Batch batch;
  for (int i = 0; i < 10; ++i) {
    const std::string key = "key" + std::to_string(i);
    batch.clear();
    batch.erase(key);
    Worker(store->engine).submit(batch);
  }
  EXPECT_EQ(least(), (Keys{{0, 90}}));
  put("soon over", "value", clock.now_ms() + 1000);
  EXPECT_EQ(least(), (Keys{{0, 90}}));
  Worker(store->engine).flush(0);
  EXPECT_EQ(least(), Keys{});
}

TEST_F(JournalRestTest, AStoreThatRestsIsSyncedNoMore) {
  open(SyncPolicy::everysec);
  put("key", "value");
  const Journal& journal = *store->journal;
  while (journal.syncs() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  // Another one comes where the block was written before the batch had ended.
  constexpr int most_waits = 5;
  uint64_t syncs = 0;
  for (int i = 0; i < most_waits && syncs != journal.syncs(); ++i) {
    syncs = journal.syncs();
    std::this_thread::sleep_for(std::chrono::milliseconds(1300));
  }
  EXPECT_EQ(journal.syncs(), syncs);
  // Now what is written is synced at once. Who waits for a write does not wait for that, too.
  files.hold_syncs(true);
  files.hold_writes(true);
  std::thread first([this] { put("key", "1"); });
  while (files.held_writes() == 0) std::this_thread::yield();
  Worker worker(store->engine, false);
  Batch second;
  second.put("other", "2");
  ASSERT_EQ(worker.start(second), Worker::Started::under_way);
  files.hold_writes(false);
  while (files.held_syncs() == 0) std::this_thread::yield();
  EXPECT_EQ(worker.poll([](Batch&, bool) {}), 0u);
  files.hold_syncs(false);
  first.join();
  worker.wait_for(second);
}

}  // namespace
}  // namespace isotherm::journal_rest_test
