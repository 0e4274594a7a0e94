// The journal where memory fails, or there are no threads.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>

#include "models/failing_memory.h"
#include "models/journal_fixture.h"
#include "models/no_threads.h"

namespace isotherm::journal_memory_test {
namespace {

using JournalMemoryTest = JournalFixture;

// The block is where the batch's own memory was, between those of others.
TEST(RecordBufferTest, ABlockForWhichThereIsNoMemoryBringsItsOwn) {
  RecordBuffer buffer(100);
  std::atomic<uint64_t> open{0};
  constexpr uint64_t bytes = RecordBuffer::chunk_bytes - 8;
  std::memset(buffer.reserve(bytes, open).at, 'a', bytes);
  auto own = std::make_unique<char[]>(1000);
  std::memset(own.get(), 'b', 600);
  {
    const FailingMemory fails(0);
    EXPECT_EQ(buffer.reserve(600, open).at, nullptr);
  }
  EXPECT_EQ(buffer.end(), 100 + bytes);
  EXPECT_EQ(buffer.memory(), RecordBuffer::chunk_bytes);
  const char* const its = own.get();
  const RecordBuffer::Room room = buffer.adopt(std::move(own), 1000, 600, open);
  EXPECT_EQ(room.at, its);
  EXPECT_EQ(open.load(), 100 + bytes);
  EXPECT_EQ(buffer.piece(room.lsn), std::string(600, 'b'));
  std::memset(buffer.reserve(300, open).at, 'c', 300);
  EXPECT_EQ(buffer.piece(room.lsn), std::string(600, 'b') + std::string(300, 'c'));
  EXPECT_EQ(buffer.piece(100), std::string(bytes, 'a'));
  buffer.release(buffer.end());
  buffer.trim(0);
  EXPECT_EQ(buffer.bytes(), 0u);
}

// What gives memory back needs none.
TEST(RecordBufferTest, ReleasesAndTrimsWithoutMemory) {
  RecordBuffer buffer(100);
  std::atomic<uint64_t> open{0};
  const auto fill = [&](int blocks) {
    for (int i = 0; i < blocks; ++i) {
      std::memset(buffer.reserve(RecordBuffer::chunk_bytes, open).at, 'a', 1);
    }
  };
  for (int i = 0; i < 200; ++i) {
    fill(1);
    const FailingMemory fails(0);
    buffer.release(buffer.end());
  }
  EXPECT_EQ(buffer.memory(), RecordBuffer::chunk_bytes);
  fill(9);
  {
    const FailingMemory fails(0);
    buffer.release(buffer.end());
    buffer.trim(3 * RecordBuffer::chunk_bytes);
  }
  EXPECT_EQ(buffer.memory(), 4 * RecordBuffer::chunk_bytes);
  EXPECT_EQ(buffer.bytes(), 0u);
}

// Each allocation of the thread that writes fails in turn, between others and in the last steps.
TEST_F(JournalMemoryTest, WhereTheWritersMemoryFailsItGoesOn) {
  const std::string value(5'000, 'v');
  for (int tries = 0; tries < 40; ++tries) {
    folder = new_folder();
    open();
    files.fail_memory(tries);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(put("key" + std::to_string(i), value), Status::ok);
    files.fail_memory(tries);
    JournalSegment at;
    const int begun = store->journal->begin_segment(at);
    EXPECT_TRUE(begun == 0 || begun == -ENOMEM) << begun;
    const auto before = store->content();
    EXPECT_EQ(before.size(), 8u);
    EXPECT_TRUE(open().content() == before) << tries;
  }
}

TEST_F(JournalMemoryTest, WhereTheSystemGivesNoThreadAStoreIsFilledAllTheSame) {
  open();
  EXPECT_EQ(put("key", "value"), Status::ok);
  store.reset();
  Engine engine(JournaledStore::options(), clock);
  const NoThreads none;
  fill_store(engine, JournalReader(folder, "test", 4));
  EXPECT_EQ(engine.database(0).keys, 1u);
}

// Each allocation of the batch fails in turn.
TEST_F(JournalMemoryTest, WhereMemoryFailsItHasWhatTheStoreHas) {
  const std::string value(20'000, 'v');
  bool failed = true;
  for (int tries = 0; failed && !HasFailure(); ++tries) {
    folder = new_folder();
    open();
    {
      Worker worker(store->engine);
      Batch batch;
      for (const char* const key : {"a", "b", "c"}) batch.put(key, value);
      batch.append("a", value);
      batch.put("d", value);
      const FailingMemory fails(tries);
      worker.submit(batch);
      failed = FailingMemory::failed();
    }
    const auto before = store->content();
    EXPECT_EQ(before.size(), failed ? before.size() : 4);
    EXPECT_TRUE(open().content() == before) << tries;
  }
}

}  // namespace
}  // namespace isotherm::journal_memory_test
