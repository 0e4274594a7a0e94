// Chunk: what is known about 64 KiB of items of one size class.
//
// Chunks lie in the arena (items/pages.h) at multiples of 64 KiB; a chunk's number is its offset /
// 64 KiB. What is known about it lies apart, in an array by number, so that items fill the chunk
// and a sweep reads bits, not items. 1,152 bytes each, 1.8% of the chunk; those of the 32 chunks of
// a page fill exactly nine pages of 4 KiB, which go back to the kernel together with it.
//
//     0  class, state, free count, links of the class's lists, next expiry: 64 bytes, then padding
//   128  bits, 768 bytes: for every 64 items three words side by side, since
//        all change when an item is removed
//          live     published, not retired
//          used     read since the hand of the CLOCK last passed
//          proven   not on probation any more (items/clock_hand.h)
//   896  allocated  a bit per item: not free in the chunk (it may be free in a
//        thread's cache)
//
// Invariants. Zero means "in no class". A bit of `live` is set with release after the item is
// written, and read with acquire. A reader reads class, live bits and class again; if the class is
// the same both times, they belong together: a chunk changes its class only when it is empty, and a
// live item that was seen within an epoch stays as long as the epoch.
//
// Threads. Atomics: any. The rest: under the lock of the class, or of the pool while in no class.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "items/location.h"
#include "items/pages.h"
#include "items/size_classes.h"

namespace isotherm {

// Makes `bound` at most `value`.
inline void lower(std::atomic<int64_t>& bound, int64_t value) {
  int64_t seen = bound.load();
  while (value < seen && !bound.compare_exchange_weak(seen, value)) {
  }
}

struct alignas(128) Chunk {
  static constexpr uint64_t bytes = size_classes::chunk_bytes;
  static constexpr int shift = 16;
  static constexpr uint32_t per_page = Pages::page_bytes / bytes;
  static constexpr uint32_t words = bytes / size_classes::smallest / 64;
  static constexpr int64_t never = std::numeric_limits<int64_t>::max();
  static constexpr uint32_t none = ~uint32_t{0};
  static constexpr int no_class = -1;

  std::atomic<uint8_t> class_plus_one{0};
  std::atomic<bool> draining{false};  // being emptied: hands out nothing
  uint8_t band = 0;                   // which list of the class it is in
  uint32_t free_count = 0;            // zero bits of `allocated`
  uint32_t previous = 0;              // neighbours in that list, by number
  uint32_t next = 0;
  std::atomic<int64_t> next_expiry{0};  // no live item expires before it

  struct Bits {
    std::atomic<uint64_t> live{0};
    std::atomic<uint64_t> used{0};
    std::atomic<uint64_t> proven{0};
  };
  alignas(128) Bits bits[words];
  uint64_t allocated[words] = {};

  int size_class() const { return int{class_plus_one.load(std::memory_order_acquire)} - 1; }
  // Words of the bit maps that the class uses.
  static uint32_t words_of(uint32_t size_class) {
    return (size_classes::capacity_of(size_class) + 63) / 64;
  }
  // An empty chunk joins a class.
  void join(uint32_t size_class) {
    for (uint32_t i = 0; i < words_of(size_class); ++i) {
      bits[i].used.store(0, std::memory_order_relaxed);
      allocated[i] = 0;
    }
    free_count = size_classes::capacity_of(size_class);
    next_expiry.store(never, std::memory_order_relaxed);
    draining.store(false, std::memory_order_relaxed);
    class_plus_one.store(static_cast<uint8_t>(size_class + 1), std::memory_order_release);
  }
  void leave() { class_plus_one.store(0, std::memory_order_release); }

  static uint32_t number(Location location) {
    return static_cast<uint32_t>(location::place(location) >> shift);
  }
  // The item's number in its chunk.
  static uint32_t item_number(Location location) {
    return size_classes::number_of(location::size_class(location),
                                   location::place(location) & (bytes - 1));
  }
  static Location location(uint32_t number, uint32_t size_class, uint32_t item) {
    return location::make(location::Kind::item, size_class,
                          (uint64_t{number} << shift) + item * size_classes::bytes_of(size_class));
  }
};
static_assert(sizeof(Chunk) == 1152);

}  // namespace isotherm
