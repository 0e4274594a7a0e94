// A server with a journal: its options, what it answers while the disk fails, and its next start.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "models/stored_server_fixture.h"

namespace isotherm::journal_server_test {
namespace {

class JournalServerTest : public StoredServerFixture {
 protected:
  JournalServerTest() {
    options_.appendonly = true;
    options_.appendfsync = SyncPolicy::always;
    start();
  }
  std::string ask(TestClient& client, const std::string& request, size_t bytes) {
    client.send(request);
    return client.receive(bytes);
  }
};

TEST_F(JournalServerTest, TheNextServerHasWhatTheOneBeforeAnswered) {
  {
    TestClient client(server_->resp_port());
    const std::string many = resp({"MSET", "a", "1", "b", "2"}) + resp({"SELECT", "3"}) +
                             resp({"SET", "a", "x", "PX", "5000"}) + resp({"APPEND", "a", "y"});
    EXPECT_EQ(ask(client, many, 19), "+OK\r\n+OK\r\n+OK\r\n:2\r\n");
    TestClient memcached(server_->memcached_port());
    EXPECT_EQ(ask(memcached, "set m 77 0 1\r\nv\r\n", 8), "STORED\r\n");
  }
  start();
  TestClient client(server_->resp_port());
  EXPECT_EQ(ask(client, resp({"MGET", "a", "b"}), 18), "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
  EXPECT_EQ(ask(client, resp({"SELECT", "3"}) + resp({"GET", "a"}) + resp({"PTTL", "a"}), 20),
            "+OK\r\n$2\r\nxy\r\n:5000\r\n");
  TestClient memcached(server_->memcached_port());
  EXPECT_EQ(ask(memcached, "get m\r\n", 22), "VALUE m 77 1\r\nv\r\nEND\r\n");
}

// What is stale, or a place for a value that somebody is to bring, does not come back as if it were
// fresh; nor does a rewrite win it.
TEST_F(JournalServerTest, MetaCommandsKnowOfAnItemAsBefore) {
  const Journal* journal = server_->state().journal;
  const auto meta = [&](const std::string& request, const std::string& reply) {
    TestClient client(server_->memcached_port());
    EXPECT_EQ(ask(client, request + "\r\n", reply.size()), reply) << request;
  };
  const auto make_stale = [&](const std::string& key) {
    meta("ms " + key + " 2\r\nhi", "HD\r\n");
    meta("md " + key + " I", "HD\r\n");
  };
  for (const bool rewrites : {false, true}) {
    const std::string suffix = rewrites ? "2" : "1";
    make_stale("stale" + suffix);
    make_stale("known" + suffix);
    meta("mg place" + suffix + " v N300", "VA 0 W\r\n\r\n");
    meta("ms Zm9vYmF" + std::string(rewrites ? "y" : "z") + " 2 b\r\nhi", "HD\r\n");
    if (rewrites) {
      ASSERT_TRUE(server_->state().journal->rewrite_job().ask());
      while (journal->rewrite_job().times() == 0) std::this_thread::yield();
      meta("mg known2 v", "VA 2 X W\r\nhi\r\n");
    }
    start();
    journal = server_->state().journal;
    meta("mg stale" + suffix + " v", "VA 2 X W\r\nhi\r\n");
    meta("mg stale" + suffix + " v", "VA 2 Z X\r\nhi\r\n");
    meta("mg place" + suffix + " v", "VA 0 Z\r\n\r\n");
    const std::string key = std::string("Zm9vYmF") + (rewrites ? "y" : "z");
    meta("mg " + key + " b k v", "VA 2 k" + key + " b\r\nhi\r\n");
  }
}

TEST_F(JournalServerTest, AStartWithTooFewDatabasesIsRefused) {
  expect({"MSET", "key", "1", "gone", "1"}, "+OK\r\n");
  expect({"COPY", "key", "key", "DB", "9"}, ":1\r\n");
  expect({"COPY", "gone", "gone", "DB", "12"}, ":1\r\n");
  expect({"COPY", "gone", "gone", "DB", "13"}, ":1\r\n");
  {
    TestClient client(server_->resp_port());
    EXPECT_EQ(ask(client, resp({"SELECT", "12"}) + resp({"DEL", "gone"}), 9), "+OK\r\n:1\r\n");
    const std::string expires = resp({"SELECT", "13"}) + resp({"PEXPIRE", "gone", "100"});
    EXPECT_EQ(ask(client, expires, 9), "+OK\r\n:1\r\n");
  }
  clock_.advance(1000);
  options_.store.databases = 9;
  try {
    start();
    ADD_FAILURE() << "started";
  } catch (const JournalError& error) {
    EXPECT_STREQ(error.what(), "journal: it has keys in database 9: more databases are needed");
  }
  options_.store.databases = 10;
  start();
  expect({"MOVE", "key", "9"}, ":0\r\n");
}

TEST_F(JournalServerTest, AFlushThatIsDueWhileTheDiskFailsComesLater) {
  TestClient client(server_->memcached_port());
  EXPECT_EQ(ask(client, "set key 0 0 1\r\n1\r\nflush_all 1\r\n", 12), "STORED\r\nOK\r\n");
  files_.fail_after(0, 1'000'000, ENOSPC);
  const std::string not_saved = "SERVER_ERROR the journal cannot be written\r\n";
  EXPECT_EQ(ask(client, "set other 0 0 1\r\n1\r\n", not_saved.size()), not_saved);
  clock_.advance(2000);
  EXPECT_EQ(ask(client, "get key\r\n", 23), "VALUE key 0 1\r\n1\r\nEND\r\n");
  files_.heal();
  while (server_->state().journal->error() != 0) std::this_thread::yield();
  EXPECT_EQ(ask(client, "get key\r\n", 5), "END\r\n");
}

// Its memory is a part of the cap, so there is always room that eviction can make.
TEST_F(JournalServerTest, UnderASmallCapNoWriteIsRefused) {
  options_.appendfsync = SyncPolicy::everysec;
  options_.store.maxmemory = 2 << 20;
  options_.store.maxmemory_policy = EvictionPolicy::allkeys_lru;
  start();
  const std::string value(10'000, 'v');
  for (int i = 0; i < 500; ++i) expect({"SET", "key" + std::to_string(i), value}, "+OK\r\n");
  expect({"EXISTS", "key499"}, ":1\r\n");
  EXPECT_LE(server_->state().journal->memory(), options_.store.maxmemory / 2);
  expect({"CONFIG", "SET", "maxmemory", "1500000"}, "+OK\r\n");
  for (int i = 0; i < 50; ++i) expect({"SET", "key" + std::to_string(i), value}, "+OK\r\n");
  expect({"FLUSHALL"}, "+OK\r\n");
  expect({"SET", "a", "1"}, "+OK\r\n");
}

TEST_F(JournalServerTest, AStartOnAFullDiskAnswersReadsUntilThereIsRoom) {
  expect({"SET", "key", "1"}, "+OK\r\n");
  stop();
  constexpr int64_t calls_of_sync = 2;
  files_.fail_after(calls_of_sync, 1'000'000, ENOSPC);
  start();
  expect({"GET", "key"}, "$1\r\n1\r\n");
  client_->send(resp({"SET", "key", "2"}));
  EXPECT_EQ(line(*client_).substr(0, 8), "-MISCONF");
  EXPECT_EQ(info("aof_last_write_status"), "err");
  files_.heal();
  while (server_->state().journal->error() != 0) std::this_thread::yield();
  expect({"SET", "key", "3"}, "+OK\r\n");
  start();
  expect({"GET", "key"}, "$1\r\n3\r\n");
}

// What was read may not be on disk then, and the next segment must not begin behind it.
TEST_F(JournalServerTest, AStartThatCannotSyncWhatItReadIsRefused) {
  expect({"SET", "key", "1"}, "+OK\r\n");
  stop();
  files_.fail_after(1, 1, ENOSPC);
  EXPECT_THROW(start(), JournalError);
  start();
  expect({"GET", "key"}, "$1\r\n1\r\n");
}

// Where there is nothing to read yet it is better to be told.
TEST_F(JournalServerTest, AFirstStartOnAFullDiskIsRefused) {
  stop();
  for (const auto& one : std::filesystem::directory_iterator(options_.dir)) {
    std::filesystem::remove_all(one.path());
  }
  files_.fail_after(0, 1'000'000, ENOSPC);
  EXPECT_THROW(start(), JournalError);
}

TEST_F(JournalServerTest, ARewriteForWhichTheDiskHasNoRoomHarmsNobody) {
  TestClient client(server_->resp_port());
  EXPECT_EQ(ask(client, resp({"SET", "key", "1"}), 5), "+OK\r\n");
  files_.leave_room(1 << 20);
  const Journal& journal = *server_->state().journal;
  ASSERT_TRUE(server_->state().journal->rewrite_job().ask());
  while (!journal.rewrite_job().failed()) std::this_thread::yield();
  EXPECT_NE(info().find("aof_last_bgrewrite_status:err"), std::string::npos);
  EXPECT_EQ(ask(client, resp({"SET", "key", "2"}), 5), "+OK\r\n");
  EXPECT_FALSE(std::filesystem::exists(options_.dir + "/appendonly.aof.2"));
}

TEST_F(JournalServerTest, WhoWritesItAnewHasAPlaceAmongTheThreads) {
  options_.threads = 256;
  EXPECT_THROW(Server(options_, clock_), std::invalid_argument);
}

TEST_F(JournalServerTest, WritesAreRefusedWhileTheDiskIsFull) {
  TestClient client(server_->resp_port());
  EXPECT_EQ(ask(client, resp({"SET", "key", "1"}), 5), "+OK\r\n");
  files_.fail_after(0, 1'000'000, ENOSPC);
  const std::string refused =
      "-MISCONF Errors writing to the AOF file: No space left on device\r\n";
  // The one that meets it has run, which its client cannot know.
  TestClient first(server_->resp_port());
  EXPECT_EQ(ask(first, resp({"SET", "first", "1"}), refused.size()), refused);
  for (const std::string& request :
       {resp({"SET", "key", "2"}), resp({"DEL", "key"}), resp({"FLUSHALL"}), resp({"PING"}),
        resp({"MSET", "a", "1", "key", "2"})}) {
    EXPECT_EQ(ask(client, request, refused.size()), refused) << request;
  }
  EXPECT_EQ(ask(client, resp({"GET", "key"}), 7), "$1\r\n1\r\n");
  const std::string wrong = "-ERR wrong number of arguments for 'set' command\r\n";
  EXPECT_EQ(ask(client, resp({"SET", "key"}), wrong.size()), wrong);
  // Nobody sees it before it is safe.
  EXPECT_EQ(ask(client, resp({"GET", "first"}), refused.size()), refused);
  EXPECT_EQ(ask(client, resp({"MGET", "key", "first"}), refused.size()), refused);
  TestClient memcached(server_->memcached_port());
  const std::string not_saved = "SERVER_ERROR the journal cannot be written\r\n";
  EXPECT_EQ(ask(memcached, "set key 0 0 1\r\nx\r\n", not_saved.size()), not_saved);
  EXPECT_EQ(ask(memcached, "get key\r\n", 23), "VALUE key 0 1\r\n1\r\nEND\r\n");
  EXPECT_NE(info().find("aof_last_write_status:err"), std::string::npos);
  files_.heal();
  while (server_->state().journal->error() != 0) std::this_thread::yield();
  EXPECT_EQ(ask(client, resp({"GET", "first"}), 7), "$1\r\n1\r\n");
  EXPECT_EQ(ask(client, resp({"SET", "key", "2"}), 5), "+OK\r\n");
  start();
  TestClient next(server_->resp_port());
  EXPECT_EQ(ask(next, resp({"MGET", "key", "first"}), 18), "*2\r\n$1\r\n2\r\n$1\r\n1\r\n");
}

// Also where more clients meet it than turns may be under way.
TEST_F(JournalServerTest, ReadsGoOnHoweverManyWritesFail) {
  files_.fail_after(0, 1'000'000, EIO);
  const std::string refused = "-MISCONF Errors writing to the AOF file: Input/output error\r\n";
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 2 * 64 + 10; ++i) {
    clients.push_back(std::make_unique<TestClient>(server_->resp_port()));
    clients.back()->send(resp({"SET", "key", "1"}));
    clients.back()->send(resp({"GET", "key"}));
  }
  for (auto& client : clients) {
    EXPECT_EQ(client->receive(refused.size()), refused);
  }
  TestClient reader(server_->resp_port());
  EXPECT_EQ(ask(reader, resp({"GET", "other"}), 5), "$-1\r\n");
  // It ends without the disk.
  server_->stop();
}

TEST_F(JournalServerTest, WhatIsEvictedWhileTheStoreIsFilledStaysGone) {
  constexpr int keys = 4000;
  {
    TestClient client(server_->resp_port());
    std::string all;
    for (int i = 0; i < keys; ++i) {
      all += resp({"SET", "key" + std::to_string(i), std::string(4000, 'v')});
    }
    EXPECT_EQ(ask(client, all, keys * 5).size(), size_t{keys * 5});
  }
  const auto count = [&] {
    TestClient client(server_->resp_port());
    client.send(resp({"DBSIZE"}));
    return std::stoi(line(client).substr(1));
  };
  options_.store.maxmemory = 8 << 20;
  options_.store.maxmemory_policy = EvictionPolicy::allkeys_lru;
  start();
  const int left = count();
  EXPECT_LT(left, keys / 2);
  EXPECT_GT(left, 10);
  options_.store.maxmemory = 0;
  start();
  EXPECT_LE(count(), left);
}

// While clients write, and without what was erased or written over.
TEST_F(JournalServerTest, WrittenAnewItHasWhatTheStoreHas) {
  TestClient client(server_->resp_port());
  const std::string value(1000, 'v');
  const auto put_all = [&](int first, int last) {
    std::string all;
    for (int i = first; i < last; ++i) all += resp({"SET", "key" + std::to_string(i), value});
    EXPECT_EQ(ask(client, all, 5 * static_cast<size_t>(last - first)).back(), '\n');
  };
  for (int round = 0; round < 5; ++round) put_all(0, 300);
  EXPECT_EQ(ask(client, resp({"PEXPIRE", "key1", "5000"}) + resp({"DEL", "key2"}), 8),
            ":1\r\n:1\r\n");
  const uint64_t before = server_->state().journal->live_bytes();
  const Journal& journal = *server_->state().journal;
  for (uint64_t done = 1; done <= 3; ++done) {
    const std::string started = "+Background append only file rewriting started\r\n";
    EXPECT_EQ(ask(client, resp({"BGREWRITEAOF"}), started.size()), started);
    for (int i = 0; journal.rewrite_job().times() < done; ++i) {
      const std::string name = "new" + std::to_string(i % 20);
      EXPECT_EQ(ask(client, resp({"SET", name, std::to_string(i)}), 5), "+OK\r\n");
      EXPECT_EQ(ask(client, resp({"DEL", "key3"}), 2).substr(0, 1), ":");
      client.receive(2);
    }
  }
  EXPECT_LT(journal.live_bytes(), before / 2 + 300'000);
  EXPECT_NE(info().find("aof_rewrites:3"), std::string::npos);
  EXPECT_NE(info().find("aof_base_size:" + std::to_string(journal.base_bytes())),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(options_.dir + "/appendonly.aof.1"));
  EXPECT_EQ(ask(client, resp({"SET", "last", "1"}), 5), "+OK\r\n");
  client.send(resp({"DBSIZE"}));
  const std::string size = line(client);
  start();
  TestClient next(server_->resp_port());
  EXPECT_EQ(ask(next, resp({"DBSIZE"}), size.size()), size);
  EXPECT_EQ(ask(next, resp({"PTTL", "key1"}) + resp({"EXISTS", "key2", "key3"}), 11),
            ":5000\r\n:0\r\n");
  EXPECT_EQ(ask(next, resp({"GET", "last"}), 7), "$1\r\n1\r\n");
}

TEST_F(JournalServerTest, ItIsWrittenAnewWhenItHasGrown) {
  TestClient client(server_->resp_port());
  const std::string set = resp({"CONFIG", "SET", "auto-aof-rewrite-min-size", "100kb"}) +
                          resp({"CONFIG", "SET", "auto-aof-rewrite-percentage", "50"});
  EXPECT_EQ(ask(client, set, 10), "+OK\r\n+OK\r\n");
  const Journal& journal = *server_->state().journal;
  const std::string value(10'000, 'v');
  while (journal.rewrite_job().times() == 0) {
    EXPECT_EQ(ask(client, resp({"SET", "key", value}), 5), "+OK\r\n");
  }
  EXPECT_GT(journal.base_bytes(), 10'000u);
  EXPECT_LT(journal.base_bytes(), journal.bytes());
}

TEST_F(JournalServerTest, OptionsAreShownAndChangedAsRedisDoes) {
  TestClient client(server_->resp_port());
  const auto get = [&](const std::string& name, const std::string& value) {
    const std::string reply = "*2\r\n$" + std::to_string(name.size()) + "\r\n" + name + "\r\n$" +
                              std::to_string(value.size()) + "\r\n" + value + "\r\n";
    EXPECT_EQ(ask(client, resp({"CONFIG", "GET", name}), reply.size()), reply);
  };
  get("appendonly", "yes");
  get("appendfsync", "always");
  get("appendfilename", "appendonly.aof");
  get("dir", options_.dir);
  EXPECT_EQ(ask(client, resp({"CONFIG", "SET", "appendfsync", "everysec"}), 5), "+OK\r\n");
  EXPECT_EQ(server_->state().journal->policy(), SyncPolicy::everysec);
  get("appendfsync", "everysec");
  EXPECT_EQ(ask(client, resp({"CONFIG", "SET", "appendonly", "yes"}), 5), "+OK\r\n");
  const std::string refused =
      "-ERR CONFIG SET failed (possibly related to argument 'appendonly') - the journal is chosen "
      "at start: --appendonly\r\n";
  EXPECT_EQ(ask(client, resp({"CONFIG", "SET", "appendonly", "no"}), refused.size()), refused);
}

TEST_F(JournalServerTest, NoSecondServerTakesTheSameFiles) {
  Server second(options_, clock_);
  try {
    second.start();
    FAIL() << "it starts";
  } catch (const JournalError& error) {
    EXPECT_NE(std::string(error.what()).find("is locked"), std::string::npos);
  }
}

// What it has in memory meanwhile is little.
TEST_F(JournalServerTest, ToWriteItAnewEvictsNothing) {
  options_.store.maxmemory = 32 << 20;
  options_.store.maxmemory_policy = EvictionPolicy::allkeys_lru;
  start();
  TestClient client(server_->resp_port());
  const std::string value(100'000, 'v');
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(ask(client, resp({"SET", "key" + std::to_string(i), value}), 5), "+OK\r\n");
  }
  const Journal& journal = *server_->state().journal;
  const std::string started = "+Background append only file rewriting started\r\n";
  EXPECT_EQ(ask(client, resp({"BGREWRITEAOF"}), started.size()), started);
  while (journal.rewrite_job().times() == 0) {
    EXPECT_LT(journal.memory(), options_.store.maxmemory / 3);
    std::this_thread::yield();
  }
  EXPECT_EQ(ask(client, resp({"DBSIZE"}), 6), ":200\r\n");
}

}  // namespace
}  // namespace isotherm::journal_server_test
