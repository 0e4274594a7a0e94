// A reader of memcached, whose server is the test.
#include "isotherm_bench/memcached_reader.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

namespace isotherm::bench::memcached_reader_test {
namespace {

class MemcachedReaderTest : public ::testing::Test {
 protected:
  MemcachedReaderTest() : socket_(::socket(AF_INET, SOCK_DGRAM, 0)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
    socklen_t bytes = sizeof own;
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &bytes), 0);
    port_ = ntohs(own.sin_port);
  }
  ~MemcachedReaderTest() override { ::close(socket_); }

  // The next request, with its header.
  std::string request() {
    std::string datagram(2048, '\0');
    socklen_t bytes = sizeof client_;
    const ssize_t came = ::recvfrom(socket_, datagram.data(), datagram.size(), MSG_DONTWAIT,
                                    reinterpret_cast<sockaddr*>(&client_), &bytes);
    datagram.resize(came < 0 ? 0 : static_cast<size_t>(came));
    return datagram;
  }
  void reply(const std::string& request, const std::string& text) {
    const std::string datagram = request.substr(0, 8) + text;
    EXPECT_EQ(::sendto(socket_, datagram.data(), datagram.size(), 0,
                       reinterpret_cast<const sockaddr*>(&client_), sizeof client_),
              static_cast<ssize_t>(datagram.size()));
  }

  int socket_;
  uint16_t port_ = 0;
  sockaddr_in client_{};
  uint64_t key_ = 120;
  ReaderCounts counts_;
};

constexpr const char* value_of_121 = "VALUE key:000000000121 0 4\r\n1210\r\nEND\r\n";
constexpr const char* value_of_122 = "VALUE key:000000000122 0 4\r\n2210\r\nEND\r\n";

TEST_F(MemcachedReaderTest, WhatIsLostIsAskedForAgain) {
  MemcachedReader reader(
      port_, {.window = 2, .burst = 2, .value_bytes = 4}, [this] { return ++key_; }, counts_);
  EXPECT_FALSE(reader.waits_for_replies());
  reader.send(1000);
  const std::string first = request(), second = request();
  EXPECT_EQ(first.substr(8), "get key:000000000121\r\n");
  EXPECT_EQ(second.substr(8), "get key:000000000122\r\n");
  EXPECT_NE(first.substr(0, 2), second.substr(0, 2));
  reply(second, value_of_122);
  reader.receive(2000);
  EXPECT_EQ(counts_.answered, 1u);
  reader.send(2500);
  EXPECT_EQ(request(), "") << "a burst of two";

  reader.send_lost_again(1000, 3000);
  EXPECT_EQ(counts_.lost, 0u);
  reader.send_lost_again(1001, 3000);
  EXPECT_EQ(counts_.lost, 1u);
  EXPECT_EQ(request(), first);
  EXPECT_EQ(request(), "");
  reply(first, value_of_121);
  reply(first, value_of_121);
  reader.receive(4000);
  EXPECT_EQ(counts_.answered, 2u);
  EXPECT_EQ(counts_.late, 1u);
  EXPECT_EQ(counts_.ns.max(), 3000u) << "since it was sent for the first time";
  EXPECT_FALSE(reader.waits_for_replies());

  reply(first, value_of_121);
  EXPECT_THROW(reader.receive(5000), std::runtime_error) << "more replies than requests";
}

TEST_F(MemcachedReaderTest, WrongRepliesEndTheRun) {
  for (const std::string& wrong :
       {std::string("END\r\n"), std::string("VALUE key:000000000121 0 4\r\n2210\r\nEND\r\n"),
        std::string("VALUE key:000000000122 0 4\r\n1210\r\nEND\r\n"),
        value_of_121 + std::string("x")}) {
    key_ = 120;
    MemcachedReader reader(
        port_, {.value_bytes = 4}, [this] { return ++key_; }, counts_);
    reader.send(0);
    reply(request(), wrong);
    EXPECT_THROW(reader.receive(1), std::runtime_error) << wrong;
  }
}

TEST_F(MemcachedReaderTest, EachRequestOfASlotHasAnIdOfItsOwn) {
  MemcachedReader reader(
      port_, {.mg = true, .value_bytes = 4}, [this] { return key_ = 121; }, counts_);
  std::string before;
  for (int i = 0; i < 3; ++i) {
    reader.send(0);
    const std::string asked = request();
    EXPECT_EQ(asked.substr(8), "mg key:000000000121 v\r\n");
    EXPECT_NE(asked, before);
    reply(before = asked, "VA 4\r\n1210\r\n");
    reader.receive(1);
  }
  EXPECT_EQ(counts_.answered, 3u);
}

}  // namespace
}  // namespace isotherm::bench::memcached_reader_test
