#include "net/udp/reply_cursor.h"

#include <gtest/gtest.h>

#include <tuple>

namespace isotherm::net::reply_cursor_test {
namespace {

using Datagram = std::tuple<uint16_t, uint16_t, size_t>;  // number, count, bytes

std::vector<Datagram> datagrams(const std::vector<size_t>& ends) {
  std::vector<Datagram> all;
  for (ReplyCursor cursor(ends, 7); !cursor.at_end(); cursor.advance()) {
    EXPECT_EQ(cursor.frame().id, 7u);
    all.emplace_back(cursor.frame().number, cursor.frame().count, cursor.bytes());
  }
  return all;
}

TEST(ReplyCursor, EachReplyIsNumberedAnew) {
  constexpr size_t full = UdpFrame::payload_bytes;
  EXPECT_EQ(datagrams({}), std::vector<Datagram>{});
  EXPECT_EQ(datagrams({5}), (std::vector<Datagram>{{0, 1, 5}}));
  EXPECT_EQ(datagrams({5, 5 + full, 7 + 3 * full, 8 + 3 * full}),
            (std::vector<Datagram>{
                {0, 1, 5}, {0, 1, full}, {0, 3, full}, {1, 3, full}, {2, 3, 2}, {0, 1, 1}}));
}

}  // namespace
}  // namespace isotherm::net::reply_cursor_test
