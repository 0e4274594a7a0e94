// What commands answer of a key whose value is an object, which a test put there: those that are
// about the key work on it, and those that are about a string say so before anything else.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "models/pile.h"
#include "net/memcached/protocol.h"
#include "net/protocol_fixture.h"
#include "net/resp/protocol.h"

namespace isotherm::net::object_commands_test {
namespace {

constexpr std::string_view wrong_type =
    "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

class ObjectCommandsTest : public ProtocolTest {
 protected:
  ObjectCommandsTest() {
    const std::string_view parts[] = {"one", "two"};
    Batch batch;
    batch.call("pile", pile::push, parts);
    batch.put("string", "5");
    worker_.submit(batch);
    protocol_ = make_resp_protocol(server_, client_);
  }

  std::string text(std::string_view key, uint32_t database = 0) {
    std::string text;
    Batch batch;
    batch.select(database);
    batch.call(key, pile::text, {}, &text);
    worker_.submit(batch);
    return batch.reply(0).status == Status::ok ? text
                                               : std::string(to_string(batch.reply(0).status));
  }
};

TEST_F(ObjectCommandsTest, StringsSayThatTheTypeIsWrong) {
  for (const char* command : {"GET pile",
                              "SET pile x GET",
                              "SET pile x NX GET",
                              "GETSET pile x",
                              "GETDEL pile",
                              "GETEX pile",
                              "GETEX pile PERSIST",
                              "GETEX pile EX 0",
                              "STRLEN pile",
                              "INCR pile",
                              "DECR pile",
                              "INCRBY pile 5",
                              "DECRBY pile 5",
                              "INCRBYFLOAT pile nonsense",
                              "APPEND pile x",
                              "SETRANGE pile 0 x",
                              "SETRANGE pile 500000000 x",
                              "GETRANGE pile 0 -1",
                              "SUBSTR pile 0 1",
                              "SETBIT pile 4000000000 1",
                              "GETBIT pile 0",
                              "BITCOUNT pile",
                              "BITCOUNT pile 0 nonsense",
                              "BITPOS pile 1",
                              "BITFIELD pile GET u8 0",
                              "BITFIELD pile SET u8 0 1",
                              "BITFIELD_RO pile GET u8 0",
                              "BITOP AND to string pile",
                              "BITOP NOT to pile",
                              "DUMP pile"}) {
    EXPECT_EQ(run(std::string(command) + "\r\n"), wrong_type) << command;
    EXPECT_EQ(text("pile"), "one,two,") << command;
  }
  const std::string of_lcs = "-ERR The specified keys must contain string values\r\n";
  EXPECT_EQ(run("LCS pile string\r\nLCS string pile LEN\r\nLCS none pile NONSENSE\r\n"),
            of_lcs + of_lcs + of_lcs);
  EXPECT_EQ(run("LCS string none NONSENSE\r\n"), "-ERR syntax error\r\n");
  EXPECT_EQ(run("MGET string pile none\r\n"), "*3\r\n$1\r\n5\r\n$-1\r\n$-1\r\n");
}

TEST_F(ObjectCommandsTest, WhatIsAboutTheKeyWorks) {
  EXPECT_EQ(run("TYPE pile\r\nEXISTS pile string\r\nTOUCH pile\r\nDBSIZE\r\n"),
            "+list\r\n:2\r\n:1\r\n:2\r\n");
  EXPECT_EQ(run("OBJECT ENCODING pile\r\nOBJECT REFCOUNT pile\r\n"), "$4\r\npile\r\n:1\r\n");
  EXPECT_EQ(run("SCAN 0 TYPE list COUNT 100\r\n"), "*2\r\n$1\r\n0\r\n*1\r\n$4\r\npile\r\n");
  EXPECT_EQ(run("SCAN 0 TYPE string COUNT 100\r\n"), "*2\r\n$1\r\n0\r\n*1\r\n$6\r\nstring\r\n");
  EXPECT_EQ(run("EXPIRE pile 100\r\nTTL pile\r\nPERSIST pile\r\nTTL pile\r\n"),
            ":1\r\n:100\r\n:1\r\n:-1\r\n");
  EXPECT_EQ(run("SETNX pile x\r\nSET pile x NX\r\nMSETNX none x pile y\r\n"),
            ":0\r\n$-1\r\n:0\r\n");
  EXPECT_EQ(run("RENAME pile pile\r\nRENAMENX string pile\r\nEXISTS none\r\n"),
            "+OK\r\n:0\r\n:0\r\n");
  EXPECT_EQ(text("pile"), "one,two,");
  const std::string part(1000, 'p');
  const std::string_view parts[] = {part};
  Batch batch;
  batch.call("pile", pile::push, parts);
  worker_.submit(batch);
  batch.clear();
  EXPECT_GT(std::stoi(run("MEMORY USAGE pile\r\n").substr(1)), 1000);
  EXPECT_EQ(run("SET pile x\r\nGET pile\r\nDEL pile\r\n"), "+OK\r\n$1\r\nx\r\n:1\r\n");
}

TEST_F(ObjectCommandsTest, CopiesShareNothing) {
  EXPECT_EQ(run("EXPIRE pile 100\r\nCOPY pile copy\r\nCOPY pile copy\r\nTTL copy\r\n"),
            ":1\r\n:1\r\n:0\r\n:100\r\n");
  Batch batch;
  batch.call("copy", pile::pop);
  worker_.submit(batch);
  batch.clear();
  EXPECT_EQ(text("copy"), "one,");
  EXPECT_EQ(text("pile"), "one,two,");
  EXPECT_EQ(run("RENAME copy string\r\nTYPE string\r\nEXISTS copy\r\n"), "+OK\r\n+list\r\n:0\r\n");
  EXPECT_EQ(text("string"), "one,");
  EXPECT_EQ(run("MOVE pile 1\r\nEXISTS pile\r\n"), ":1\r\n:0\r\n");
  EXPECT_EQ(text("pile", 1), "one,two,");
  EXPECT_EQ(run("FLUSHALL\r\nDBSIZE\r\n"), "+OK\r\n:0\r\n");
}

TEST_F(ObjectCommandsTest, MemcachedTakesItForNone) {
  protocol_ = make_memcached_protocol(server_);
  EXPECT_EQ(run("get pile string\r\ngets pile\r\ngat 0 pile\r\n"),
            "VALUE string 0 1\r\n5\r\nEND\r\nEND\r\nEND\r\n");
  EXPECT_EQ(run("append pile 0 0 1\r\nx\r\nprepend pile 0 0 1\r\nx\r\nadd pile 0 0 1\r\nx\r\n"),
            "NOT_STORED\r\nNOT_STORED\r\nNOT_STORED\r\n");
  EXPECT_EQ(
      run("incr pile 1\r\ncas pile 0 0 1 0\r\nx\r\ntouch pile 100\r\n"),
      "CLIENT_ERROR cannot increment or decrement non-numeric value\r\nEXISTS\r\nTOUCHED\r\n");
  EXPECT_EQ(text("pile"), "one,two,");
  EXPECT_EQ(run("replace pile 0 0 1\r\nx\r\nget pile\r\ndelete pile\r\n"),
            "STORED\r\nVALUE pile 0 1\r\nx\r\nEND\r\nDELETED\r\n");
}

}  // namespace
}  // namespace isotherm::net::object_commands_test
