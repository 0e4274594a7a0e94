#include "isotherm_bench/codec.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "isotherm_bench/floor_server.h"

namespace isotherm::bench::codec_test {
namespace {

using State = ParsedReply::State;

class CodecTest : public ::testing::Test {
 protected:
  CodecTest() {
    workload_.key_size = 4;
    workload_.value_size_min = workload_.value_size_max = 10;
  }
  std::string value(uint64_t key, uint64_t size = 10) const {
    std::string text(size, '\0');
    write_value(key, size, text.data());
    return text;
  }
  ParsedReply parse(WireProtocol protocol, std::string_view input, Command command,
                    const std::vector<uint64_t>& keys = {1}, bool verify = true) const {
    return make_codec(protocol, workload_, verify)->parse(input, {command, keys});
  }
  // Every proper prefix of a reply is incomplete, and nothing behind it is taken.
  void expect_whole(WireProtocol protocol, const std::string& reply, Command command,
                    const std::vector<uint64_t>& keys = {1}) const {
    for (size_t length = 0; length < reply.size(); ++length) {
      EXPECT_EQ(parse(protocol, reply.substr(0, length), command, keys).state, State::incomplete)
          << length;
    }
    const ParsedReply parsed = parse(protocol, reply + reply, command, keys);
    EXPECT_EQ(parsed.state, State::complete) << parsed.error;
    EXPECT_EQ(parsed.bytes, reply.size());
  }
  void expect_failure(WireProtocol protocol, const std::string& reply, Command command,
                      const std::vector<uint64_t>& keys = {1}) const {
    const ParsedReply parsed = parse(protocol, reply, command, keys);
    EXPECT_EQ(parsed.state, State::failed) << reply;
    EXPECT_FALSE(parsed.error.empty());
  }

  Workload workload_;
};

class RespCodecTest : public CodecTest {
 protected:
  static constexpr auto redis = WireProtocol::redis;
};
class MemcachedCodecTest : public CodecTest {
 protected:
  static constexpr auto memcached = WireProtocol::memcached;
};

TEST_F(RespCodecTest, WritesCommands) {
  const auto codec = make_codec(redis, workload_, false);
  std::string out;
  codec->get(std::vector<uint64_t>{1}, out);
  EXPECT_EQ(out, "*2\r\n$3\r\nGET\r\n$4\r\n0001\r\n");
  out.clear();
  codec->get(std::vector<uint64_t>{1, 2}, out);
  EXPECT_EQ(out, "*3\r\n$4\r\nMGET\r\n$4\r\n0001\r\n$4\r\n0002\r\n");
  out.clear();
  codec->set(1, 10, out);
  EXPECT_EQ(out, "*3\r\n$3\r\nSET\r\n$4\r\n0001\r\n$10\r\n" + value(1) + "\r\n");
  out.clear();
  codec->erase(1, out);
  codec->scan(77, 5, out);
  EXPECT_EQ(out,
            "*2\r\n$3\r\nDEL\r\n$4\r\n0001\r\n"
            "*4\r\n$4\r\nSCAN\r\n$2\r\n77\r\n$5\r\nCOUNT\r\n$1\r\n5\r\n");
}

TEST_F(RespCodecTest, TakesWholeReplies) {
  const std::string bulk = "$10\r\n" + value(1) + "\r\n";
  expect_whole(redis, bulk, Command::get);
  expect_whole(redis, "$-1\r\n", Command::get);
  expect_whole(redis, "*3\r\n" + bulk + "$-1\r\n" + bulk, Command::get, {1, 2, 1});
  expect_whole(redis, "+OK\r\n", Command::set);
  expect_whole(redis, ":1\r\n", Command::erase);
  expect_whole(redis, "*2\r\n$2\r\n17\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n", Command::scan);
  expect_whole(redis, "*2\r\n$1\r\n0\r\n*0\r\n", Command::scan);
}

TEST_F(RespCodecTest, CountsHitsAndMisses) {
  const std::string bulk = "$10\r\n" + value(1) + "\r\n";
  const ParsedReply reply =
      parse(redis, "*3\r\n" + bulk + "$-1\r\n" + bulk, Command::get, {1, 2, 1});
  EXPECT_EQ(reply.hits, 2u);
  EXPECT_EQ(reply.misses, 1u);
  EXPECT_EQ(parse(redis, ":0\r\n", Command::erase).misses, 1u);
  EXPECT_EQ(parse(redis, "*2\r\n$2\r\n17\r\n*1\r\n$1\r\na\r\n", Command::scan).scanned, 1u);
}

TEST_F(RespCodecTest, RefusesWhatDoesNotBelong) {
  for (Command command : {Command::get, Command::set, Command::erase, Command::scan}) {
    expect_failure(redis, "-ERR wrong\r\n", command);
    expect_failure(redis, "nonsense\r\n", command);
  }
  expect_failure(redis, "+OK\r\n", Command::get);
  expect_failure(redis, "$10\r\n" + value(2) + "\r\n", Command::get);  // another key's
  expect_failure(redis, "$9\r\n" + value(1, 9) + "\r\n", Command::get);
  expect_failure(redis, "$-2\r\n", Command::get);
  expect_failure(redis, "$99999999999999999999\r\n", Command::get);
  expect_failure(redis, "$5000000000\r\n", Command::get);
  expect_failure(redis, "*1\r\n$-1\r\n", Command::get, {1, 2});
  expect_failure(redis, "+QUEUED\r\n", Command::set);
  EXPECT_EQ(parse(redis, "$9\r\n123456789\r\n", Command::get, {1}, false).state, State::complete);
}

TEST_F(MemcachedCodecTest, WritesCommands) {
  const auto codec = make_codec(memcached, workload_, false);
  std::string out;
  codec->get(std::vector<uint64_t>{1, 2}, out);
  codec->set(1, 10, out);
  codec->erase(1, out);
  EXPECT_EQ(out, "get 0001 0002\r\nset 0001 0 0 10\r\n" + value(1) + "\r\ndelete 0001\r\n");
}

TEST_F(MemcachedCodecTest, TakesWholeReplies) {
  const std::string first = "VALUE 0001 0 10\r\n" + value(1) + "\r\n";
  const std::string third = "VALUE 0003 0 10\r\n" + value(3) + "\r\n";
  expect_whole(memcached, "END\r\n", Command::get);
  expect_whole(memcached, first + "END\r\n", Command::get);
  expect_whole(memcached, first + third + "END\r\n", Command::get, {1, 2, 3});
  expect_whole(memcached, "STORED\r\n", Command::set);
  expect_whole(memcached, "DELETED\r\n", Command::erase);
  const ParsedReply reply = parse(memcached, first + third + "END\r\n", Command::get, {1, 2, 3});
  EXPECT_EQ(reply.hits, 2u);
  EXPECT_EQ(reply.misses, 1u);
  EXPECT_EQ(parse(memcached, "NOT_FOUND\r\n", Command::erase).misses, 1u);
}

TEST_F(MemcachedCodecTest, RefusesWhatDoesNotBelong) {
  for (Command command : {Command::get, Command::set, Command::erase}) {
    expect_failure(memcached, "SERVER_ERROR out of memory storing object\r\n", command);
    expect_failure(memcached, "ERROR\r\n", command);
  }
  const std::string first = "VALUE 0001 0 10\r\n" + value(1) + "\r\n";
  expect_failure(memcached, first + first + "END\r\n", Command::get);
  expect_failure(memcached, first + "END\r\n", Command::get, {2});
  expect_failure(memcached, "VALUE 0001 0 x\r\n", Command::get);
  expect_failure(memcached, "VALUE 0001 0 99999999999\r\n", Command::get);
  expect_failure(memcached, "NOT_STORED\r\n", Command::set);
}

// The floor's answers are what the codecs expect, however the bytes of the commands arrive.
TEST_F(CodecTest, TheFloorAnswersWhatTheCodecsSend) {
  for (WireProtocol protocol : {WireProtocol::redis, WireProtocol::memcached}) {
    const auto codec = make_codec(protocol, workload_, false);
    std::string sent;
    const std::vector<uint64_t> one = {1}, three = {1, 2, 3};
    codec->get(one, sent);
    codec->set(7, 10, sent);
    codec->get(three, sent);
    codec->erase(7, sent);
    std::string answers;
    std::string arrived;
    for (char byte : sent) {
      arrived += byte;
      arrived.erase(0, answer_floor(protocol, arrived, "0123456789", answers));
    }
    EXPECT_TRUE(arrived.empty());
    std::string_view rest = answers;
    const std::vector<Expected> all = {
        {Command::get, one}, {Command::set, one}, {Command::get, three}, {Command::erase, one}};
    for (const Expected& expected : all) {
      const ParsedReply reply = codec->parse(rest, expected);
      ASSERT_EQ(reply.state, State::complete) << reply.error;
      if (expected.command == Command::get) {
        EXPECT_EQ(reply.hits, expected.keys.size());
      }
      rest.remove_prefix(reply.bytes);
    }
    EXPECT_TRUE(rest.empty());
  }
}

}  // namespace
}  // namespace isotherm::bench::codec_test
