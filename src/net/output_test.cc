#include "net/output.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "base/clock.h"
#include "engine/engine.h"

namespace isotherm::net::output_test {
namespace {

TEST(OutputTest, KeepsBytesInOrderAcrossChunksAndPartialWrites) {
  BufferPool pool;
  Output output(&pool);
  std::string expected;
  for (int i = 0; i < 5000; ++i) {
    const std::string piece(static_cast<size_t>(i % 97), static_cast<char>('a' + i % 26));
    output.append(piece);
    output.append_unsigned(static_cast<uint64_t>(i));
    output.append(';');
    expected += piece + std::to_string(i) + ';';
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

// Values that are kept in their places, between bytes that are copied, whatever piece is written.
TEST(OutputTest, RefersToLargeValues) {
  const ManualClock clock(1);
  Engine engine({}, clock);
  Worker worker(engine);
  const std::string large(70'000, 'L');
  Batch batch;
  batch.put("large", large);
  batch.put("small", "s");
  worker.submit(batch);
  batch.clear();
  BufferPool pool;
  std::string expected;
  {
    Output output(&pool, &engine);
    batch.get("large");
    batch.get("small");
    worker.submit(batch);
    for (int i = 0; i < 5; ++i) {
      output.append_value(batch.reply(0));
      output.append_value(batch.reply(1));
      expected += large + "s";
    }
    batch.clear();
    batch.erase("large");
    worker.submit(batch);
    batch.clear();
    for (int i = 0; i < 100; ++i) worker.maintain();
    EXPECT_EQ(output.size(), expected.size());
    EXPECT_EQ(output.text(), expected);
    EXPECT_EQ(pool.memory(), BufferPool::chunk_bytes);
    EXPECT_GE(output.memory(), 5 * large.size());
    EXPECT_GT(engine.client_bytes(), large.size());
    std::string written;
    while (written.size() < 4 * large.size() + large.size() / 2) {
      iovec piece[1];
      ASSERT_EQ(output.iovecs(piece), 1u);
      const size_t bytes = std::min<size_t>(piece[0].iov_len, 33'333);
      written.append(static_cast<char*>(piece[0].iov_base), bytes);
      output.consume(bytes);
    }
    EXPECT_EQ(written, expected.substr(0, written.size()));
    // A value is held whole until its last byte is written.
    EXPECT_GE(output.memory(), large.size());
    EXPECT_GT(engine.client_bytes(), large.size());
  }
  EXPECT_EQ(engine.client_bytes(), 0u);
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

TEST(OutputTest, WritesTheLargestNumber) {
  Output output;
  output.append_unsigned(std::numeric_limits<uint64_t>::max());
  output.append(std::string_view());
  EXPECT_EQ(output.text(), "18446744073709551615");
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

TEST(OutputTest, OneThatDropsHoldsAChunkAtMost) {
  BufferPool pool;
  Output output(&pool, nullptr, true);
  const std::string large(1 << 20, 'x');
  for (int i = 0; i < 100'000; ++i) output.append("short");
  output.append(large);
  output.append_unsigned(1);
  Reply reply;
  reply.data = large.data();
  reply.size = large.size();
  output.append_value(reply);
  EXPECT_LE(output.memory(), BufferPool::chunk_bytes);
  EXPECT_LE(pool.memory(), 2 * BufferPool::chunk_bytes);
}

class FixedBound final : public OutputBound {
 public:
  explicit FixedBound(size_t bytes) : most_(bytes) {}
  size_t most(size_t taken) override {
    EXPECT_GE(taken, asked_);
    asked_ = taken;
    return most_;
  }

 private:
  const size_t most_;
  size_t asked_ = 0;
};

// Its size grows on, so that whoever looks at it afterwards sees that it was long.
TEST(OutputTest, OneBeyondItsBoundIsCut) {
  constexpr size_t most = 100'000;
  BufferPool pool;
  Output output(&pool);
  FixedBound bound(most);
  output.bound(bound);
  const std::string value(1000, 'v');
  size_t size = 0;
  for (int i = 0; i < 90; ++i) output.append(value);
  EXPECT_FALSE(output.is_cut());
  EXPECT_EQ(output.text().size(), 90 * value.size());
  for (int i = 0; i < 10'000; ++i) {
    output.append(value);
    EXPECT_GE(output.size(), size);
    size = output.size();
  }
  EXPECT_TRUE(output.is_cut());
  EXPECT_GE(size, most);
  EXPECT_LE(output.memory(), BufferPool::chunk_bytes);
  Output next(&pool);
  next.take_over(output);
  EXPECT_TRUE(next.is_cut());
}

// What the socket takes makes room for more.
TEST(OutputTest, OneThatIsReadIsNotCut) {
  Output output;
  FixedBound bound(100'000);
  output.bound(bound);
  for (int i = 0; i < 10'000; ++i) {
    output.append(std::string(1000, 'v'));
    if (output.size() > 50'000) output.consume(40'000);
  }
  EXPECT_FALSE(output.is_cut());
}

}  // namespace
}  // namespace isotherm::net::output_test
