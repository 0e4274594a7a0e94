// A server with a tree: its commands, and its next start.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "models/stored_server_fixture.h"

namespace isotherm::tree_server_test {
namespace {

class TreeServerTest : public StoredServerFixture {
 protected:
  TreeServerTest() { options_.appendonly = true; }
  void SetUp() override { start_with_tree(); }
};

// What the journal has is newer than the files, also where it says that something is gone.
TEST_F(TreeServerTest, TheNextServerHasWhatTheJournalSaysOverTheFiles) {
  expect({"MSET", "erased", "1", "expired", "1", "changed", "1", "kept", "1"}, "+OK\r\n");
  expect({"SET", "touched", "value"}, "+OK\r\n");
  ASSERT_TRUE(server_->engine().tree()->flush());
  expect({"DEL", "erased"}, ":1\r\n");
  expect({"SET", "expired", "2", "PX", "100"}, "+OK\r\n");
  expect({"SET", "changed", "2"}, "+OK\r\n");
  expect({"PEXPIRE", "touched", "5000"}, ":1\r\n");
  // Nothing of that was taken in.
  crash();
  clock_.advance(1000);
  start();
  expect({"MGET", "erased", "expired", "changed", "kept"},
         "*4\r\n$-1\r\n$-1\r\n$1\r\n2\r\n$1\r\n1\r\n");
  expect({"PTTL", "touched"}, ":4000\r\n");
  expect({"GET", "touched"}, "$5\r\nvalue\r\n");
  expect({"DBSIZE"}, ":3\r\n");
}

// What a start reads is stored faster than files take it in.
TEST_F(TreeServerTest, AStartWithLessMemoryThanTheJournalHasWaitsForTheFiles) {
  constexpr int count = 300;
  const std::string value(20'000, 'v');
  for (int i = 0; i < count; ++i) expect({"SET", "key" + std::to_string(i), value}, "+OK\r\n");
  crash();
  options_.store.maxmemory = 2 << 20;
  options_.store.maxmemory_policy = EvictionPolicy::allkeys_lru;
  start();
  expect({"DBSIZE"}, ":300\r\n");
  expect({"STRLEN", "key0"}, ":20000\r\n");
  expect({"STRLEN", "key299"}, ":20000\r\n");
}

TEST_F(TreeServerTest, AFlushIsKnownToTheNextServer) {
  expect({"MSET", "a", "1", "b", "1"}, "+OK\r\n");
  ASSERT_TRUE(server_->engine().tree()->flush());
  expect({"FLUSHALL"}, "+OK\r\n");
  expect({"SET", "c", "1"}, "+OK\r\n");
  start();
  expect({"EXISTS", "a", "b", "c"}, ":1\r\n");
  expect({"DBSIZE"}, ":1\r\n");
}

// RocksDB leaves out what it cannot read of its own log, and says nothing.
TEST_F(TreeServerTest, AFlushIsInNoLogOfTheFiles) {
  expect({"SET", "a", "1"}, "+OK\r\n");
  ASSERT_TRUE(server_->engine().tree()->flush());
  expect({"FLUSHALL"}, "+OK\r\n");
  ASSERT_TRUE(server_->engine().tree()->flush());
  crash();
  for (const auto& one : std::filesystem::directory_iterator(options_.store.tree)) {
    if (one.path().extension() == ".log") std::filesystem::resize_file(one.path(), 0);
  }
  start();
  expect({"DBSIZE"}, ":0\r\n");
  expect({"GET", "a"}, "$-1\r\n");
}

TEST_F(TreeServerTest, StartsLeaveNoFilesBehind) {
  const std::filesystem::path folder = options_.store.tree;
  const std::filesystem::path cut = folder / "OPTIONS-000001.dbtmp";
  std::ofstream(cut) << "half written";
  for (int i = 0; i < 4; ++i) start();
  const std::filesystem::directory_iterator files(folder);
  EXPECT_LE(std::count_if(begin(files), end(files),
                          [](const auto& file) { return file.path().extension() == ".log"; }),
            1);
  EXPECT_FALSE(std::filesystem::exists(cut));
}

TEST_F(TreeServerTest, TheJournalIsCutBehindWhatTheFilesHave) {
  const std::string value(100'000, 'v');
  for (int i = 0; i < 4; ++i) {
    expect({"SET", "key" + std::to_string(i), value}, "+OK\r\n");
    ASSERT_TRUE(server_->engine().tree()->flush());
  }
  // What the last run has stays until the next one is there.
  EXPECT_LT(server_->state().journal->live_bytes(), 3 * value.size());
  start();
  expect({"STRLEN", "key0"}, ":100000\r\n");
}

// A change comes when a run is sealed and not taken in yet, since a batch of before goes on.
TEST_F(TreeServerTest, AChangeBehindASealedRunStaysInTheJournal) {
  expect({"SET", "sealed", "1"}, "+OK\r\n");
  Tree& tree = *server_->engine().tree();
  Batch batch;
  const CommitSink::Begun begun = tree.begins(batch);
  std::thread flusher([&] { EXPECT_TRUE(tree.flush()); });
  while (tree.stats().runs == 0) std::this_thread::yield();
  expect({"SET", "later", "1"}, "+OK\r\n");
  tree.ends(begun.token);
  flusher.join();
  crash();
  start();
  // A wrong answer to this is as long as the right one, so that the client does not wait for the
  // rest of it.
  expect({"EXISTS", "sealed", "later"}, ":2\r\n");
  expect({"MGET", "sealed", "later"}, "*2\r\n$1\r\n1\r\n$1\r\n1\r\n");
}

TEST_F(TreeServerTest, AJournalThatTheTreeDoesNotKnowIsRefused) {
  expect({"SET", "key", "1"}, "+OK\r\n");
  options_.appendonly = false;
  start();
  expect({"SET", "key", "2"}, "+OK\r\n");
  options_.appendonly = true;
  EXPECT_THROW(start(), TreeError);
  std::filesystem::remove_all(options_.dir + "/" + options_.appendfilename);
  for (const auto& one : std::filesystem::directory_iterator(options_.dir)) {
    if (one.path().filename().string().starts_with(options_.appendfilename)) {
      std::filesystem::remove_all(one.path());
    }
  }
  start();
  expect({"GET", "key"}, "$1\r\n2\r\n");
}

TEST_F(TreeServerTest, AStartWithTooFewDatabasesIsRefused) {
  expect({"COPY", "key", "key", "DB", "9"}, ":0\r\n");
  expect({"SET", "key", "1"}, "+OK\r\n");
  expect({"COPY", "key", "key", "DB", "9"}, ":1\r\n");
  ASSERT_TRUE(server_->engine().tree()->flush());
  options_.store.databases = 9;
  EXPECT_THROW(start(), TreeError);
  options_.store.databases = 10;
  start();
  expect({"MOVE", "key", "9"}, ":0\r\n");
}

TEST_F(TreeServerTest, AJournalIsWrittenAnewByTakingAllIn) {
  expect({"SET", "key", "1"}, "+OK\r\n");
  ASSERT_TRUE(server_->state().journal->rewrite_job().ask());
  while (server_->state().journal->rewrite_job().times() == 0) std::this_thread::yield();
  EXPECT_EQ(server_->engine().tree()->stats().run_bytes, 0u);
  expect({"RANDOMKEY"}, "$3\r\nkey\r\n");
}

// What the tree had taken in before the journal was cut is in its files alone.
TEST_F(TreeServerTest, AJournalThatWasCutIsNotReadWithoutItsTree) {
  const std::string value(100'000, 'v');
  for (int i = 0; i < 4; ++i) {
    expect({"SET", "key" + std::to_string(i), value}, "+OK\r\n");
    ASSERT_TRUE(server_->engine().tree()->flush());
  }
  const std::string tree = std::exchange(options_.store.tree, "");
  EXPECT_THROW(start(), JournalError);
  options_.store.tree = tree + "-empty";
  EXPECT_THROW(start(), JournalError);
  options_.store.tree = tree;
  start();
  expect({"DBSIZE"}, ":4\r\n");
}

// As long as it has all, it may be read alone.
TEST_F(TreeServerTest, AJournalThatWasNotCutNeedsNoTree) {
  expect({"SET", "key", "1"}, "+OK\r\n");
  options_.store.tree.clear();
  start();
  expect({"GET", "key"}, "$1\r\n1\r\n");
}

TEST_F(TreeServerTest, AJournalThatBeganBehindATreeIsNotReadWithoutIt) {
  options_.appendonly = false;
  options_.appendfilename = "other";
  start();
  expect({"SET", "key", "1"}, "+OK\r\n");
  options_.appendonly = true;
  start();
  expect({"SET", "later", "1"}, "+OK\r\n");
  options_.store.tree.clear();
  EXPECT_THROW(start(), JournalError);
}

TEST_F(TreeServerTest, ATreeThatACrashHasLeftIsNotOpenedWithoutItsJournal) {
  expect({"SET", "key", "1"}, "+OK\r\n");
  ASSERT_TRUE(server_->engine().tree()->flush());
  expect({"SET", "later", "1"}, "+OK\r\n");
  crash();
  options_.appendonly = false;
  EXPECT_THROW(start(), TreeError);
  options_.appendonly = true;
  const std::string name = std::exchange(options_.appendfilename, "other");
  EXPECT_THROW(start(), TreeError);
  options_.appendfilename = name;
  start();
  expect({"DBSIZE"}, ":2\r\n");
  // Whoever says that the journal is lost goes on without it.
  crash();
  options_.appendonly = false;
  options_.dir += "/elsewhere";
  std::filesystem::create_directories(options_.dir);
  start();
  expect({"GET", "key"}, "$1\r\n1\r\n");
}

// The journal of a store in memory has been cut behind a snapshot, and a tree comes later.
TEST_F(TreeServerTest, ATreeThatBeginsBehindACutJournalIsOpenedAfterACrash) {
  const std::string tree = std::exchange(options_.store.tree, "");
  start();
  std::filesystem::remove_all(tree);
  expect({"SET", "key", "1"}, "+OK\r\n");
  expect({"SAVE"}, "+OK\r\n");
  options_.store.tree = tree;
  start();
  expect({"SET", "later", "1"}, "+OK\r\n");
  ASSERT_TRUE(server_->engine().tree()->flush());
  crash();
  start();
  expect({"MGET", "key", "later"}, "*2\r\n$1\r\n1\r\n$1\r\n1\r\n");
}

TEST_F(TreeServerTest, AJournalThatWasWrittenAnewWithoutTheTreeWantsANewOne) {
  expect({"SET", "key", "1"}, "+OK\r\n");
  ASSERT_TRUE(server_->engine().tree()->flush());
  crash();
  const std::string tree = std::exchange(options_.store.tree, "");
  start();
  expect({"SET", "key", "2"}, "+OK\r\n");
  expect({"SAVE"}, "+OK\r\n");
  options_.store.tree = tree;
  try {
    start();
    FAIL() << "the tree lacks what the journal has forgotten";
  } catch (const TreeError& error) {
    EXPECT_NE(std::string(error.what()).find("remove this tree"), std::string::npos);
  }
  std::filesystem::remove_all(tree);
  start();
  expect({"GET", "key"}, "$1\r\n2\r\n");
}

// The journal alone has what a tree was told before anything was taken into it.
TEST_F(TreeServerTest, ANewTreeThatACrashHasLeftIsNotOpenedWithoutItsJournal) {
  crash();
  options_.appendonly = false;
  start();  // it has nothing
  options_.appendonly = true;
  std::filesystem::remove_all(options_.store.tree);
  start();
  expect({"SET", "key", "1"}, "+OK\r\n");
  crash();
  options_.appendonly = false;
  EXPECT_THROW(start(), TreeError);
  options_.appendonly = true;
  start();
  expect({"GET", "key"}, "$1\r\n1\r\n");
}

TEST_F(TreeServerTest, AnEndInOrderNeedsNoJournal) {
  expect({"SET", "key", "1"}, "+OK\r\n");
  start();
  expect({"SET", "later", "1"}, "+OK\r\n");
  options_.appendonly = false;
  start();
  expect({"DBSIZE"}, ":2\r\n");
}

TEST_F(TreeServerTest, StartsThatAreRefusedLeaveTheJournalAsItIs) {
  expect({"SET", "key", "1"}, "+OK\r\n");
  expect({"COPY", "key", "key", "DB", "9"}, ":1\r\n");
  crash();
  const auto files = [this] {
    std::set<std::string> names;
    for (const auto& one : std::filesystem::directory_iterator(options_.dir)) {
      names.insert(one.path().filename().string());
    }
    return names;
  };
  const std::set<std::string> before = files();
  options_.store.databases = 2;
  for (int i = 0; i < 3; ++i) EXPECT_THROW(start(), std::exception);
  EXPECT_EQ(files(), before);
  options_.store.databases = 16;
  start();
  expect({"DBSIZE"}, ":1\r\n");
}

// All databases are one range of the files, not as many files as there are databases.
TEST_F(TreeServerTest, AFlushOfManyDatabasesIsOneFile) {
  options_.store.databases = 16'384;
  start();
  expect({"SET", "key", "1"}, "+OK\r\n");
  expect({"COPY", "key", "key", "DB", "9000"}, ":1\r\n");
  ASSERT_TRUE(server_->engine().tree()->flush());
  expect({"FLUSHALL"}, "+OK\r\n");
  const auto files = [this] {
    const std::filesystem::directory_iterator all(options_.store.tree);
    return std::distance(begin(all), end(all));
  };
  const auto before = files();
  ASSERT_TRUE(server_->engine().tree()->flush());
  EXPECT_LT(files(), before + 20);
  expect({"COPY", "key", "key", "DB", "9000"}, ":0\r\n");
  expect({"SELECT", "9000"}, "+OK\r\n");
  expect({"EXISTS", "key"}, ":0\r\n");
}

}  // namespace
}  // namespace isotherm::tree_server_test
