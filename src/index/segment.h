// Segment: 2^12 lines that share a prefix of the hash, with what writers need beside them.
//
// Lines and data lie apart, so that lines fill whole pages: the lines in 512 KiB of a huge page,
// the data (a lock byte per line, counts, where the lines move to) in ordinary memory.
//
// Writers hold the lock of the home line for their whole walk of the chain. The lock spins briefly
// and then yields, since the holder may have lost its processor.
//
// Versions. `clock` numbers the writes to the segment's keys; it is read and raised under a line's
// lock, so versions of one key grow in the order of its writes, also across deletes. A split or a
// join hands each line's clock on before the line may be written in its new segment.
//
// split_threshold says when a segment splits, join_threshold when two are joined.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/macros.h"
#include "index/bucket.h"

namespace isotherm {

inline constexpr int segment_line_bits = 12;
inline constexpr uint32_t segment_lines = 1u << segment_line_bits;
inline constexpr uint64_t segment_bytes = uint64_t{segment_lines} * sizeof(Bucket);

// Entries at which a segment of `depth` with `prefix` splits.
//
// Hashes are uniform, so segments of one depth would all fill up, and split, at the same time:
// memory per entry would swing by a factor of two. The first six bits of the prefix therefore
// give each segment one of 64 phases: thresholds are spread, evenly in their logarithm, over a
// factor of two, so at any count about as many segments are freshly split as about to, and bytes
// per entry stay within 10% of their mean.
//
// Segments of depth 24 (there are that many at 400 billion entries) never split: should hashes
// not be uniform, because an adversary knows the seed, chains grow long, but the directory does
// not.
uint32_t split_threshold(uint64_t prefix, int depth);

// Entries below which a segment looks whether it can be joined with its sibling, the segment whose
// prefix differs in the last bit: a fifth of what their parent splits at. Two that are joined have
// less than twice that, so a segment that was joined has to grow 2.5-fold before it splits again.
// 0 for the first segment, which has no sibling.
uint32_t join_threshold(uint64_t prefix, int depth);

struct Segment {
  Segment(Bucket* first_line, uint64_t its_prefix, int its_depth, uint64_t first_version)
      : lines(first_line),
        prefix(its_prefix),
        depth(its_depth),
        split_at(split_threshold(its_prefix, its_depth)),
        clock(first_version) {}

  Bucket* const lines;
  const uint64_t prefix;  // the top `depth` bits of its hashes, right-aligned
  const int depth;
  const uint32_t split_at;
  std::atomic<int64_t> count{0};  // entries, overflow lines included
  std::atomic<uint64_t> clock;
  std::atomic<bool> split_wanted{false};  // queued for a split, or being joined
  std::atomic<uint32_t> join_below{0};    // entries below which to ask for a join; 0: do not ask
  // By the hash bit behind the prefix, set before the first line moves: the children of a split,
  // or twice the parent of a join.
  std::atomic<Segment*> next[2] = {};
  std::atomic<uint8_t> lock[segment_lines] = {};

  // Where a MOVED line of this segment has gone.
  ISOTHERM_INLINE Segment* next_of(uint64_t hash) const {
    return next[(hash << depth) >> 63].load(std::memory_order_acquire);
  }
  ISOTHERM_INLINE uint64_t next_version() {
    return clock.fetch_add(1, std::memory_order_relaxed) + 1;
  }
};

// Waits for a line's lock that somebody else holds, and takes it.
void wait_for_line(std::atomic<uint8_t>& lock);

// Holds the lock of one line.
class LineLock {
 public:
  ISOTHERM_INLINE explicit LineLock(std::atomic<uint8_t>& lock) : lock_(lock) {
    if (ISOTHERM_UNLIKELY(lock_.exchange(1, std::memory_order_acquire) != 0)) wait_for_line(lock_);
  }
  ISOTHERM_INLINE ~LineLock() { lock_.store(0, std::memory_order_release); }
  LineLock(const LineLock&) = delete;
  LineLock& operator=(const LineLock&) = delete;

 private:
  std::atomic<uint8_t>& lock_;
};

}  // namespace isotherm
