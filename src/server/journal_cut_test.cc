// A journal that is cut behind snapshots (server/saver.h): a start has the snapshot and what came
// behind it, whatever the files do, and nobody's file but the journal's own counts.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "items/poison.h"
#include "models/history.h"
#include "models/journal_fixture.h"
#include "server/saver.h"

namespace isotherm::journal_cut_test {
namespace {

class JournalCutTest : public JournalFixture {
 protected:
  // Ends behind all workers, as a Saver has to.
  struct Saves {
    explicit Saves(JournalCutTest& test)
        : saver(
              test.store->engine, job, test.folder, "dump", test.files, [] {},
              test.store->journal.get()) {}
    SaveJob job;
    Saver saver;
  };
  bool save() { return Saves(*this).job.do_now(); }
  void ask(uint32_t database, const std::function<void(Batch&)>& fill) {
    Worker worker(store->engine);
    Batch batch;
    batch.select(database);
    fill(batch);
    worker.submit(batch);
  }
  uint64_t first_segment() {
    const JournalReader reader(folder, "test", 1);
    return reader.manifest().first;
  }
  std::string base() { return JournalReader(folder, "test", 1).path_of_base(); }
};

TEST_F(JournalCutTest, AStartHasTheSnapshotAndWhatCameBehindIt) {
  open();
  const int64_t soon = clock.now_ms() + 5000;
  for (int i = 0; i < 10; ++i) put("key" + std::to_string(i), std::string(3000, 'a'), soon);
  for (const uint32_t database : {1u, 2u}) {
    ask(database, [](Batch& batch) {
      batch.put("a", "1");
      batch.put("b", "1");
    });
  }
  ASSERT_TRUE(save());
  EXPECT_GT(first_segment(), 1u);
  EXPECT_FALSE(std::filesystem::exists(path("1")));
  EXPECT_EQ(open().content().size(), 14u);
  // Each kind of change to what only the base has.
  ask(0, [&](Batch& batch) {
    batch.erase("key0");
    batch.put("key1", "new");
    batch.append("key2", "more");
    batch.expire("key3", no_expiry);
    batch.expire("key4", soon + 9);
    batch.put("key5", "new");
    batch.erase("key5");
    batch.put("key6", "new");
    batch.expire("key6", soon + 7);
  });
  ask(1, [](Batch& batch) {
    batch.flush(1, 2);
    batch.put("a", "2");
  });
  const auto content = store->content();
  EXPECT_EQ(content.size(), 11u);
  EXPECT_EQ(open().content(), content);
  EXPECT_EQ(open().content(), content);
  // Once more, and then cut behind what somebody else has: there is no base any more.
  ASSERT_TRUE(save());
  EXPECT_EQ(open().content(), content);
  const std::string before = base();
  EXPECT_TRUE(std::filesystem::exists(before));
  ASSERT_GE(store->journal->cut_before(store->journal->bytes()), 0);
  EXPECT_EQ(base(), "");
  EXPECT_FALSE(std::filesystem::exists(before));
}

// Versions that clients have kept are not given again.
TEST_F(JournalCutTest, VersionsGoOnBehindThoseOfTheBase) {
  open();
  uint64_t last = 0;
  for (int start = 0; start < 3; ++start) {
    {
      Worker worker(store->engine);
      Batch batch;
      batch.put("key", "value");
      worker.submit(batch);
      EXPECT_GT(batch.reply(0).version, last) << "start " << start;
      last = batch.reply(0).version;
    }
    ASSERT_TRUE(save());
    open();
  }
}

// The snapshot is there for its own sake; the journal has a copy.
TEST_F(JournalCutTest, WhatIsDoneToTheSnapshotDoesNotMatter) {
  open();
  put("key", "1");
  ASSERT_TRUE(save());
  write(folder + "/dump", "REDIS");
  EXPECT_EQ(open().content().size(), 1u);
  std::filesystem::remove(folder + "/dump");
  EXPECT_EQ(open().content().size(), 1u);
}

TEST_F(JournalCutTest, ABaseThatIsMissingOrAnotherIsRefused) {
  open();
  put("key", "1");
  ASSERT_TRUE(save());
  put("key", "2");
  const std::string its = base();
  const std::string whole = read(its);
  store.reset();
  const auto problem = [&]() -> std::string {
    try {
      Engine engine(JournaledStore::options(), clock);
      fill_store(engine, JournalReader(folder, "test", 2));
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return {};
  };
  std::string damaged = whole;
  damaged[damaged.size() / 2] ^= 4;
  write(its, damaged);
  EXPECT_NE(problem().find("base"), std::string::npos) << problem();
  write(its, std::string("REDIS0010\xFF", 10) + std::string(8, '\0'));
  EXPECT_NE(problem().find("is not the snapshot that it was cut behind"), std::string::npos);
  std::filesystem::remove(its);
  EXPECT_NE(problem().find("base is missing"), std::string::npos) << problem();
  write(its, whole);
  EXPECT_EQ(problem(), "");
}

// As it was left before there were bases.
TEST_F(JournalCutTest, AManifestOfSegmentsAloneIsRead) {
  open();
  put("key", "1");
  store.reset();
  ManifestOfSegments old{};
  std::memcpy(&old, read(path("manifest")).data(), sizeof old);
  seal_header(old);
  write(path("manifest"), std::string(reinterpret_cast<const char*>(&old), sizeof old));
  EXPECT_EQ(open().content().size(), 1u);
  EXPECT_EQ(read(path("manifest")).size(), sizeof(Manifest));
}

// Its moment is before the first segment, or what it has counts no more.
TEST_F(JournalCutTest, ItIsNotCutBehindWhatIsOlderThanItsBeginning) {
  open();
  put("key", "1");
  Journal& journal = *store->journal;
  JournalSegment at;
  ASSERT_GE(journal.begin_segment(at), 0);
  ASSERT_GE(journal.begin_rewrite(), 0);
  put("key", "2");
  ASSERT_GE(journal.end_rewrite(), 0);
  EXPECT_EQ(journal.cut_before(at.lsn, {.number = at.number, .version = 1, .sum = 0, .bytes = 0}),
            -ESTALE);
  EXPECT_EQ(journal.cut_before(0), 0);
  journal.rewrite_job().begin(0);
  EXPECT_EQ(journal.cut_before(0), 0);
  ASSERT_GE(journal.begin_rewrite(), 0);
  EXPECT_EQ(journal.cut_before(journal.bytes()), -EBUSY);
  put("key", "2");
  ASSERT_GE(journal.end_rewrite(), 0);
  journal.rewrite_job().end(true, 0);
  EXPECT_EQ(std::get<0>(open().content().at({0, "key"})), "2");
}

// A fault of any call leaves the journal as it was, or cut; so does a loss of power then.
TEST_F(JournalCutTest, AFaultWhileItIsCutLosesNothing) {
  int cut = 0;
  constexpr int calls = 45;
  for (int call = 0; call < calls; ++call) {
    folder = new_folder();
    open();
    for (int i = 0; i < 5; ++i) put("key" + std::to_string(i), std::string(9, 'a'));
    ASSERT_TRUE(save());
    put("key1", "new");
    ask(0, [](Batch& batch) { batch.erase("key2"); });
    const uint64_t first = first_segment();
    files.fail_after(call, 1, EIO);
    save();
    files.heal();
    while (store->journal->error() != 0) std::this_thread::yield();
    cut += first_segment() > first;
    put("key3", "new");
    const auto content = store->content();
    const std::string left = new_folder();
    files.lose_power(folder, left);
    EXPECT_EQ(open().content(), content) << "call " << call;
    folder = left;
    EXPECT_EQ(open().content(), content) << "call " << call << ", without power";
  }
  EXPECT_GT(cut, 0);
  EXPECT_LT(cut, calls);
}

// While others write: what was acknowledged is there.
TEST_F(JournalCutTest, NothingIsLostWhileOthersWrite) {
  open();
  History history({.seed = 3, .keys = 40, .databases = 3, .max_value_bytes = 50'000});
  std::optional<Saves> saves(std::in_place, *this);
  std::thread writer([&] {
    Worker worker(store->engine);
    for (int i = 0; i < (poison::sanitized ? 20 : 100); ++i) {
      history.step(clock.now_ms(), [&](Batch& batch) { worker.submit(batch); });
      worker.maintain();
    }
  });
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(saves->job.do_now());
  writer.join();
  saves.reset();
  const auto content = store->content();
  EXPECT_GT(first_segment(), 1u);
  EXPECT_EQ(open().content(), content);
}

}  // namespace
}  // namespace isotherm::journal_cut_test
