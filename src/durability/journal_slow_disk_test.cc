// A journal whose disk takes long to sync keeps no more than it may, and others wait.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "durability/journal.h"
#include "models/journal_fixture.h"

namespace isotherm::journal_slow_disk_test {
namespace {

using JournalSlowDiskTest = JournalFixture;

// A worker that waits for the disk anyway begins no more, and another does.
TEST_F(JournalSlowDiskTest, WorkersWaitWhereTooMuchIsUnwritten) {
  open();
  files.hold_syncs(true);
  Worker worker(store->engine, false);
  const std::string value(40'000, 'v');
  std::vector<std::unique_ptr<Batch>> batches;
  const auto put_more = [&](Worker& by) {
    batches.push_back(std::make_unique<Batch>());
    batches.back()->put("key", value);
    return by.start(*batches.back());
  };
  int started = 0;
  while (put_more(worker) == Worker::Started::under_way) ASSERT_LT(++started, 20);
  EXPECT_GT(started, 2);
  EXPECT_LT(store->journal->unwritten_bytes(), 200'000u);
  Batch read;
  read.get("other");
  EXPECT_EQ(worker.start(read), Worker::Started::ended);
  files.hold_syncs(false);
  for (int i = 0; i < started; ++i) worker.wait_for(*batches[static_cast<size_t>(i)]);
  if (put_more(worker) == Worker::Started::under_way) worker.wait_for(*batches.back());
  EXPECT_EQ(batches.back()->reply(0).status, Status::ok);
}

// Whoever is answered before a sync waits for one where too much is not synced. The journal's
// thread stands in one from the beginning, so that nobody waits for what it writes.
TEST_F(JournalSlowDiskTest, ASlowDiskBoundsWhatIsKeptForIt) {
  open(SyncPolicy::everysec, 1 << 20);
  files.hold_syncs(true);
  std::thread syncs([this] { EXPECT_GE(store->journal->sync_now(), 0); });
  while (files.held_syncs() == 0) std::this_thread::yield();
  Worker worker(store->engine, false);
  const std::string value(10'000, 'v');
  Batch batch;
  int puts = 0;
  for (; puts < 200; ++puts) {
    batch.clear();
    batch.put("key", value);
    if (worker.start(batch) != Worker::Started::ended) break;
  }
  EXPECT_TRUE(store->journal->full());
  EXPECT_GT(puts, 5);
  EXPECT_LT(puts, 200);
  EXPECT_LT(store->journal->unwritten_bytes(), 150'000u);
  files.hold_syncs(false);
  syncs.join();
  worker.wait_for(batch);
  EXPECT_EQ(batch.reply(0).status, Status::ok);
}

// The store makes room for it meanwhile.
TEST_F(JournalSlowDiskTest, WhatIsKeptForASlowDiskCountsAtOnce) {
  open(SyncPolicy::always, 1 << 20);
  files.hold_syncs(true);
  std::thread syncs([this] { EXPECT_GE(store->journal->sync_now(), 0); });
  while (files.held_syncs() == 0) std::this_thread::yield();
  const int64_t before = store->counted;
  Worker worker(store->engine, false);
  const std::string value(50'000, 'v');
  Batch batch;
  batch.put("key", value);
  EXPECT_EQ(worker.start(batch), Worker::Started::under_way);
  EXPECT_GT(store->counted, before + static_cast<int64_t>(value.size()));
  EXPECT_EQ(store->counted, static_cast<int64_t>(store->journal->memory()));
  files.hold_syncs(false);
  syncs.join();
  worker.wait_for(batch);
}

}  // namespace
}  // namespace isotherm::journal_slow_disk_test
