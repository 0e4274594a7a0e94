#include "durability/record_buffer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

namespace isotherm {

std::unique_ptr<char[]> take_memory(uint64_t bytes) {
  for (;;) {
    if (char* const memory = new (std::nothrow) char[bytes]) {
      return std::unique_ptr<char[]>(memory);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

RecordBuffer::RecordBuffer(uint64_t first_lsn) : end_(first_lsn), released_(first_lsn) {
  spare_.reserve(most_spare);
  for (size_t i = 0; i < least_spare; ++i) spare_.push_back(make_chunk(chunk_bytes));
}

RecordBuffer::Chunk RecordBuffer::make_chunk(uint64_t bytes) {
  Chunk chunk;
  chunk.memory = take_memory(bytes);
  chunk.capacity = bytes;
  memory_.fetch_add(bytes, std::memory_order_relaxed);
  return chunk;
}

void RecordBuffer::begin_chunk(uint64_t least_bytes) {
  if (spare_.empty() || least_bytes > chunk_bytes) {
    chunks_.push_back(make_chunk(std::max(least_bytes, chunk_bytes)));
  } else {
    chunks_.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  chunks_.back().lsn = end();
  chunks_.back().bytes = 0;
}

void RecordBuffer::append(BlockHeader header, const char* body, uint64_t store) {
  const uint64_t bytes = sizeof header + header.bytes;
  if (chunks_.empty() || bytes > chunks_.back().capacity - chunks_.back().bytes) begin_chunk(bytes);
  Chunk& chunk = chunks_.back();
  header.magic = BlockHeader::right_magic;
  header.lsn = end();
  header.crc = block_crc(header, store);
  char* const to = chunk.memory.get() + chunk.bytes;
  std::memcpy(to, &header, sizeof header);
  std::memcpy(to + sizeof header, body, header.bytes);
  chunk.bytes += bytes;
  end_.store(header.end_lsn(), std::memory_order_release);
}

// Mostly it is in the last.
std::string_view RecordBuffer::piece(uint64_t lsn) const {
  for (auto chunk = chunks_.rbegin(); chunk != chunks_.rend(); ++chunk) {
    if (chunk->lsn > lsn) continue;
    const uint64_t at = lsn - chunk->lsn;
    return {chunk->memory.get() + at, chunk->bytes - at};
  }
  return {};
}

void RecordBuffer::release(uint64_t lsn) {
  while (!chunks_.empty() && chunks_.front().lsn + chunks_.front().bytes <= lsn) {
    // The last is filled on.
    if (chunks_.size() == 1 && chunks_.front().capacity == chunk_bytes) {
      chunks_.front().lsn = end();
      chunks_.front().bytes = 0;
      break;
    }
    give_back(std::move(chunks_.front()));
    chunks_.pop_front();
  }
  released_.store(chunks_.empty() ? end() : chunks_.front().lsn, std::memory_order_relaxed);
}

void RecordBuffer::give_back(Chunk chunk) {
  if (chunk.capacity == chunk_bytes && spare_.size() < most_spare) {
    return spare_.push_back(std::move(chunk));
  }
  memory_.fetch_sub(chunk.capacity, std::memory_order_relaxed);
}

}  // namespace isotherm
