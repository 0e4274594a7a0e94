#include "net/memcached/protocol.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "net/protocol_fixture.h"

namespace isotherm::net::memcached_protocol_test {
namespace {

class MemcachedProtocolTest : public ProtocolTest {
 protected:
  MemcachedProtocolTest() { protocol_ = make_memcached_protocol(server_); }

  // Before what connections ask for a loop runs a flush that is due.
  std::string run(std::string_view bytes) {
    add_due_flush(server_, batch_, clock_.now_ms());
    worker_.submit(batch_);
    batch_.clear();
    return ProtocolTest::run(bytes);
  }
};

TEST_F(MemcachedProtocolTest, StoresAndGets) {
  EXPECT_EQ(run("set a 7 0 1\r\nx\r\nget a b\r\nappend a 0 0 1\r\ny\r\nget a\r\n"),
            "STORED\r\nVALUE a 7 1\r\nx\r\nEND\r\nSTORED\r\nVALUE a 7 2\r\nxy\r\nEND\r\n");
  EXPECT_EQ(run("add a 0 0 1\r\nz\r\nreplace b 0 0 1\r\nz\r\nprepend b 0 0 1\r\nz\r\n"),
            "NOT_STORED\r\nNOT_STORED\r\nNOT_STORED\r\n");
  EXPECT_EQ(run("delete a\r\ndelete a\r\n"), "DELETED\r\nNOT_FOUND\r\n");
}

TEST_F(MemcachedProtocolTest, CasTakesTheVersionThatGetsTold) {
  run("set a 0 0 1\r\nx\r\n");
  const std::string told = run("gets a\r\n");
  const size_t start = std::string_view("VALUE a 0 1 ").size();
  const std::string version = told.substr(start, told.find('\r') - start);
  const std::string cas = "cas a 0 0 1 " + version + "\r\ny\r\n";
  EXPECT_EQ(run(cas + cas + "cas b 0 0 1 " + version + "\r\ny\r\n"),
            "STORED\r\nEXISTS\r\nNOT_FOUND\r\n");
}

TEST_F(MemcachedProtocolTest, CountersKeepTheirLength) {
  EXPECT_EQ(run("set n 3 0 3\r\n100\r\ndecr n 1\r\nget n\r\ndecr n 1000\r\nget n\r\n"),
            "STORED\r\n99\r\nVALUE n 3 3\r\n99 \r\nEND\r\n0\r\nVALUE n 3 3\r\n0  \r\nEND\r\n");
  EXPECT_EQ(run("incr n 18446744073709551615\r\nincr n 2\r\nincr none 1\r\n"),
            "18446744073709551615\r\n1\r\nNOT_FOUND\r\n");
}

// Each stores a copy, which stays until the turn has ended.
TEST_F(MemcachedProtocolTest, AppendsToALongValueTakeTheirTurns) {
  const std::string value(1'000'000, 'v');
  run("set a 0 0 1000000\r\n" + value + "\r\n");
  std::string appends;
  std::string stored;
  for (int i = 0; i < 30; ++i) {
    appends += i % 2 == 0 ? "append a 0 0 1\r\nx\r\n" : "prepend a 0 0 1\r\nx\r\n";
    stored += "STORED\r\n";
  }
  EXPECT_EQ(run(appends), stored);
  EXPECT_GT(turns_, 1);
}

// Reads whose answers must wait run again.
TEST_F(MemcachedProtocolTest, ReadsCountOnce) {
  const std::string value(10'000, 'v');
  run("set a 0 0 10000\r\n" + value + "\r\n");
  std::string gets = "get";
  for (int i = 0; i < 20; ++i) gets += " a none";
  run(gets + "\r\n");
  EXPECT_GT(turns_, 1);
  EXPECT_EQ(engine_.stats().hits, 20u);
  EXPECT_EQ(engine_.stats().misses, 20u);
}

TEST_F(MemcachedProtocolTest, ItemsExpire) {
  EXPECT_EQ(run("set a 0 10 1\r\nx\r\nset b 0 -1 1\r\nx\r\nget a b\r\n"),
            "STORED\r\nSTORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
  clock_.advance(9'999);
  EXPECT_EQ(run("gat 20 a\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n");
  clock_.advance(19'999);
  EXPECT_EQ(run("touch a 1\r\n"), "TOUCHED\r\n");
  clock_.advance(1'000);
  EXPECT_EQ(run("get a\r\ntouch a 1\r\n"), "END\r\nNOT_FOUND\r\n");
}

TEST_F(MemcachedProtocolTest, FlushAllRunsInOrder) {
  EXPECT_EQ(run("set a 0 0 1\r\nx\r\nflush_all\r\nget a\r\nset a 0 0 1\r\ny\r\nget a\r\n"),
            "STORED\r\nOK\r\nEND\r\nSTORED\r\nVALUE a 0 1\r\ny\r\nEND\r\n");
  EXPECT_EQ(run("flush_all noreply\r\nget a\r\n"), "END\r\n");
}

TEST_F(MemcachedProtocolTest, FlushAllLeavesOtherDatabases) {
  batch_.select(1);
  batch_.put("a", "x");
  worker_.submit(batch_);
  batch_.clear();
  EXPECT_EQ(run("flush_all\r\n"), "OK\r\n");
  EXPECT_EQ(engine_.database(1).keys, 1u);
}

TEST_F(MemcachedProtocolTest, ADelayedFlushComesWhenItIsDue) {
  EXPECT_EQ(run("set a 0 0 1\r\nx\r\nflush_all 2\r\nget a\r\n"),
            "STORED\r\nOK\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
  clock_.advance(1'999);
  EXPECT_EQ(run("get a\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n");
  clock_.advance(1);
  EXPECT_EQ(run("get a\r\n"), "END\r\n");
  EXPECT_EQ(run("set a 0 0 1\r\nx\r\nget a\r\n"), "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
}

TEST_F(MemcachedProtocolTest, TheTimerFlushesForConnectionsThatAreIdle) {
  run("set a 0 0 1\r\nx\r\nflush_all 2\r\n");
  clock_.advance(2'000);
  add_due_flush(server_, batch_, clock_.now_ms());
  worker_.submit(batch_);
  batch_.clear();
  EXPECT_EQ(engine_.database(0).keys, 0u);
}

TEST_F(MemcachedProtocolTest, AFlushCancelsADelayedOne) {
  EXPECT_EQ(run("flush_all 2\r\nflush_all\r\nset a 0 0 1\r\nx\r\n"), "OK\r\nOK\r\nSTORED\r\n");
  clock_.advance(3'000);
  EXPECT_EQ(run("get a\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n");
}

TEST_F(MemcachedProtocolTest, StatsCountAndReset) {
  run("set a 0 0 1\r\nx\r\nget a b\r\ndelete a noreply\r\n");
  std::string stats = run("stats\r\n");
  for (const char* line :
       {"STAT version 1.6.18\r\n", "STAT cmd_set 1\r\n", "STAT cmd_get 2\r\n",
        "STAT get_hits 1\r\n", "STAT delete_hits 1\r\n", "STAT curr_items 0\r\n"}) {
    EXPECT_NE(stats.find(line), std::string::npos) << line << stats;
  }
  EXPECT_TRUE(stats.ends_with("END\r\n"));
  EXPECT_EQ(run("stats reset\r\n"), "RESET\r\n");
  stats = run("get b\r\nstats\r\n");
  EXPECT_NE(stats.find("STAT cmd_get 1\r\n"), std::string::npos);
  EXPECT_NE(stats.find("STAT cmd_set 0\r\n"), std::string::npos);
  EXPECT_EQ(run("stats items\r\nstats foo\r\n"), "END\r\nERROR\r\n");
  EXPECT_TRUE(run("stats settings\r\n").find("STAT item_size_max 1048576\r\n") !=
              std::string::npos);
}

TEST_F(MemcachedProtocolTest, SlabsCountWhatIsAskedOfTheirItems) {
  run("set a 0 0 1\r\n1\r\nget a a none\r\nmg a v\r\ngat 0 a\r\ntouch a 0\r\nmg a T9\r\n"
      "incr a 1\r\ndecr a 1\r\nma a\r\nma a MD\r\ncas a 0 0 1 1\r\n1\r\n");
  const std::string told = run("gets a\r\n");
  const size_t start = std::string_view("VALUE a 0 1 ").size();
  run("cas a 0 0 1 " + told.substr(start, told.find('\r') - start) + "\r\n1\r\n");
  run("add a 0 0 1\r\n1\r\nappend none 0 0 1\r\n1\r\nms a 1\r\n1\r\nprepend a 0 0 1\r\n1\r\n");
  run("delete a\r\nset a 0 0 1\r\n1\r\nmd a\r\nset a 0 0 1\r\n1\r\n");
  run("set large 0 0 40000\r\n" + std::string(40'000, 'v') + "\r\ndelete large\r\n");
  const std::string own = "STAT 1:";
  const std::string slabs = run("stats slabs\r\n");
  for (const char* line :
       {"get_hits 4\r\n", "cmd_set 8\r\n", "delete_hits 2\r\n", "incr_hits 2\r\n",
        "decr_hits 2\r\n", "cas_hits 1\r\n", "cas_badval 1\r\n", "touch_hits 3\r\n"}) {
    EXPECT_NE(slabs.find(own + line), std::string::npos) << line << slabs;
  }
  const std::string all = run("stats\r\n");
  for (const char* line : {"get_hits 4\r\n", "cmd_set 10\r\n", "delete_hits 3\r\n"}) {
    EXPECT_NE(all.find(std::string("STAT ") + line), std::string::npos) << line << all;
  }
  EXPECT_EQ(run("stats reset\r\n"), "RESET\r\n");
  EXPECT_NE(run("stats slabs\r\n").find(own + "cmd_set 0\r\n"), std::string::npos);
}

TEST_F(MemcachedProtocolTest, SizesCountTheFlagsThatMemcachedWouldKeep) {
  EXPECT_EQ(run("stats sizes_enable\r\nset a 5 0 1\r\nx\r\nset b 0 0 1\r\nx\r\nstats sizes\r\n"),
            "STAT sizes_status enabled\r\nSTORED\r\nSTORED\r\nSTAT 64 1\r\nSTAT 96 1\r\nEND\r\n");
}

TEST_F(MemcachedProtocolTest, ItemsThatHaveExpiredCountByClass) {
  run("set a 0 1 1\r\nx\r\nset b 0 0 1\r\nx\r\n");
  clock_.advance(2'000);
  EXPECT_EQ(run("get a\r\n"), "END\r\n");
  EXPECT_EQ(run("stats items\r\n"),
            "STAT items:1:number 1\r\nSTAT items:1:evicted 0\r\n"
            "STAT items:1:evicted_nonzero 0\r\nSTAT items:1:reclaimed 1\r\nEND\r\n");
  EXPECT_NE(run("stats\r\n").find("STAT reclaimed 1\r\n"), std::string::npos);
}

TEST_F(MemcachedProtocolTest, AGetOfManyLargeValuesIsAnsweredInPieces) {
  const std::string value(1'000'000, 'v');
  run("set a 0 0 1000000\r\n" + value + "\r\nget a\r\n");
  std::string line = "get";
  for (int i = 0; i < 100; ++i) line += " a";
  const std::string answer = run(line + "\r\nversion\r\n");
  EXPECT_GT(turns_, 3);
  EXPECT_EQ(answer.size(), 100 * (std::string_view("VALUE a 0 1000000\r\n").size() + 1'000'002) +
                               std::string_view("END\r\nVERSION 1.6.18\r\n").size());
}

TEST_F(MemcachedProtocolTest, QuitAnswersWhatCameBefore) {
  EXPECT_EQ(run("version\r\nquit\r\n"), "VERSION 1.6.18\r\n");
  EXPECT_TRUE(protocol_->closing());
}

}  // namespace
}  // namespace isotherm::net::memcached_protocol_test
