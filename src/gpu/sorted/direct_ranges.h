// DirectRanges: ranges of keys of one thread, whose pairs it reads where the device has put them:
// columns in pinned memory, and calls that answer them; see gpu/sorted/range_kernel.h.
//
// Whoever asks writes for each range its first key and the key behind its last, behind one another,
// where each of them ends, and how many pairs it wants; calls `start`, and reads heads and pairs
// when `wait` returns. They stay as they are until the next `start`.
//
// A range's pairs lie behind one another, in the order of keys, each with its PairHead, its key and
// its value, filled up to a multiple of 8 bytes by zeros. Where they begin has no order among
// ranges, but is a multiple of RangeShape::unit, so that ranges share no sectors of the bus.
//
// Errors. DeviceError when the device fails. Threads. One at a time, each on columns of its own.
#pragma once

#include <cstdint>

namespace isotherm {

// What one range was answered.
struct RangeHead {
  enum class End : uint32_t {
    all,    // these are all pairs of the range
    limit,  // as many as were wanted; there may be more
    bytes,  // the next one would make them longer than RangeShape::most_bytes; there are more
    flags,  // the next one has flags, which are not shown
    room,   // no room in the replies of this call: it is to be asked again
  };
  uint64_t at = 0;  // bytes from the beginning of the replies
  uint32_t pairs = 0;
  End end = End::room;
};

struct PairHead {
  uint32_t key_bytes = 0;
  uint32_t value_bytes = 0;
  // With the key and the value.
  uint64_t bytes() const {
    return (sizeof(PairHead) + uint64_t{key_bytes} + value_bytes + 7) & ~7ull;
  }
};

struct RangeShape {
  static constexpr uint32_t unit = 32;

  uint32_t ranges = 0;      // of one call, at most
  uint32_t key_room = 0;    // bytes of their keys together
  uint64_t reply_room = 0;  // bytes of all pairs, each range's filled up to units; a multiple of 8
  uint32_t most_bytes = 0;  // of the pairs of one range
  uint32_t value_skip = 0;  // bytes that each value begins with and that are not shown
};

struct RangeColumns {
  uint32_t* key_ends = nullptr;  // 2 * ranges + 1; the first is 0
  char* keys = nullptr;
  uint32_t* limits = nullptr;  // pairs of each range
  const RangeHead* heads = nullptr;
  const char* replies = nullptr;
};

// What a tier had at one moment, which stays as long as it is held.
class SortedView {
 public:
  virtual ~SortedView() = default;
};

class DirectRanges {
 public:
  virtual ~DirectRanges() = default;
  virtual const RangeShape& shape() const = 0;
  virtual const RangeColumns& columns() const = 0;
  // The view is held until `wait` has returned.
  virtual void start(const SortedView& view, uint32_t ranges) = 0;
  virtual void wait() = 0;
  virtual uint64_t pinned_bytes() const = 0;
};

}  // namespace isotherm
