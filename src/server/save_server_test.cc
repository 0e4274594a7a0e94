// A server with snapshots: SAVE and its kin, save points, what a start reads, and the end.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "durability/rdb_file.h"
#include "models/stored_server_fixture.h"

namespace isotherm::save_server_test {
namespace {

class SaveServerTest : public StoredServerFixture {
 protected:
  SaveServerTest() { start(); }
};

TEST_F(SaveServerTest, TheNextServerHasWhatWasSaved) {
  expect({"MSET", "a", "1", "b", "2"}, "+OK\r\n");
  expect({"SELECT", "3"}, "+OK\r\n");
  expect({"SET", "a", "x", "PX", "5000"}, "+OK\r\n");
  expect({"SET", "short", "x", "PX", "10"}, "+OK\r\n");
  TestClient memcached(server_->memcached_port());
  EXPECT_EQ(memcached.ask("set m 77 0 1\r\nv\r\n", "STORED\r\n"), "STORED\r\n");
  EXPECT_EQ(memcached.ask("ms stale 2\r\nhi\r\n", "HD\r\n"), "HD\r\n");
  EXPECT_EQ(memcached.ask("md stale I\r\n", "HD\r\n"), "HD\r\n");
  EXPECT_EQ(info("rdb_changes_since_last_save"), "7");
  clock_.advance(3000);
  // What comes behind it in one go is answered behind it.
  EXPECT_EQ(client_->ask(resp({"SAVE"}) + resp({"GET", "none"}), "+OK\r\n$-1\r\n"),
            "+OK\r\n$-1\r\n");
  expect({"LASTSAVE"}, ":1700000003\r\n");
  EXPECT_EQ(info("rdb_changes_since_last_save"), "0");
  EXPECT_EQ(info("rdb_saves"), "1");
  EXPECT_EQ(info("rdb_bgsave_in_progress"), "0");
  EXPECT_EQ(info("rdb_last_bgsave_time_sec"), "0");
  expect({"SET", "late", "1"}, "+OK\r\n");
  start();
  EXPECT_EQ(info("rdb_last_load_keys_loaded"), "5");
  EXPECT_EQ(info("rdb_changes_since_last_save"), "0");
  expect({"MGET", "a", "b", "late"}, "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n");
  expect({"SELECT", "3"}, "+OK\r\n");
  expect({"PTTL", "a"}, ":2000\r\n");
  TestClient again(server_->memcached_port());
  EXPECT_EQ(again.ask("get m\r\n", "VALUE m 77 1\r\nv\r\nEND\r\n"), "VALUE m 77 1\r\nv\r\nEND\r\n");
  EXPECT_EQ(again.ask("mg stale v\r\n", "VA 2 X W\r\nhi\r\n"), "VA 2 X W\r\nhi\r\n");
}

// The file has the databases in their order, and the last of them has nearly all keys.
TEST_F(SaveServerTest, DatabasesOfAFixedIndexAreReadWithRoomForTheirKeys) {
  for (const bool journal : {false, true}) {
    options_.appendonly = journal;
    options_.store.index = IndexChoice::set;
    options_.store.maxmemory = 4 << 20;
    options_.store.maxmemory_policy = EvictionPolicy::allkeys_lru;
    options_.store.hash_seed = 1;
    start();
    expect({"SELECT", "5"}, "+OK\r\n");
    std::string sets, answers;
    for (int i = 0; i < 12'000; ++i) {
      sets += resp({"SET", (journal ? "k" : "key") + std::to_string(i), "v"});
      answers += "+OK\r\n";
    }
    EXPECT_EQ(client_->ask(sets, answers), answers);
    for (const char* database : {"0", "1"}) {
      expect({"SELECT", database}, "+OK\r\n");
      expect({"SET", "key", "1"}, "+OK\r\n");
    }
    const uint64_t before = server_->engine().database(5).keys;
    EXPECT_GT(before, 11'500u);
    if (!journal) expect({"SAVE"}, "+OK\r\n");
    start();
    EXPECT_EQ(server_->engine().database(5).keys, before) << journal;
    std::filesystem::remove(snapshot_path());
  }
}

// A version that a client has seen is given to nothing else, whatever was lost.
TEST_F(SaveServerTest, VersionsOfTheTimeBehindTheSnapshotDoNotComeBack) {
  TestClient memcached(server_->memcached_port());
  const auto version = [](TestClient& of) {
    of.send("gets k\r\n");
    const std::string line = of.receive_until("\r\n");
    of.receive(8);
    return std::stoull(line.substr(line.rfind(' ')));
  };
  EXPECT_EQ(memcached.ask("set k 0 0 1\r\na\r\n", "STORED\r\n"), "STORED\r\n");
  expect({"SAVE"}, "+OK\r\n");
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(memcached.ask("set k 0 0 1\r\nb\r\n", "STORED\r\n"), "STORED\r\n");
  }
  const uint64_t before = version(memcached);
  start();
  TestClient again(server_->memcached_port());
  EXPECT_GT(version(again), before);
}

TEST_F(SaveServerTest, OneAtATime) {
  expect({"SET", "a", "1"}, "+OK\r\n");
  files_.hold_syncs(true);
  expect({"BGSAVE"}, "+Background saving started\r\n");
  expect({"BGSAVE", "SCHEDULE"}, "-ERR Background save already in progress\r\n");
  expect({"SAVE"}, "-ERR Background save already in progress\r\n");
  expect({"BGSAVE", "later"}, "-ERR syntax error\r\n");
  expect({"SET", "a", "2"}, "+OK\r\n");
  EXPECT_EQ(info("rdb_bgsave_in_progress"), "1");
  files_.hold_syncs(false);
  wait_for_saves(1);
  expect({"SAVE"}, "+OK\r\n");
  EXPECT_EQ(info("rdb_saves"), "2");
}

// The old file stays, and the next attempt works.
TEST_F(SaveServerTest, ADiskThatFailsIsTold) {
  expect({"SET", "a", "old"}, "+OK\r\n");
  expect({"SAVE"}, "+OK\r\n");
  expect({"SET", "a", "new"}, "+OK\r\n");
  files_.fail_after(1, 1'000'000, ENOSPC);
  expect({"SAVE"}, "-ERR\r\n");
  EXPECT_EQ(info("rdb_last_bgsave_status"), "err");
  EXPECT_EQ(info("rdb_changes_since_last_save"), "1");
  expect({"SET", "b", "goes on"}, "+OK\r\n");
  files_.heal();
  EXPECT_EQ(RdbFile(snapshot_path()).items(), 1u);
  expect({"SAVE"}, "+OK\r\n");
  EXPECT_EQ(info("rdb_last_bgsave_status"), "ok");
  EXPECT_EQ(RdbFile(snapshot_path()).items(), 2u);
}

TEST_F(SaveServerTest, SavePointsSaveByThemselves) {
  options_.save = {{3600, 1}, {10, 3}};
  start();
  expect({"CONFIG", "GET", "save"}, "*2\r\n$4\r\nsave\r\n$11\r\n3600 1 10 3\r\n");
  expect({"MSET", "a", "1", "b", "2"}, "+OK\r\n");
  clock_.advance(11'000);
  expect({"SET", "c", "3"}, "+OK\r\n");
  wait_for_saves(1);
  EXPECT_EQ(RdbFile(snapshot_path()).items(), 3u);
  expect({"CONFIG", "SET", "save", "60"},
         "-ERR CONFIG SET failed (possibly related to argument 'save') - Invalid save "
         "parameters\r\n");
  expect({"CONFIG", "SET", "save", "5 1"}, "+OK\r\n");
  expect({"FLUSHALL"}, "+OK\r\n");
  clock_.advance(6'000);
  wait_for_saves(2);
  EXPECT_EQ(RdbFile(snapshot_path()).items(), 0u);
  expect({"CONFIG", "SET", "save", ""}, "+OK\r\n");
  expect({"CONFIG", "GET", "save"}, "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
}

TEST_F(SaveServerTest, AClockThatWasSetBackKeepsNoSnapshotWaiting) {
  expect({"CONFIG", "SET", "save", "10 2"}, "+OK\r\n");
  clock_.advance(-1'000'000);
  expect({"SET", "a", "1"}, "+OK\r\n");
  EXPECT_EQ(info("rdb_saves"), "0");
  expect({"SET", "b", "1"}, "+OK\r\n");
  wait_for_saves(1);
}

TEST_F(SaveServerTest, WhatCannotBeReadEndsTheStartAndStays) {
  const std::string list = std::string("REDIS0010\x01\x04list\x01\x01x\xFF") + std::string(8, '\0');
  for (const std::string& bytes : {list, std::string("REDIS"), std::string("something else")}) {
    std::ofstream(snapshot_path(), std::ios::binary | std::ios::trunc) << bytes;
    EXPECT_THROW(start(), RdbError);
    std::ostringstream text;
    text << std::ifstream(snapshot_path(), std::ios::binary).rdbuf();
    EXPECT_EQ(text.str(), bytes);
  }
  std::filesystem::remove(snapshot_path());
  start();
  expect({"SELECT", "5"}, "+OK\r\n");
  expect({"SET", "a", "1"}, "+OK\r\n");
  expect({"SAVE"}, "+OK\r\n");
  options_.store.databases = 5;
  EXPECT_THROW(start(), RdbError);
}

TEST_F(SaveServerTest, WithAJournalTheSnapshotIsWrittenAndNotRead) {
  options_.appendonly = true;
  start();
  expect({"MSET", "b", "2", "c", "3"}, "+OK\r\n");
  expect({"SAVE"}, "+OK\r\n");
  EXPECT_EQ(RdbFile(snapshot_path()).items(), 2u);
  expect({"SET", "b", "3"}, "+OK\r\n");
  start();
  expect({"GET", "b"}, "$1\r\n3\r\n");
}

// And who waits for a snapshot, or for the end, is answered meanwhile.
TEST_F(SaveServerTest, AnEndThatFailsLeavesAPauseAsItWas) {
  std::atomic<bool> asked{false};
  server_->state().shutdown.owner = [&] { asked = true; };
  const net::Pause& pause = server_->state().pause;
  expect({"CLIENT", "PAUSE", "100000", "WRITE"}, "+OK\r\n");
  expect({"SAVE"}, "+OK\r\n");
  files_.fail_after(0, 1'000'000, EIO);
  client_->send(resp({"SHUTDOWN", "save"}));
  while (!asked) std::this_thread::yield();
  EXPECT_FALSE(server_->prepare_end());
  EXPECT_EQ(line(*client_), "-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
  EXPECT_EQ(pause.holds(clock_.now_ms()), net::Pause::Holds::writes);
  EXPECT_EQ(pause.holds(clock_.now_ms() + 100'000), net::Pause::Holds::nothing);
  files_.heal();
  server_->state().saves.set_points({{3600, 1}});
  EXPECT_TRUE(server_->prepare_end());
  EXPECT_EQ(pause.holds(clock_.now_ms()), net::Pause::Holds::all);
}

// Both ask for what they wait for before they run.
TEST_F(SaveServerTest, WhoHasNotGivenThePasswordAsksForNoSnapshotAndNoEnd) {
  std::atomic<bool> asked{false};
  server_->state().shutdown.owner = [&] { asked = true; };
  expect({"CONFIG", "SET", "requirepass", "secret"}, "+OK\r\n");
  TestClient stranger(server_->resp_port());
  const std::string refused = "-NOAUTH Authentication required.\r\n";
  EXPECT_EQ(stranger.ask(resp({"SAVE"}), refused), refused);
  EXPECT_EQ(stranger.ask(resp({"SHUTDOWN", "nosave"}), refused), refused);
  EXPECT_EQ(info("rdb_saves"), "0");
  EXPECT_FALSE(asked);
}

TEST_F(SaveServerTest, TheEndSavesWhereThereAreSavePoints) {
  std::atomic<bool> asked{false};
  server_->state().shutdown.owner = [&] { asked = true; };
  expect({"SHUTDOWN", "now", "save", "nosave"}, "-ERR syntax error\r\n");
  expect({"SHUTDOWN", "abort"}, "-ERR No shutdown in progress.\r\n");
  expect({"SET", "a", "1"}, "+OK\r\n");
  EXPECT_TRUE(server_->prepare_end());
  EXPECT_FALSE(std::filesystem::exists(snapshot_path()));
  server_->state().saves.set_points({{3600, 1}});
  // A disk that fails keeps the server alive, and who asked is told.
  files_.fail_after(0, 1'000'000, EIO);
  client_->send(resp({"SHUTDOWN", "save", "now", "save"}));
  while (!asked) std::this_thread::yield();
  TestClient other(server_->resp_port());
  EXPECT_EQ(other.ask(resp({"PING"}), "+PONG\r\n"), "+PONG\r\n");
  EXPECT_FALSE(server_->prepare_end());
  const auto says = [this](const char* words) {
    EXPECT_NE(server_->why_it_goes_on().find(words), std::string::npos)
        << server_->why_it_goes_on();
  };
  says("the snapshot that SHUTDOWN SAVE asks for cannot be written, so the server goes on");
  says("what was not saved is lost then");
  const std::string failed = "-ERR Errors trying to SHUTDOWN. Check logs.\r\n";
  EXPECT_EQ(client_->receive(failed.size()), failed);
  EXPECT_EQ(other.ask(resp({"SET", "b", "2"}), "+OK\r\n"), "+OK\r\n");
  files_.heal();
  EXPECT_TRUE(server_->prepare_end());
  server_->stop();
  EXPECT_TRUE(server_->save_rest());
  EXPECT_EQ(RdbFile(snapshot_path()).items(), 2u);
  // A journal does not take the place of a snapshot that is wanted; whether it has all is told.
  options_.appendonly = true;
  options_.appendfsync = SyncPolicy::always;
  options_.save = {{3600, 1}};
  start();
  expect({"SET", "c", "3"}, "+OK\r\n");
  files_.fail_after(0, 1'000'000, ENOSPC);
  EXPECT_FALSE(server_->prepare_end());
  says("the last snapshot, which there is for save points, cannot be written");
  says("nothing is lost then, since the journal has all changes");
  client_->send(resp({"SET", "c", "4"}));
  EXPECT_EQ(line(*client_).substr(0, 8), "-MISCONF");
  EXPECT_FALSE(server_->prepare_end());
  says("the journal cannot be written, either (No space left on device)");
  files_.heal();
}

}  // namespace
}  // namespace isotherm::save_server_test
