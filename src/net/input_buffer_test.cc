#include "net/input_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace isotherm::net {
namespace {

void fill(InputBuffer& buffer, size_t bytes) {
  while (bytes > 0) {
    buffer.make_room(0);
    const auto room = buffer.room();
    ASSERT_GT(room.size(), 0u);
    const size_t now = std::min(bytes, room.size());
    for (size_t i = 0; i < now; ++i) room[i] = static_cast<char>('a' + (bytes - i) % 23);
    buffer.commit(now);
    bytes -= now;
  }
}

TEST(InputBufferTest, StartsWithOneChunkAndKeepsIt) {
  BufferPool pool;
  InputBuffer buffer(pool);
  for (int i = 0; i < 1000; ++i) {
    fill(buffer, 1000);
    buffer.consume(1000);
  }
  buffer.make_room(0);
  EXPECT_EQ(pool.memory(), BufferPool::chunk_bytes);
}

TEST(InputBufferTest, KeepsUnreadBytesWhenItMoves) {
  BufferPool pool;
  InputBuffer buffer(pool);
  fill(buffer, 16'000);
  const std::string tail(buffer.unread().substr(15'000));
  buffer.consume(15'000);
  buffer.make_room(12'000);
  EXPECT_EQ(buffer.unread(), tail);
  EXPECT_GE(buffer.room().size(), 11'000u);
  EXPECT_LE(pool.memory(), 2 * BufferPool::chunk_bytes);
  buffer.make_room(200'000);
  EXPECT_EQ(buffer.unread(), tail);
  EXPECT_GE(buffer.room().size(), 199'000u);
}

TEST(InputBufferTest, DoesNotBelieveHugeLengths) {
  BufferPool pool;
  InputBuffer buffer(pool);
  fill(buffer, 100);
  buffer.make_room(500 << 20);
  EXPECT_LE(pool.memory(), InputBuffer::trusted_bytes + BufferPool::chunk_bytes);
  fill(buffer, 250'000);
  buffer.make_room(500 << 20);
  EXPECT_GE(buffer.room().size() + buffer.unread().size(), 1'000'000u);
  EXPECT_LE(pool.memory(), size_t{2} << 20);
}

TEST(InputBufferTest, ShrinksWhenEmpty) {
  BufferPool pool;
  InputBuffer buffer(pool);
  fill(buffer, 3 << 20);
  EXPECT_GE(pool.memory(), size_t{3} << 20);
  buffer.consume(3 << 20);
  buffer.make_room(0);
  EXPECT_LE(pool.memory(), 4 * BufferPool::chunk_bytes);
}

}  // namespace
}  // namespace isotherm::net
