// Size classes: the sizes that items in chunks come in.
//
// A chunk of 64 KiB holds items of one class. Classes are 16 bytes apart up to 256, then eight per
// doubling, up to 32 KiB. A size that wastes a chunk's tail is raised as far as the same number of
// items still fits. So up to 4 KiB the steps are 6 to 14%, and above it the number of items in a
// chunk (16, 14, 12, 11, 10, …) sets the sizes. Everything larger is a large item
// (items/large_items.h). docs/layout.md lists them all.
//
// An item's number within its chunk is offset / size, computed as offset × inverse >> 32 with
// inverse = ⌈2^32 / size⌉: the error, offset × (inverse - 2^32 / size) < 2^16 × 1, stays below one
// unit of 2^32 / size for every size up to 32 KiB, so the quotient is exact.
#pragma once

#include <array>
#include <cstdint>

namespace isotherm::size_classes {

inline constexpr uint64_t chunk_bytes = 64 << 10;
inline constexpr uint64_t smallest = 32;
inline constexpr uint64_t largest = 32 << 10;
inline constexpr uint64_t grain = 16;
inline constexpr uint32_t max_count = 128;

namespace internal {

struct Table {
  uint32_t count = 0;
  std::array<uint32_t, max_count> bytes{};
  std::array<uint32_t, max_count> capacity{};
  std::array<uint64_t, max_count> inverse{};
  std::array<uint8_t, largest / grain + 1> by_grains{};
};

constexpr uint64_t next_size(uint64_t size) {
  uint64_t doubling = 256;
  while (doubling * 2 <= size) doubling *= 2;
  return size + (size < 256 ? grain : doubling / 8);
}

constexpr Table make_table() {
  Table table;
  for (uint64_t size = smallest; size <= largest; size = next_size(size)) {
    const uint64_t capacity = chunk_bytes / size;
    const uint64_t raised = size < 256 ? size : chunk_bytes / capacity / grain * grain;
    if (table.count > 0 && table.bytes[table.count - 1] == raised) continue;
    table.bytes[table.count] = static_cast<uint32_t>(raised);
    table.capacity[table.count] = static_cast<uint32_t>(capacity);
    table.inverse[table.count] = ((uint64_t{1} << 32) + raised - 1) / raised;
    ++table.count;
  }
  uint32_t at = 0;
  for (uint64_t grains = 0; grains <= largest / grain; ++grains) {
    while (table.bytes[at] < grains * grain) ++at;
    table.by_grains[grains] = static_cast<uint8_t>(at);
  }
  return table;
}

inline constexpr Table table = make_table();

}  // namespace internal

inline constexpr uint32_t count = internal::table.count;
static_assert(count <= max_count);
static_assert(internal::table.bytes[count - 1] == largest);

// The smallest class that holds `bytes`, which is at most `largest`.
constexpr uint32_t class_of(uint64_t bytes) {
  return internal::table.by_grains[(bytes + grain - 1) / grain];
}
constexpr uint64_t bytes_of(uint32_t size_class) { return internal::table.bytes[size_class]; }
// Items in a chunk.
constexpr uint32_t capacity_of(uint32_t size_class) { return internal::table.capacity[size_class]; }
// The number of the item at `offset`, the start of an item, from the chunk's start.
constexpr uint32_t number_of(uint32_t size_class, uint64_t offset) {
  return static_cast<uint32_t>(offset * internal::table.inverse[size_class] >> 32);
}

}  // namespace isotherm::size_classes
