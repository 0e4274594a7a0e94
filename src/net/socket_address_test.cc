#include "net/socket_address.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace isotherm::net {
namespace socket_address_test {

TEST(SocketAddress, IsWrittenAsItIsRead) {
  EXPECT_EQ(SocketAddress::parse("127.0.0.1", 6379)->text(), "127.0.0.1:6379");
  EXPECT_EQ(SocketAddress::parse("::1", 65535)->text(), "[::1]:65535");
  EXPECT_EQ(SocketAddress::parse("0:0:0:0:0:0:0:0", 0)->text(), "[::]:0");
  EXPECT_EQ(SocketAddress::parse("fe80::1%lo", 1)->text(), "[fe80::1%lo]:1");
  EXPECT_EQ(SocketAddress::parse("fe80::1%1", 1)->text(), "[fe80::1%lo]:1");
  EXPECT_EQ(SocketAddress().text(), "0.0.0.0:0");
}

TEST(SocketAddress, NamesAndPartsOfAddressesAreNone) {
  for (const char* text : {"", "localhost", "127.1", "127.0.0.256", "127.0.0.1 ", ":::", "[::1]",
                           "fe80::1%", "fe80::1%nowhere", "::1%0"}) {
    EXPECT_FALSE(SocketAddress::parse(text, 1)) << text;
  }
}

TEST(BindAddress, IsWrittenAsInRedisConf) {
  EXPECT_EQ(BindAddress::parse("*", 1)->address.text(), "0.0.0.0:1");
  EXPECT_EQ(BindAddress::parse("-::*", 1)->address.text(), "[::]:1");
  EXPECT_FALSE(BindAddress::parse("::1", 1)->optional);
  EXPECT_TRUE(BindAddress::parse("-::1", 1)->optional);
  for (const char* text : {"-", "--::1", "*:", "-nowhere"}) {
    EXPECT_FALSE(BindAddress::parse(text, 1)) << text;
  }
}

TEST(SocketAddress, TheEndsOfASocket) {
  for (const char* text : {"127.0.0.1", "::1"}) {
    const SocketAddress wanted = *SocketAddress::parse(text, 0);
    const int listening = ::socket(wanted.family(), SOCK_STREAM, 0);
    if (listening < 0 || ::bind(listening, wanted.data(), wanted.size()) != 0) {
      ::close(listening);
      GTEST_SKIP() << text << ": not on this machine";
    }
    ASSERT_EQ(::listen(listening, 1), 0);
    const SocketAddress bound = SocketAddress::local_of(listening);
    EXPECT_NE(bound.port(), 0);
    EXPECT_EQ(bound.is_v6(), wanted.is_v6());
    const int client = ::socket(wanted.family(), SOCK_STREAM, 0);
    ASSERT_EQ(::connect(client, bound.data(), bound.size()), 0);
    EXPECT_EQ(SocketAddress::peer_of(client).text(), bound.text());
    ::close(client);
    ::close(listening);
  }
  EXPECT_EQ(SocketAddress::peer_of(-1).text(), "0.0.0.0:0");
}

}  // namespace socket_address_test
}  // namespace isotherm::net
