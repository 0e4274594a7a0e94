#include "net/resp/writer.h"

#include <gtest/gtest.h>

#include <limits>
#include <span>
#include <string>
#include <vector>

namespace isotherm::net::resp_writer_test {
namespace {

template <typename Write>
std::string written(int version, Write write) {
  Output output;
  RespWriter writer(output, version);
  write(writer);
  return output.text();
}

TEST(RespWriterTest, WritesWhatBothVersionsShare) {
  for (const int version : {2, 3}) {
    EXPECT_EQ(written(version, [](RespWriter& w) { w.ok(); }), "+OK\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.bulk("abc"); }), "$3\r\nabc\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.bulk(""); }), "$0\r\n\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.bulk_integer(-12); }), "$3\r\n-12\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.integer(0); }), ":0\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.integer(1); }), ":1\r\n");
    EXPECT_EQ(
        written(version, [](RespWriter& w) { w.integer(std::numeric_limits<int64_t>::min()); }),
        ":-9223372036854775808\r\n");
    EXPECT_EQ(written(version, [](RespWriter& w) { w.array(12); }), "*12\r\n");
  }
}

// Over several chunks of the output, wherever these end.
TEST(RespWriterTest, WritesManyValuesAsItWritesEach) {
  const std::string bytes(70'000, 'v');
  std::vector<Reply> replies(4000);
  size_t next = 0;
  for (Reply& reply : replies) {
    constexpr size_t sizes[] = {32, 0, 64, 65, 256, 257, 32, 300, 32, 1};
    const size_t i = next++;
    if (i % 7 == 3) continue;
    reply.data = bytes.data();
    reply.size = i % 1000 == 999 ? bytes.size() : sizes[i * i % 10];
  }
  for (const int version : {2, 3}) {
    const std::string each = written(version, [&](RespWriter& w) {
      for (const Reply& reply : replies) reply.data == nullptr ? w.null() : w.bulk(reply.value());
    });
    for (size_t first = 0; first < 3; ++first) {
      const std::span<const Reply> all = replies;
      EXPECT_TRUE(each == written(version, [&](RespWriter& w) {
                    w.bulks(all.first(first));
                    w.bulks(all.subspan(first));
                  }));
    }
    EXPECT_TRUE(each == written(version, [&](RespWriter& w) {
                  for (const Reply& reply : replies) {
                    reply.data == nullptr ? w.null() : w.bulk(reply);
                  }
                }));
    EXPECT_EQ(written(version, [&](RespWriter& w) { w.bulks({}); }), "");
  }
}

TEST(RespWriterTest, WritesBulksOfEveryLength) {
  std::string value;
  std::string expected;
  Output output;
  RespWriter writer(output, 2);
  for (size_t bytes = 0; bytes <= 600; ++bytes) {
    writer.bulk(value);
    expected += "$" + std::to_string(bytes) + "\r\n" + value + "\r\n";
    value += static_cast<char>('a' + bytes % 26);
  }
  EXPECT_EQ(output.text(), expected);
}

TEST(RespWriterTest, WritesRichTypesInTheirVersion) {
  EXPECT_EQ(written(2, [](RespWriter& w) { w.null(); }), "$-1\r\n");
  EXPECT_EQ(written(3, [](RespWriter& w) { w.null(); }), "_\r\n");
  EXPECT_EQ(written(2, [](RespWriter& w) { w.null_array(); }), "*-1\r\n");
  EXPECT_EQ(written(3, [](RespWriter& w) { w.null_array(); }), "_\r\n");
  EXPECT_EQ(written(2, [](RespWriter& w) { w.map(7); }), "*14\r\n");
  EXPECT_EQ(written(3, [](RespWriter& w) { w.map(7); }), "%7\r\n");
  EXPECT_EQ(written(2, [](RespWriter& w) { w.set(2); }), "*2\r\n");
  EXPECT_EQ(written(3, [](RespWriter& w) { w.set(2); }), "~2\r\n");
  EXPECT_EQ(written(2, [](RespWriter& w) { w.verbatim("txt", "ab"); }), "$2\r\nab\r\n");
  EXPECT_EQ(written(3, [](RespWriter& w) { w.verbatim("txt", "ab"); }), "=6\r\ntxt:ab\r\n");
  EXPECT_EQ(written(2, [](RespWriter& w) { w.real(1.5); }), "$3\r\n1.5\r\n");
  EXPECT_EQ(written(3, [](RespWriter& w) { w.real(-0.25); }), ",-0.25\r\n");
}

TEST(RespWriterTest, KeepsErrorsOnOneLine) {
  EXPECT_EQ(written(2, [](RespWriter& w) { w.error("ERR a\r\nb\n"); }), "-ERR a  b\r\n");
}

TEST(RespWriterTest, WritesValuesLongerThanAChunk) {
  const std::string value(3 * Output::chunk_bytes + 7, 'v');
  EXPECT_EQ(written(2, [&](RespWriter& w) { w.bulk(value); }),
            "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n");
}

}  // namespace
}  // namespace isotherm::net::resp_writer_test
