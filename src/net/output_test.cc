#include "net/output.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace isotherm::net::output_test {
namespace {

TEST(OutputTest, KeepsBytesInOrderAcrossChunksAndPartialWrites) {
  BufferPool pool;
  Output output(&pool);
  std::string expected;
  for (int i = 0; i < 5000; ++i) {
    const std::string piece(static_cast<size_t>(i % 97), static_cast<char>('a' + i % 26));
    output.append(piece);
    output.append_integer(-i);
    output.append(';');
    expected += piece + std::to_string(-i) + ';';
  }
  const std::string large(100'000, 'L');
  output.append(large);
  expected += large;
  ASSERT_EQ(output.size(), expected.size());
  EXPECT_EQ(output.text(), expected);

  std::string written;
  size_t step = 1;
  while (!output.empty()) {
    iovec pieces[3];
    const size_t count = output.iovecs(pieces);
    ASSERT_GT(count, 0u);
    size_t left = step;
    size_t taken = 0;
    for (size_t i = 0; i < count && left > 0; ++i) {
      const size_t bytes = std::min(left, pieces[i].iov_len);
      written.append(static_cast<char*>(pieces[i].iov_base), bytes);
      taken += bytes;
      left -= bytes;
    }
    output.consume(taken);
    step = step * 3 % 40'961 + 1;
  }
  EXPECT_EQ(written, expected);
  EXPECT_EQ(output.memory(), 0u);
}

TEST(OutputTest, AppendsBetweenPartialWrites) {
  Output output;
  output.append("hello ");
  output.consume(3);
  output.append("world");
  EXPECT_EQ(output.text(), "lo world");
  output.consume(8);
  EXPECT_TRUE(output.empty());
  output.append("again");
  EXPECT_EQ(output.text(), "again");
}

TEST(OutputTest, WritesTheExtremesOfIntegers) {
  Output output;
  output.append_integer(std::numeric_limits<int64_t>::min());
  output.append(' ');
  output.append_unsigned(std::numeric_limits<uint64_t>::max());
  output.append(std::string_view());
  EXPECT_EQ(output.text(), "-9223372036854775808 18446744073709551615");
}

TEST(OutputTest, GivesChunksBackToThePool) {
  BufferPool pool;
  {
    Output output(&pool);
    output.append(std::string(1 << 20, 'x'));
    EXPECT_GE(pool.memory(), size_t{1} << 20);
    output.consume(1 << 20);
    EXPECT_LE(pool.memory(), 2 * BufferPool::chunk_bytes);
    output.append("left behind");
  }
  EXPECT_LE(pool.memory(), 2 * BufferPool::chunk_bytes);
}

}  // namespace
}  // namespace isotherm::net::output_test
