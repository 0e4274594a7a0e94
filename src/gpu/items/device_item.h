// DeviceItem: a key with its value in device memory, or in host memory that the device reaches.
//
// Layout, at a 16-byte boundary:
//    0  u32  key bytes
//    4  u32  value bytes
//    8  u64  next: the item of another key with the same hash, or 0
//   16  i64  expiry, ms since the epoch; 0: never
//   24  u64  bits 0–8: list of the block; 9: in the table; 10: read, 11: chosen to be evicted
//            (where items are); 12–63: 0, room for flags and a version
//   32  key, then zeros up to a multiple of 16
//    .  value, from a multiple of 16 on
// The location of an item is its address.
//
// Items whose hashes agree in all 64 bits form a chain by `next`, each key once; the index has the
// first. Nearly every chain has one item.
//
// Threads. An item is written before it gets into the index, and its key and value never change
// after. Bits 9 to 11 belong to blocks as well: a free block has none of them. `next` is changed by
// one lane, in a kernel of its own (gpu/items/item_exact_kernels.h).
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/pair.h"
#include "gpu/items/byte_units.h"
#include "gpu/items/item_classes.h"

namespace isotherm {

struct alignas(16) DeviceItem {
  static constexpr uint64_t list_bits = (1 << 9) - 1;
  static constexpr uint64_t live_bit = 1 << 9;
  static constexpr uint64_t read_bit = 1 << 10;
  static constexpr uint64_t chosen_bit = 1 << 11;

  uint32_t key_bytes;
  uint32_t value_bytes;
  uint64_t next;
  int64_t expiry;
  uint64_t meta;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE const Pair* key() const {
    return reinterpret_cast<const Pair*>(this + 1);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE char* value() {
    return reinterpret_cast<char*>(this + 1) + units_of(key_bytes) * unit_bytes;
  }
  // The list of free blocks that its block belongs to (gpu/items/item_classes.h).
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t list() const {
    return static_cast<uint32_t>(meta & list_bits);
  }
  // Another lane may do the same.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void mark_read() {
    if ((meta & read_bit) == 0) meta |= read_bit;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool expired(int64_t now) const {
    return now != 0 && expiry != 0 && expiry <= now;
  }

  // Bytes an item takes.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint64_t bytes(uint64_t key, uint64_t value) {
    return sizeof(DeviceItem) + (units_of(key) + units_of(value)) * unit_bytes;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static DeviceItem* at(uint64_t location) {
    return reinterpret_cast<DeviceItem*>(location);
  }
};
static_assert(sizeof(DeviceItem) == 32);

// The number of any list fits the header.
static_assert(item_classes::lists <= DeviceItem::list_bits + 1);

// What is read of an item first, as one unit.
struct ItemHead {
  uint32_t key_bytes;
  uint32_t value_bytes;
  uint64_t next;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static ItemHead of(uint64_t location) {
    const Pair unit = load_pair(reinterpret_cast<const Pair*>(location));
    return {static_cast<uint32_t>(unit.first), static_cast<uint32_t>(unit.first >> 32),
            unit.second};
  }
};

// A key of the caller's.
struct KeyView {
  const char* data;
  uint64_t bytes;
  ByteRange readable;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static KeyView of(const BytesView& keys, uint32_t row) {
    return {keys.data(row), keys.size(row), keys.readable()};
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Pair unit(uint64_t number) const {
    const uint64_t left = bytes - number * unit_bytes;
    const auto some = static_cast<uint32_t>(left < unit_bytes ? left : unit_bytes);
    return load_unit(data + number * unit_bytes, some, readable);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_key_of(uint64_t location, ItemHead head) const {
    if (head.key_bytes != bytes) return false;
    const Pair* its = DeviceItem::at(location)->key();
    for (uint64_t i = 0; i < units_of(bytes); ++i) {
      if (!(unit(i) == load_steady_pair(its + i))) return false;
    }
    return true;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool operator==(const KeyView& other) const {
    if (bytes != other.bytes) return false;
    for (uint64_t i = 0; i < units_of(bytes); ++i) {
      if (!(unit(i) == other.unit(i))) return false;
    }
    return true;
  }
};

// The item of a key, 0 where there is none, and what it hangs on in its chain (0: it is the first).
struct ItemPlace {
  uint64_t item = 0;
  uint64_t before = 0;
  ItemHead head{};
};

// `first`: of the chain of the key's hash, or 0.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE ItemPlace find_item(uint64_t first, const KeyView& key) {
  ItemPlace place;
  for (place.item = first; place.item != 0; place.item = place.head.next) {
    place.head = ItemHead::of(place.item);
    if (key.is_key_of(place.item, place.head)) break;
    place.before = place.item;
  }
  return place;
}

}  // namespace isotherm
