// The journal (durability/journal.h) under a store: what was acknowledged is there again, whatever
// the files do, and files that were damaged are refused. Where the rules "syncing" or "checksums"
// (base/broken.h) are broken, tests here fail.
#include "durability/journal.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "items/poison.h"
#include "models/journal_fixture.h"

namespace isotherm::journal_test {
namespace {

struct CountedItems final : ItemVisitor {
  void visit(const ScanItem& /*item*/) override { ++count; }
  int count = 0;
};

using JournalTest = JournalFixture;

TEST_F(JournalTest, WhatWasStoredIsThereAgain) {
  for (const SyncPolicy policy : {SyncPolicy::always, SyncPolicy::everysec, SyncPolicy::no}) {
    folder = new_folder();
    open(policy);
    run_history(1, poison::sanitized ? 10 : 40);
    const auto before = store->content();
    EXPECT_GT(before.size(), 20u);
    EXPECT_EQ(open(policy).content(), before);
    EXPECT_EQ(store->torn_bytes, 0u);
    // And once more, from all segments.
    EXPECT_EQ(open(policy).content(), before);
    store.reset();
    EXPECT_GT(segments().size(), 5u);
  }
}

// Also those of items that were filled in, which are on no disk; but they may come again where
// nothing was written since.
TEST_F(JournalTest, VersionsGoOnBehindAllThatWereGiven) {
  uint64_t last = 0;
  for (int start = 0; start < 4; ++start) {
    open();
    Worker worker(store->engine);
    Batch batch;
    batch.get("key");
    if (start != 2) batch.put("key", "value");
    worker.submit(batch);
    for (Batch::Row row = 0; row < batch.size(); ++row) {
      if (batch.reply(row).version == 0) continue;
      const uint64_t again = start == 3 && row == 0 ? 1 : 0;
      EXPECT_GT(batch.reply(row).version + again, last) << "start " << start;
      last = batch.reply(row).version;
    }
  }
}

TEST_F(JournalTest, WhatHasExpiredStaysGone) {
  open();
  const int64_t now = clock.now_ms();
  put("short", "1", now + 10);
  put("long", "2", now + 1000);
  put("longer", "3", now + 10);
  {
    Worker worker(store->engine);
    Batch batch;
    batch.expire("longer", now + 2000);
    worker.submit(batch);
  }
  clock.advance(20);
  const auto content = open().content();
  EXPECT_EQ(content.count({0, "short"}), 0u);
  EXPECT_EQ(std::get<2>(content.at({0, "long"})), now + 1000);
  EXPECT_EQ(std::get<2>(content.at({0, "longer"})), now + 2000);
  clock.advance(1500);
  EXPECT_EQ(open().content().size(), 1u);
}

// As the end of the process leaves it: without the mark of an end in order.
TEST_F(JournalTest, ATornTailEndsItAndIsCounted) {
  open();
  for (int i = 0; i < 10; ++i) put("key" + std::to_string(i), "value");
  const std::string last = segments().back();
  const std::string whole = read(last);
  const std::string manifest = read(path("manifest"));
  const std::string running = folder;
  const size_t end = whole.find_last_not_of('\0') + 1;
  const uint64_t bytes = sizeof(BlockHeader) + record_bytes(4, 5);
  for (size_t cut = end - 1; cut > end - bytes + 4; cut -= 7) {
    std::string torn = whole;
    std::fill(torn.begin() + static_cast<ptrdiff_t>(cut), torn.end(), '\0');
    const std::string copy = new_folder();
    write(copy + "/test.1", torn);
    write(copy + "/test.manifest", manifest);
    JournalReader reader(copy, "test", 1);
    EXPECT_EQ(reader.records(), 9u) << "cut at " << cut;
    EXPECT_GT(reader.torn_bytes(), 0u);
    // It goes on behind, and the tail stays where it is.
    JournaledStore next(copy, clock, system_files(), SyncPolicy::always);
    EXPECT_EQ(next.content().size(), 9u);
    EXPECT_EQ(read(copy + "/test.1"), torn);
    next.engine.set_commit_sink(nullptr);
    next.journal.reset();
    EXPECT_EQ(JournaledStore(copy, clock, system_files(), SyncPolicy::no).content().size(), 9u);
  }
}

TEST_F(JournalTest, AFlippedBitIsFoundOrHarmless) {
  open(SyncPolicy::everysec);
  run_history(3, 4);
  const auto content = store->content();
  store.reset();
  std::vector<std::string> all = segments();
  ASSERT_GT(all.size(), 1u);
  all.push_back(path("manifest"));
  std::mt19937_64 random(5);
  int found = 0;
  const int flips = poison::sanitized ? 30 : 120;
  for (int i = 0; i < flips; ++i) {
    const std::string& file = all[random() % all.size()];
    const std::string whole = read(file);
    const size_t used = whole.find_last_not_of('\0') + 1;
    std::string flipped = whole;
    const size_t at = random() % (i % 8 == 0 ? whole.size() : used);
    flipped[at] = static_cast<char>(flipped[at] ^ 1 << random() % 8);
    write(file, flipped);
    try {
      const JournalReader reader(folder, "test", 1);
      JournaledStore::Content left;
      reader.read([&](const RecordHeader& put, int64_t expiry) {
        left[{put.database, std::string(put.key())}] = {std::string(put.value()), put.flags,
                                                        expiry};
      });
      for (const auto& [key, value] : content) EXPECT_EQ(left[key], value) << file << " at " << at;
    } catch (const JournalError& error) {
      ++found;
      EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
    }
    write(file, whole);
  }
  EXPECT_GT(found, flips / 2);
  EXPECT_EQ(open().content(), content);
}

TEST_F(JournalTest, FilesThatAreMissingOrForeignAreRefusedAndLeftAlone) {
  open();
  run_history(3, 4);
  store.reset();
  const auto all = segments();
  ASSERT_GT(all.size(), 2u);
  const auto refuses = [&](const std::string& file, const std::string& text, const char* reason) {
    const std::string whole = read(file);
    text.empty() ? void(std::filesystem::remove(file)) : write(file, text);
    EXPECT_NE(refusal().find(reason), std::string::npos) << file << ": " << refusal();
    if (!text.empty()) {
      EXPECT_EQ(read(file), text);
    }
    write(file, whole);
  };
  EXPECT_EQ(refusal(), "");
  for (const std::string& file : all) refuses(file, "", "is missing");
  refuses(all[1], "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n" + std::string(100, 'x'),
          "is not of a journal");
  refuses(all[1], "short", "is too short");
  refuses(all[1], read(all[2]), "has the number of another segment");
  refuses(path("manifest"), "", "has no manifest beside it");
  const std::string next = path(std::to_string(all.size() + 1));
  write(next, std::string(100, 'x'));
  EXPECT_NE(refusal().find("is not of a journal"), std::string::npos);
  std::filesystem::remove(next);
  // Of another journal, by its name only.
  const std::string own = folder;
  const std::string theirs = read(all[0]);
  folder = new_folder();
  open();
  put("key", "value");
  store.reset();
  refuses(path("1"), theirs, "belongs to another journal");
}

TEST_F(JournalTest, WritesFailWhileTheDiskIsFullAndReadsGoOn) {
  for (const SyncPolicy policy : {SyncPolicy::always, SyncPolicy::everysec}) {
    folder = new_folder();
    open(policy);
    ASSERT_EQ(put("old", "1"), Status::ok);
    files.fail_after(0, 1'000'000, ENOSPC);
    {
      Worker worker(store->engine, false);
      Batch write;
      write.put("new", "2");
      if (worker.start(write) == Worker::Started::under_way) worker.wait_for(write);
      EXPECT_EQ(write.reply(0).status, Status::not_saved);
      EXPECT_EQ(store->journal->error(), ENOSPC);
      Batch read;
      read.get("old");
      ASSERT_EQ(worker.start(read), Worker::Started::ended);
      EXPECT_EQ(read.reply(0).value(), "1");
      // It would show what is not safe.
      Batch mixed;
      mixed.get("new");
      mixed.get("old");
      mixed.put("old", "3");
      mixed.erase("old");
      worker.submit(mixed);
      EXPECT_EQ(mixed.reply(0).status, Status::not_saved);
      EXPECT_EQ(mixed.reply(1).value(), "1");
      EXPECT_EQ(mixed.reply(2).status, Status::not_saved);
      EXPECT_EQ(mixed.reply(3).status, Status::not_saved);
      mixed.clear();
      mixed.flush(0, 3);
      worker.submit(mixed);
      EXPECT_EQ(mixed.reply(0).status, Status::not_saved);
      files.heal();
      while (store->journal->error() != 0) std::this_thread::yield();
      mixed.clear();
      mixed.get("new");
      mixed.get("old");
      worker.submit(mixed);
      EXPECT_EQ(mixed.reply(0).value(), "2");
      EXPECT_EQ(mixed.reply(1).value(), "1");
    }
    EXPECT_EQ(open(policy).content().size(), 2u);
  }
}

// At any call, with writes that take a part only.
TEST_F(JournalTest, OneFaultAtAnyCallLosesNothing) {
  files.write_short();
  const int calls = poison::sanitized ? 8 : 24;
  for (int call = 0; call < calls; ++call) {
    folder = new_folder();
    open();
    const uint64_t met = files.faults_met();
    files.fail_after(call * 2, 1 + call % 2, call % 3 == 0 ? ENOSPC : EIO);
    // One that fails is sent again.
    for (int i = 0; i < 12; ++i) {
      while (put("key" + std::to_string(i), std::string(3000, 'a' + i)) != Status::ok) {
        std::this_thread::yield();
      }
    }
    EXPECT_GT(files.faults_met(), met);
    files.heal();
    const auto content = store->content();
    EXPECT_EQ(content.size(), 12u);
    EXPECT_EQ(open().content(), content) << "fault at call " << call;
  }
}

// In a file beside the name of the next. What a crash leaves of it is made anew.
TEST_F(JournalTest, RoomForTheNextSegmentIsTakenAhead) {
  open();
  const auto ahead = [&] { return path(std::to_string(segments().size() + 1)) + ".new"; };
  // The writer takes it behind the replies.
  const auto is_soon_ahead = [&] {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    std::error_code none;
    while (std::filesystem::file_size(ahead(), none) != 16u << 10) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  };
  EXPECT_FALSE(std::filesystem::exists(ahead()));
  int keys = 0;
  const auto fill_segment = [&] {
    for (const size_t before = segments().size(); segments().size() == before;) {
      ASSERT_EQ(put("key" + std::to_string(keys++), std::string(3000, 'v')), Status::ok);
    }
  };
  for (int i = 0; i < 3; ++i) {
    fill_segment();
    ASSERT_TRUE(is_soon_ahead());
  }
  const auto content = store->content();
  const std::string crashed = new_folder();
  std::filesystem::copy(folder, crashed);
  store.reset();
  EXPECT_FALSE(std::filesystem::exists(ahead()));
  folder = crashed;
  ASSERT_TRUE(std::filesystem::exists(ahead()));
  EXPECT_EQ(open().content(), content);
  EXPECT_FALSE(std::filesystem::exists(ahead()));
  fill_segment();
  EXPECT_TRUE(is_soon_ahead());
}

// Counters of several threads: what is left is what was acknowledged, or was on its way.
TEST_F(JournalTest, NothingAcknowledgedIsLostWithThePower) {
  open();
  constexpr int threads = 3;
  // Each loss copies all that was written, and on a busy machine writers would be faster than that.
  constexpr uint64_t changes_a_loss = 300;
  std::atomic<uint64_t> allowed{changes_a_loss};
  std::atomic<uint64_t> acknowledged[threads]{};
  std::atomic<uint64_t> asked[threads]{};
  std::atomic<bool> over{false};
  std::vector<std::thread> running;
  for (int thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      Worker worker(store->engine);
      const std::string key = "key" + std::to_string(thread);
      const std::string other = "other" + std::to_string(thread);
      const std::string filling(200, 'x');
      for (uint64_t i = 1; !over; ++i) {
        while (i > allowed && !over) std::this_thread::yield();
        asked[thread] = i;
        const std::string value = std::to_string(i);
        Batch batch;
        batch.put(key, value);
        batch.put(other, filling);
        worker.submit(batch);
        acknowledged[thread] = i;
      }
    });
  }
  const int losses = poison::sanitized ? 10 : 60;
  for (int loss = 0; loss < losses && !HasFailure(); ++loss) {
    while (acknowledged[loss % threads] < static_cast<uint64_t>(loss)) std::this_thread::yield();
    allowed += changes_a_loss;
    const std::string left = new_folder();
    uint64_t least[threads];
    for (int thread = 0; thread < threads; ++thread) least[thread] = acknowledged[thread];
    files.lose_power(folder, left);
    std::map<std::string, std::string> values;
    try {
      const JournalReader reader(left, "test", 1);
      reader.read([&](const RecordHeader& put, int64_t) {
        values[std::string(put.key())] = std::string(put.value());
      });
    } catch (const JournalError& error) {
      ADD_FAILURE() << error.what();
      break;
    }
    for (int thread = 0; thread < threads; ++thread) {
      const std::string& text = values["key" + std::to_string(thread)];
      const uint64_t value = text.empty() ? 0 : std::stoull(text);
      EXPECT_GE(value, least[thread]) << "loss " << loss;
      EXPECT_LE(value, asked[thread]);
    }
    std::filesystem::remove_all(left);
  }
  over = true;
  for (std::thread& thread : running) thread.join();
}

// What shows what may be lost waits; of others' keys nobody waits.
TEST_F(JournalTest, WalksAndReadersOfWhatIsNotSyncedWait) {
  open();
  files.hold_syncs(true);
  {
    Worker worker(store->engine, false);
    Batch write;
    write.put("key", "1");
    ASSERT_EQ(worker.start(write), Worker::Started::under_way);
    Batch other;
    other.get("other");
    EXPECT_EQ(worker.start(other), Worker::Started::ended);
    Batch same;
    same.get("key");
    EXPECT_EQ(worker.start(same), Worker::Started::under_way);
    Batch walk;
    CountedItems items;
    walk.walk(0, 10, items);
    EXPECT_EQ(worker.start(walk), Worker::Started::under_way);
    files.hold_syncs(false);
    worker.wait_for(write);
    worker.wait_for(same);
    worker.wait_for(walk);
  }
}

// As a start finds it whose process before was killed: what that one wrote may be on no disk yet.
TEST_F(JournalTest, AStartSyncsWhatTheOneBeforeHasWritten) {
  open(SyncPolicy::no);
  put("key", "1");
  // The process ends here, as far as the files know.
  const std::string left = new_folder();
  for (const std::string name : {"1", "manifest"}) {
    std::filesystem::copy_file(path(name), left + "/test." + name);
  }
  FaultyFiles later{5};
  later.adopt_unsynced(left + "/test.1");
  JournaledStore next(left, clock, later, SyncPolicy::always);
  EXPECT_EQ(next.content().size(), 1u);
  const std::string lost = new_folder();
  later.lose_power(left, lost, true);
  std::filesystem::copy_file(left + "/test.manifest", lost + "/test.manifest",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(JournalReader(lost, "test", 1).records(), 1u);
}

TEST_F(JournalTest, ATruncatedSegmentIsRefused) {
  open();
  put("key", "1");
  const std::string last = segments().back();
  const std::string manifest = read(path("manifest"));
  const std::string whole = read(last);
  const size_t end = whole.find_last_not_of('\0') + 1;
  for (const size_t bytes : {sizeof(SegmentHeader), end, whole.size() - 1}) {
    folder = new_folder();
    write(path("1"), whole.substr(0, bytes));
    write(path("manifest"), manifest);
    EXPECT_NE(refusal().find("is truncated"), std::string::npos) << bytes << refusal();
  }
}

// Without syncs chunks are given back when they are written; they cannot be written again.
TEST_F(JournalTest, AFailedSyncGoesBackNoFurtherThanWhatIsKept) {
  open(SyncPolicy::no);
  const std::string value(40'000, 'v');
  for (int i = 0; i < 20; ++i) put("key" + std::to_string(i), value);
  files.fail_after(0, 1, EIO);
  store->journal->set_policy(SyncPolicy::always);
  while (files.faults_met() == 0) std::this_thread::yield();
  files.heal();
  while (put("last", "1") != Status::ok) std::this_thread::yield();
  const auto content = store->content();
  EXPECT_EQ(content.size(), 21u);
  EXPECT_EQ(open().content(), content);
}

TEST_F(JournalTest, WhatItTakesIsCountedAndGivenBackWhenItRests) {
  open(SyncPolicy::everysec);
  files.hold_syncs(true);
  Worker worker(store->engine, false);
  const std::string value(40'000, 'v');
  std::vector<Batch> batches(8);
  for (Batch& batch : batches) {
    batch.put("key", value);
    worker.start(batch);
  }
  const Journal& journal = *store->journal;
  EXPECT_GT(journal.memory(), RecordBuffer::chunk_bytes);
  files.hold_syncs(false);
  for (Batch& batch : batches) worker.wait_for(batch);
  batches.clear();
  const auto rests = [&] {
    return journal.memory() < 2 * RecordBuffer::chunk_bytes &&
           store->counted == static_cast<int64_t>(journal.memory());
  };
  while (!rests()) std::this_thread::yield();
  store->engine.set_commit_sink(nullptr);
  store->journal.reset();
  EXPECT_EQ(store->counted, 0);
}

}  // namespace
}  // namespace isotherm::journal_test
