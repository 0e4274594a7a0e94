#include "net/input_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace isotherm::net::input_buffer_test {
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

TEST(InputBufferTest, TakesOneChunkAndGivesItBack) {
  BufferPool pool;
  InputBuffer buffer(pool);
  for (int i = 0; i < 1000; ++i) {
    fill(buffer, 1000);
    buffer.consume(1000);
    EXPECT_EQ(buffer.memory(), BufferPool::chunk_bytes);
    buffer.shrink();
    EXPECT_EQ(buffer.memory(), 0u);
  }
  EXPECT_EQ(pool.memory(), BufferPool::chunk_bytes);
}

TEST(InputBufferTest, AFastClientGetsMoreRoomAtOnce) {
  BufferPool pool;
  InputBuffer buffer(pool);
  EXPECT_EQ(buffer.growth(0, true), InputBuffer::fast_bytes);
  buffer.make_room(0, true);
  EXPECT_EQ(buffer.room().size(), InputBuffer::fast_bytes);
  buffer.release();
  // The first chunk is full, and most of it was answered.
  fill(buffer, BufferPool::chunk_bytes);
  buffer.consume(10'000);
  const std::string rest(buffer.unread());
  EXPECT_EQ(buffer.growth(10'000), 0u);
  EXPECT_EQ(buffer.growth(10'000, true), InputBuffer::fast_bytes - BufferPool::chunk_bytes);
  buffer.make_room(10'000, true);
  EXPECT_EQ(buffer.unread(), rest);
  EXPECT_EQ(buffer.memory(), InputBuffer::fast_bytes);
  // It is filled before anything is moved again.
  fill(buffer, InputBuffer::fast_bytes - rest.size());
  EXPECT_EQ(buffer.memory(), InputBuffer::fast_bytes);
  buffer.consume(InputBuffer::fast_bytes);
  buffer.shrink();
  EXPECT_EQ(buffer.memory(), 0u);
}

TEST(InputBufferTest, HoldsLittleOfAClientThatFallsSilent) {
  BufferPool pool;
  InputBuffer buffer(pool);
  fill(buffer, 3000);
  buffer.consume(2500);
  const std::string rest(buffer.unread());
  buffer.pack();
  EXPECT_EQ(buffer.memory(), InputBuffer::small_bytes);
  EXPECT_EQ(buffer.unread(), rest);
  fill(buffer, 700);
  EXPECT_EQ(buffer.unread().substr(0, rest.size()), rest);
  buffer.consume(100);
  buffer.take_back(100);
  EXPECT_EQ(buffer.unread().substr(0, rest.size()), rest);
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
  // What is announced gets room as it arrives.
  EXPECT_GE(buffer.room().size(), 15'000u);
}

// A client announces much and sends it in small pieces.
TEST(InputBufferTest, DoesNotBelieveHugeLengthsAndCopiesLittle) {
  constexpr size_t announced = 500 << 20;
  constexpr size_t sent = 64 << 20;
  constexpr size_t piece = 14'000;
  BufferPool pool;
  InputBuffer buffer(pool);
  size_t copied = 0;
  while (buffer.unread().size() < sent) {
    const size_t held = buffer.unread().size();
    const char* before = buffer.unread().data();
    buffer.make_room(announced);
    if (buffer.unread().data() != before) copied += held;
    ASSERT_LE(pool.memory(),
              std::max(InputBuffer::trusted_bytes, 6 * held) + 2 * BufferPool::chunk_bytes);
    ASSERT_GE(buffer.room().size(), 4096u);
    buffer.commit(std::min(piece, buffer.room().size()));
  }
  EXPECT_LT(copied, sent / 2 * 3);
}

TEST(InputBufferTest, ShrinksWhenEmpty) {
  BufferPool pool;
  InputBuffer buffer(pool);
  fill(buffer, 3 << 20);
  EXPECT_GE(pool.memory(), size_t{3} << 20);
  buffer.consume(3 << 20);
  buffer.shrink();
  EXPECT_LE(pool.memory(), 4 * BufferPool::chunk_bytes);
}

}  // namespace
}  // namespace isotherm::net::input_buffer_test
