// Bucket: one 128-byte line of the index, 8 slots of {u64 hash, u64 word}, no header.
//
//   byte   0        16       32        …       112      128
//          slot 0   slot 1   slot 2    …       slot 7
//          hash word                            the last slot: an entry, a LINK or MOVED
//
// A slot is
//   empty     hash == 0 (no key has hash 0: see base/hash.h and index/fixed_index.h)
//   an entry  hash is the full hash of a key, word its value or location
//   a mark    only in the last slot: LINK (the bucket overflowed) or MOVED (its segment was split,
//             or joined with its sibling)
//
// How a mark is told from an entry. All entries of a line share the top bit of their hash, because
// the line's number starts with it. A mark carries the opposite top bit, so no hash that belongs
// here can equal it, and any hash and any word may be stored. Its other bits say which mark it is.
//   LINK   word = address of the overflow line
//   MOVED  word = address of the first of two neighbouring lines in another segment, and in its
//          low 7 bits (free, since lines are aligned) the number of the hash bit that picks one.
//          After a split both lines are in use. After a join there is one: the bit is then the top
//          one, which all hashes of the line share, and the address such that it picks this line;
//          so readers need not know the difference.
//
// Invariants. The last slot of a full bucket becomes a LINK when one entry more arrives: its entry
// is first copied into the overflow line. Overflow lines stay in their chain for the life of the
// segment. A line that is MOVED, and its chain, never change again. Entries never change their slot
// while the segment lives, except out of the last slot. A fresh line is all zero. (On the GPU
// chains also close up, while nobody reads or writes them: gpu/table/unlink_kernel.h.)
//
// Threads. Readers take no lock and read a slot as one 16-byte unit (base/pair.h). They look at the
// last slot last: a reader that finds MOVED there starts again where it points, and one that does
// not has read the line before it moved. On the CPU, writers hold the line's lock
// (index/segment.h). On the GPU they claim slots by compare-and-swap.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/pair.h"

namespace isotherm {

// first: hash, second: word.
using Slot = Pair;

struct alignas(128) Bucket {
  static constexpr int slots = 8;
  static constexpr int last = slots - 1;

  Slot slot[slots];
};
static_assert(sizeof(Bucket) == 128);

// The overflow lines of a chain of so many entries; each costs a slot of the line before it, for
// the link.
constexpr uint64_t overflow_lines_for(uint64_t entries) {
  if (entries <= Bucket::slots) return 0;
  return (entries - Bucket::slots + Bucket::last - 1) / Bucket::last;
}

namespace mark {

inline constexpr uint64_t top_bit = uint64_t{1} << 63;
inline constexpr uint64_t bit_mask = 127;
inline constexpr uint64_t link = 1;
inline constexpr uint64_t moved = 2;

// `hash`: any hash that belongs to the line.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_mark(Slot slot, uint64_t hash) {
  return slot.first != 0 && ((slot.first ^ hash) & top_bit) != 0;
}
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_moved(Slot slot, uint64_t hash) {
  return slot.first == ((~hash & top_bit) | moved);
}
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Slot make_link(Bucket* line, uint64_t hash) {
  return {(~hash & top_bit) | link, reinterpret_cast<uint64_t>(line)};
}
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Slot make_moved(Bucket* pair, int bit, uint64_t hash) {
  return {(~hash & top_bit) | moved, reinterpret_cast<uint64_t>(pair) | static_cast<uint64_t>(bit)};
}
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Bucket* link_target(Slot slot) {
  return reinterpret_cast<Bucket*>(slot.second);
}
// Makes a MOVED to one line, for all hashes of the line.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Slot make_joined(Bucket* line, uint64_t hash) {
  const uint64_t picked = hash >> 63;
  return {(~hash & top_bit) | moved, reinterpret_cast<uint64_t>(line) - picked * sizeof(Bucket)};
}
// Whether a MOVED comes from a join: splits never pick by the top bit, since every line number
// begins with it.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_joined(Slot slot) {
  return (slot.second & bit_mask) == 0;
}
// The line that `hash` belongs to now.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Bucket* moved_target(Slot slot, uint64_t hash) {
  auto* pair = reinterpret_cast<Bucket*>(slot.second & ~bit_mask);
  return pair + ((hash >> (63 - (slot.second & bit_mask))) & 1);
}

}  // namespace mark
}  // namespace isotherm
