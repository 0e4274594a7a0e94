// A journal that begins where there is a snapshot: it has what that has from its first start on,
// or it does not begin.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "models/stored_server_fixture.h"

namespace isotherm::journal_begin_test {
namespace {

class JournalBeginTest : public StoredServerFixture {
 protected:
  void save_two() {
    start();
    expect({"MSET", "a", "1", "b", "2"}, "+OK\r\n");
    expect({"SAVE"}, "+OK\r\n");
    stop();
    options_.appendonly = true;
    options_.appendfsync = SyncPolicy::always;
  }
  void expect_two() { expect({"MGET", "a", "b"}, "*2\r\n$1\r\n1\r\n$1\r\n2\r\n"); }
  void write_snapshot(std::string_view text) {
    std::ofstream(snapshot_path(), std::ios::binary) << text;
  }
  // Empty: it has worked.
  std::string problem() {
    try {
      start();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return {};
  }
  // But for the lock, which is no part of it.
  std::set<std::string> journal_files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(options_.dir)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("appendonly.aof.") && !name.ends_with(".lock")) names.insert(name);
    }
    return names;
  }
};

TEST_F(JournalBeginTest, ItHasWhatTheSnapshotHasAndWhatComesThen) {
  save_two();
  start();
  expect_two();
  expect({"SET", "a", "new"}, "+OK\r\n");
  expect({"DEL", "b"}, ":1\r\n");
  // From now on what is done to the snapshot does not matter.
  std::filesystem::remove(snapshot_path());
  for (int i = 0; i < 2; ++i) {
    crash();
    start();
    expect({"MGET", "a", "b"}, "*2\r\n$3\r\nnew\r\n$-1\r\n");
  }
  // A journal that is there is all that is read.
  write_snapshot("REDIS, but damaged");
  start();
  expect({"MGET", "a", "b"}, "*2\r\n$3\r\nnew\r\n$-1\r\n");
}

// Such a file says nothing of versions.
TEST_F(JournalBeginTest, ASnapshotOfRedisIsTakenToo) {
  options_.appendonly = true;
  const std::string items = std::string("\xFE\0\0\1a\0011\0\1b\0012", 12);
  write_snapshot("REDIS0010" + items + "\xFF" + std::string(8, '\0'));
  start();
  expect_two();
  expect({"APPEND", "b", "x"}, ":2\r\n");
  start();
  expect({"MGET", "a", "b"}, "*2\r\n$1\r\n1\r\n$2\r\n2x\r\n");
}

TEST_F(JournalBeginTest, VersionsOfTheTimeBehindTheSnapshotDoNotComeBack) {
  start();
  const auto version = [&] {
    TestClient client(server_->memcached_port());
    client.send("set k 0 0 1\r\nv\r\ngets k\r\n");
    const std::string text = client.receive_until("END\r\n");
    const size_t at = text.find("VALUE k 0 1 ") + 12;
    return std::stoull(text.substr(at));
  };
  expect({"SET", "a", "1"}, "+OK\r\n");
  expect({"SAVE"}, "+OK\r\n");
  uint64_t last = version();
  options_.appendonly = true;
  for (int i = 0; i < 2; ++i) {
    start();
    const uint64_t next = version();
    EXPECT_GT(next, last) << i;
    last = next;
  }
}

TEST_F(JournalBeginTest, ItDoesNotBeginWithWhatCannotBeReadOrHasNoRoom) {
  save_two();
  write_snapshot("REDIS0010 and then nothing");
  EXPECT_NE(problem().find("snapshot"), std::string::npos);
  EXPECT_EQ(journal_files(), std::set<std::string>{});
  options_.appendonly = false;
  std::filesystem::remove(snapshot_path());
  start();
  expect({"SETRANGE", "long", "2000000", "x"}, ":2000001\r\n");
  expect({"SAVE"}, "+OK\r\n");
  options_.appendonly = true;
  const uint64_t longest = std::exchange(options_.proto_max_bulk_len, 1 << 20);
  EXPECT_NE(problem().find("start with a proto-max-bulk-len of at least 2000001"),
            std::string::npos);
  EXPECT_EQ(journal_files(), std::set<std::string>{});
  options_.proto_max_bulk_len = longest;
  start();
  expect({"STRLEN", "long"}, ":2000001\r\n");
}

TEST_F(JournalBeginTest, WhatHasNoRoomSaysHowMuchIsEnough) {
  options_.appendonly = false;
  start();
  for (const char* key : {"a", "b", "c", "d", "e", "f"}) {
    expect({"SETRANGE", key, "1999999", "x"}, ":2000000\r\n");
  }
  expect({"SAVE"}, "+OK\r\n");
  const std::string words = "start with a maxmemory of ";
  for (const bool journal : {false, true}) {
    options_.appendonly = journal;
    for (const uint64_t mib : {11, 7, 4}) {
      options_.store.maxmemory = mib << 20;
      EXPECT_NE(problem().find(words), std::string::npos) << mib;
    }
  }
  const std::string said = problem();
  ASSERT_NE(said.find(words), std::string::npos) << said;
  EXPECT_NE(said.find(", or with the maxmemory-policy allkeys-lru"), std::string::npos);
  options_.store.maxmemory = std::stoull(said.substr(said.find(words) + words.size())) << 20;
  EXPECT_LT(options_.store.maxmemory, 18u << 20);
  start();
  expect({"DBSIZE"}, ":6\r\n");
}

// A fault of any call, and a loss of power then: the next start has all.
TEST_F(JournalBeginTest, AFaultWhileItBeginsLosesNothing) {
  const std::string folder = options_.dir;
  int call = 0;
  for (bool begun = false; !begun; ++call) {
    options_.dir = folder + "/" + std::to_string(call);
    std::filesystem::create_directory(options_.dir);
    options_.appendonly = false;
    save_two();
    files_.fail_after(call, 1, EIO);
    begun = problem().empty();
    files_.heal();
    const std::string left = options_.dir + ".left";
    std::filesystem::create_directory(left);
    files_.lose_power(options_.dir, left);
    for (const std::string& its : {options_.dir, left}) {
      options_.dir = its;
      start();
      expect_two();
    }
    stop();
  }
  options_.dir = folder;
  constexpr int least_calls = 15;
  EXPECT_GT(call, least_calls);
}

TEST_F(JournalBeginTest, AnEmptyTreeIsFilledFromTheSnapshotFirst) {
  save_two();
  ASSERT_NO_FATAL_FAILURE(start_with_tree());
  if (IsSkipped()) return;
  expect_two();
  expect({"SET", "a", "new"}, "+OK\r\n");
  std::filesystem::remove(snapshot_path());
  crash();
  start();
  expect({"MGET", "a", "b"}, "*2\r\n$3\r\nnew\r\n$1\r\n2\r\n");
}

}  // namespace
}  // namespace isotherm::journal_begin_test
