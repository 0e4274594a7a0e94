// Snapshots of a server with a tree: what they have, and which of the two a start reads.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "durability/rdb_file.h"
#include "models/stored_server_fixture.h"

namespace isotherm::tree_save_test {
namespace {

class TreeSaveTest : public StoredServerFixture {
 protected:
  TreeSaveTest() {
    options_.store.maxmemory = 4 << 20;
    options_.store.maxmemory_policy = EvictionPolicy::allkeys_lru;
  }
  void SetUp() override { start_with_tree(); }
  void start_without_a_tree() {
    const std::string tree = std::exchange(options_.store.tree, "");
    const uint64_t cap = std::exchange(options_.store.maxmemory, 0);
    start();
    options_.store.tree = tree;
    options_.store.maxmemory = cap;
  }
  void forget_the_tree() {
    stop();
    std::filesystem::remove_all(options_.store.tree);
  }
  // Three times the cap.
  void fill() {
    const std::string value(60'000, 'v');
    for (int i = 0; i < 200; ++i) expect({"SET", "key" + std::to_string(i), value}, "+OK\r\n");
  }
  void expect_filled() {
    expect({"DBSIZE"}, ":200\r\n");
    expect({"STRLEN", "key0"}, ":60000\r\n");
    expect({"STRLEN", "key199"}, ":60000\r\n");
  }
  // The files of the tree cannot be written meanwhile.
  void block_the_tree(bool blocks) {
    const std::string incoming = options_.store.tree + "/incoming";
    blocks ? std::filesystem::remove_all(incoming)
           : static_cast<uintmax_t>(std::filesystem::create_directory(incoming));
  }
};

TEST_F(TreeSaveTest, ASnapshotHasWhatIsInMemoryAndWhatIsInFilesAlone) {
  fill();
  TestClient client(server_->resp_port());
  EXPECT_EQ(client.ask(resp({"SELECT", "3"}) + resp({"SET", "a", "x", "PX", "5000"}) +
                           resp({"SET", "short", "x", "PX", "10"}),
                       "+OK\r\n+OK\r\n+OK\r\n"),
            "+OK\r\n+OK\r\n+OK\r\n");
  TestClient memcached(server_->memcached_port());
  EXPECT_EQ(memcached.ask("set key7 77 0 1\r\nv\r\n", "STORED\r\n"), "STORED\r\n");
  EXPECT_EQ(info("rdb_changes_since_last_save"), "203");
  clock_.advance(3000);
  expect({"SAVE"}, "+OK\r\n");
  expect({"LASTSAVE"}, ":1700000003\r\n");
  EXPECT_EQ(info("rdb_changes_since_last_save"), "0");
  EXPECT_EQ(info("rdb_saves"), "1");
  EXPECT_EQ(info("rdb_last_bgsave_status"), "ok");
  EXPECT_EQ(RdbFile(snapshot_path()).items(), 201u);
  start_without_a_tree();
  expect_filled();
  TestClient again(server_->resp_port());
  EXPECT_EQ(again.ask(resp({"SELECT", "3"}) + resp({"PTTL", "a"}), "+OK\r\n:2000\r\n"),
            "+OK\r\n:2000\r\n");
  TestClient other(server_->memcached_port());
  EXPECT_EQ(other.ask("get key7\r\n", "VALUE key7 77 1\r\nv\r\nEND\r\n"),
            "VALUE key7 77 1\r\nv\r\nEND\r\n");
}

TEST_F(TreeSaveTest, AnEmptyTreeIsFilledFromASnapshotThatMemoryDoesNotHold) {
  fill();
  expect({"SAVE"}, "+OK\r\n");
  forget_the_tree();
  start();
  EXPECT_EQ(info("rdb_last_load_keys_loaded"), "200");
  EXPECT_EQ(info("rdb_changes_since_last_save"), "0");
  expect_filled();
  EXPECT_LT(server_->engine().used_memory(), options_.store.maxmemory * 2);
  // From now on it is a tree as any other.
  std::filesystem::remove(snapshot_path());
  start();
  expect_filled();
  options_.appendonly = true;
  start();
  expect_filled();
}

TEST_F(TreeSaveTest, ATreeThatWasWrittenWinsOverASnapshot) {
  expect({"SET", "a", "old"}, "+OK\r\n");
  expect({"SET", "b", "erased"}, "+OK\r\n");
  expect({"BGSAVE"}, "+Background saving started\r\n");
  wait_for_saves(1);
  expect({"SET", "a", "new"}, "+OK\r\n");
  expect({"DEL", "b"}, ":1\r\n");
  start();
  expect({"MGET", "a", "b"}, "*2\r\n$3\r\nnew\r\n$-1\r\n");
  EXPECT_EQ(info("rdb_last_load_keys_loaded"), "0");
  expect({"FLUSHALL"}, "+OK\r\n");
  start();
  expect({"DBSIZE"}, ":0\r\n");
}

// A client that was told of a SAVE expects that a crash takes nothing of it.
TEST_F(TreeSaveTest, WhatWasSavedIsThereAfterACrashWithoutAJournal) {
  expect({"SET", "first", "1"}, "+OK\r\n");
  ASSERT_TRUE(server_->engine().tree()->flush());
  expect({"SET", "second", "2"}, "+OK\r\n");
  expect({"SAVE"}, "+OK\r\n");
  crash();
  start();
  expect({"MGET", "first", "second"}, "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
}

TEST_F(TreeSaveTest, ATreeThatCannotBeWrittenFailsASaveOnlyWithoutAJournal) {
  for (const bool journal : {false, true}) {
    options_.appendonly = journal;
    start();
    expect({"SET", "a", journal ? "2" : "1"}, "+OK\r\n");
    block_the_tree(true);
    expect({"SAVE"}, journal ? "+OK\r\n" : "-ERR\r\n");
    EXPECT_EQ(std::filesystem::exists(snapshot_path()), journal);
    block_the_tree(false);
    expect({"SAVE"}, "+OK\r\n");
    EXPECT_EQ(RdbFile(snapshot_path()).items(), 1u);
    // The tree cuts the journal, and no base is made of the snapshot.
    if (!journal) std::filesystem::remove(snapshot_path());
  }
  start();
  expect({"GET", "a"}, "$1\r\n2\r\n");
}

TEST_F(TreeSaveTest, ADiskThatIsFullIsToldAndTheOldFileStays) {
  expect({"SET", "a", "old"}, "+OK\r\n");
  expect({"SAVE"}, "+OK\r\n");
  expect({"SET", "b", "new"}, "+OK\r\n");
  files_.fail_after(1, 1'000'000, ENOSPC);
  expect({"SAVE"}, "-ERR\r\n");
  EXPECT_EQ(info("rdb_last_bgsave_status"), "err");
  EXPECT_EQ(info("rdb_changes_since_last_save"), "1");
  expect({"LASTSAVE"}, ":1700000000\r\n");
  files_.heal();
  EXPECT_EQ(RdbFile(snapshot_path()).items(), 1u);
  expect({"SAVE"}, "+OK\r\n");
  EXPECT_EQ(info("rdb_last_bgsave_status"), "ok");
  EXPECT_EQ(RdbFile(snapshot_path()).items(), 2u);
}

TEST_F(TreeSaveTest, SavePointsAndTheEndSaveByThemselves) {
  save_by_a_point();
  expect({"SET", "c", "3"}, "+OK\r\n");
  EXPECT_TRUE(server_->prepare_end());
  server_->stop();
  EXPECT_TRUE(server_->save_rest());
  EXPECT_EQ(RdbFile(snapshot_path()).items(), 3u);
}

TEST_F(TreeSaveTest, AStartThatEndsWhileItReadsASnapshotIsMadeAgain) {
  expect({"MSET", "a", "1", "b", "2"}, "+OK\r\n");
  expect({"SAVE"}, "+OK\r\n");
  const std::string snapshot = snapshot_path();
  const std::string kept = options_.dir + "/kept";
  std::filesystem::rename(snapshot, kept);
  forget_the_tree();
  start();
  EXPECT_FALSE(server_->engine().tree()->begin_filling());
  expect({"MSET", "a", "0", "of another snapshot", "0"}, "+OK\r\n");
  ASSERT_TRUE(server_->engine().tree()->flush());
  crash();
  // Without the snapshot nobody can say what is missing.
  EXPECT_THROW(start(), TreeError);
  options_.appendonly = true;
  EXPECT_THROW(start(), TreeError);
  options_.appendonly = false;
  std::filesystem::rename(kept, snapshot);
  start();
  expect({"DBSIZE"}, ":2\r\n");
  expect({"MGET", "a", "b"}, "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
  start();
  expect({"DBSIZE"}, ":2\r\n");
}

}  // namespace
}  // namespace isotherm::tree_save_test
