// IndexView: how a reader gets from a hash to its home line; trivially copyable, for CPU and GPU.
//
// The directory has 2^bits entries of 16 bytes, indexed by the top bits of the hash:
//   first   address of the segment's first line, and in its low 7 bits the segment's depth
//   second  address of the segment's own data (index/segment.h); readers do not need it
// A segment of depth d holds the hashes that share its d-bit prefix, in 2^line_bits lines; the
// line's number is the next line_bits bits of the hash. So lines lie in hash order, and a split
// feeds two neighbouring lines of one child from one old line.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "index/bucket.h"

namespace isotherm {

struct DirectoryEntry {
  static constexpr uint64_t depth_mask = 127;

  ISOTHERM_HOST_DEVICE static Pair make(Bucket* lines, int depth, const void* segment) {
    return {reinterpret_cast<uint64_t>(lines) | static_cast<uint64_t>(depth),
            reinterpret_cast<uint64_t>(segment)};
  }
  ISOTHERM_HOST_DEVICE static Bucket* lines(Pair entry) {
    return reinterpret_cast<Bucket*>(entry.first & ~depth_mask);
  }
  ISOTHERM_HOST_DEVICE static int depth(Pair entry) {
    return static_cast<int>(entry.first & depth_mask);
  }
};

// The number of the line within a segment of depth `depth`.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t line_number(uint64_t hash, int depth, int line_bits) {
  return (hash << depth) >> (64 - line_bits);
}

struct IndexView {
  const Pair* entries = nullptr;
  int bits = 0;       // of the directory
  int line_bits = 0;  // of a segment

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Pair entry(uint64_t hash) const {
    // Shifted in two steps, since bits may be 0.
    return load_steady_pair(&entries[(hash >> 1) >> (63 - bits)]);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Bucket* home(uint64_t hash) const {
    const Pair at = entry(hash);
    return DirectoryEntry::lines(at) + line_number(hash, DirectoryEntry::depth(at), line_bits);
  }
};

}  // namespace isotherm
