// DeviceItem: a key with its value in device memory, or in host memory that the device reaches.
//
// Layout, in words of 8 bytes; the location of an item is its address, a multiple of 8.
//
//   head     bit 0: in the table; 1: read, 2: chosen to be evicted (where items are); 3: long;
//            4: the block lies in host memory
//            24–63: the part that put it, low 40 bits
//            short: 5–12 key bytes, 13–23 value bytes
//            long:  5–23 the row of that part, where it had several writers of the key
//   of a long item, before its key:
//   sizes    bits 0–15 key bytes, 16–39 value bytes, 40–42: which words follow, 43–47 the part,
//            high 5 bits
//   next     the item of another key with the same hash, or 0    (bit 40 of sizes)
//   expiry   ms since the epoch                                  (bit 41)
//   flags    the caller's u32                                    (bit 42)
//   key, then zeros up to a multiple of 8; value, likewise
//
// So an item takes 8 bytes beside key and value, and more only where it needs more: 255 bytes of
// key and 2,047 of value fit the head, and who never expires, has no flags and is the only one of
// its hash needs no word for them.
//
// Versions. A version is the number of the part that put the item and below it 19 bits for the
// row: 0 where the part wrote the key once, else the row's number. Parts are numbered in the order
// in which they take effect, so the versions of a key grow, whatever was erased between.
//
// Items whose hashes agree in all 64 bits form a chain by `next`, each key once; the index has the
// first. Nearly every chain has one item. An item that others hang behind has the word for it: new
// ones are hung in before all, or in the place of the one that they replace.
//
// Threads. An item is written before it gets into the index, and nothing of it but bits 1 and 2
// changes after. `next` is changed by one lane, in a kernel of its own
// (gpu/items/item_exact_kernels.h). Of a free block bit 0 is not set, and its bits 1 to 3 are 0.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/pair.h"
#include "gpu/items/byte_units.h"
#include "gpu/items/item_classes.h"

namespace isotherm {

namespace item_head {

inline constexpr uint64_t live_bit = 1 << 0;
inline constexpr uint64_t read_bit = 1 << 1;
inline constexpr uint64_t chosen_bit = 1 << 2;
inline constexpr uint64_t long_bit = 1 << 3;
inline constexpr uint64_t host_bit = 1 << 4;
inline constexpr uint32_t rest_at = 5;
inline constexpr uint32_t part_at = 24;
inline constexpr uint32_t short_key_bits = 8;
inline constexpr uint32_t short_value_bits = 11;
inline constexpr uint32_t row_bits = 19;
inline constexpr uint32_t part_bits = 40;  // in the head
inline constexpr uint32_t high_part_bits = 5;
static_assert(rest_at + short_key_bits + short_value_bits == part_at);
static_assert(rest_at + row_bits == part_at && part_at + part_bits == 64);

// In the word of sizes.
inline constexpr uint32_t value_at = 16;
inline constexpr uint32_t words_at = 40;
inline constexpr uint32_t high_part_at = 43;
inline constexpr uint32_t has_next = 1;
inline constexpr uint32_t has_expiry = 2;
inline constexpr uint32_t has_flags = 4;

ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t low_bits(uint64_t word, uint32_t bits) {
  return word & ((uint64_t{1} << bits) - 1);
}

}  // namespace item_head

// Rows of a part, so that they fit a version.
inline constexpr uint32_t most_item_rows = 1u << item_head::row_bits;

ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t* item_words(uint64_t location) {
  return reinterpret_cast<uint64_t*>(location);
}

// What an item is going to be, but for key and value themselves.
struct ItemShape {
  uint32_t key_bytes = 0;
  uint32_t value_bytes = 0;
  uint64_t version = 0;
  int64_t expiry = 0;
  uint32_t flags = 0;
  bool hangs = false;  // may have another behind it

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t words() const {
    return (hangs ? item_head::has_next : 0) | (expiry != 0 ? item_head::has_expiry : 0) |
           (flags != 0 ? item_head::has_flags : 0);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t part() const {
    return version >> item_head::row_bits;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_long() const {
    using namespace item_head;
    return words() != 0 || low_bits(version, row_bits) != 0 || part() >> part_bits != 0 ||
           key_bytes >> short_key_bits != 0 || value_bytes >> short_value_bits != 0;
  }
  // Words before the key.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t head_words() const {
    const uint32_t more = words();
    return is_long() ? 2 + (more & 1) + (more >> 1 & 1) + (more >> 2) : 1;
  }
  // Bytes that the item takes.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t bytes() const {
    return (head_words() + words_of(key_bytes) + words_of(value_bytes)) * word_bytes;
  }

  // Writes all words before the key.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void write(uint64_t* to, bool on_host) const {
    using namespace item_head;
    const uint64_t head = live_bit | (on_host ? host_bit : 0) | part() << part_at;
    if (!is_long()) {
      *to = head | uint64_t{key_bytes} << rest_at |
            uint64_t{value_bytes} << (rest_at + short_key_bits);
      return;
    }
    *to++ = head | long_bit | low_bits(version, row_bits) << rest_at;
    *to++ = key_bytes | uint64_t{value_bytes} << value_at | uint64_t{words()} << words_at |
            (part() >> part_bits) << high_part_at;
    if (hangs) *to++ = 0;
    if (expiry != 0) *to++ = static_cast<uint64_t>(expiry);
    if (flags != 0) *to = flags;
  }
};

// What is read of an item first.
struct ItemHead {
  uint64_t location = 0;
  uint64_t head = 0;
  uint64_t sizes = 0;  // of a long item
  uint32_t key_bytes = 0;
  uint32_t value_bytes = 0;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static ItemHead of(uint64_t location) {
    using namespace item_head;
    ItemHead item;
    item.location = location;
    item.head = *item_words(location);
    if ((item.head & long_bit) == 0) {
      const uint64_t both = item.head >> rest_at;
      item.key_bytes = static_cast<uint32_t>(low_bits(both, short_key_bits));
      item.value_bytes = static_cast<uint32_t>(low_bits(both >> short_key_bits, short_value_bits));
    } else {
      item.sizes = item_words(location)[1];
      item.key_bytes = static_cast<uint32_t>(low_bits(item.sizes, value_at));
      item.value_bytes =
          static_cast<uint32_t>(low_bits(item.sizes >> value_at, words_at - value_at));
    }
    return item;
  }

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t next() const {
    return has(item_head::has_next) ? item_words(location)[2] : 0;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE int64_t expiry() const {
    if (!has(item_head::has_expiry)) return 0;
    return static_cast<int64_t>(item_words(location)[2 + count(item_head::has_next)]);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t flags() const {
    if (!has(item_head::has_flags)) return 0;
    const uint32_t before = count(item_head::has_next) + count(item_head::has_expiry);
    return static_cast<uint32_t>(item_words(location)[2 + before]);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t version() const {
    using namespace item_head;
    const uint64_t part = head >> part_at;
    if ((head & long_bit) == 0) return part << row_bits;
    const uint64_t high = low_bits(sizes >> high_part_at, high_part_bits);
    return (high << part_bits | part) << row_bits | low_bits(head >> rest_at, row_bits);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool expired(int64_t now) const {
    const int64_t at = now != 0 ? expiry() : 0;
    return at != 0 && at <= now;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE const uint64_t* key() const {
    return item_words(location) + head_words();
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE char* value() const {
    return reinterpret_cast<char*>(item_words(location) + head_words() + words_of(key_bytes));
  }
  // Bytes that it takes.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t bytes() const {
    return (head_words() + words_of(key_bytes) + words_of(value_bytes)) * word_bytes;
  }
  // The list of free blocks that its block belongs to (gpu/items/item_classes.h).
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t list() const {
    return item_classes::list_of(item_classes::class_of(bytes()),
                                 (head & item_head::host_bit) != 0);
  }
  // Another lane may do the same.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void mark_read() const {
    if ((head & item_head::read_bit) == 0) *item_words(location) = head | item_head::read_bit;
  }
  // The item must have the word for it.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void set_next(uint64_t location, uint64_t next) {
    item_words(location)[2] = next;
  }

 private:
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool has(uint32_t word) const { return count(word) != 0; }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t count(uint32_t word) const {
    return (sizes >> item_head::words_at & word) != 0 ? 1 : 0;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t head_words() const {
    if ((head & item_head::long_bit) == 0) return 1;
    return 2 + count(item_head::has_next) + count(item_head::has_expiry) +
           count(item_head::has_flags);
  }
};

// A key of the caller's.
struct KeyView {
  const char* data;
  uint64_t bytes;
  ByteRange readable;
  Pair start{};  // the first unit, where it is held
  bool holds_start = false;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static KeyView of(const BytesView& keys, uint32_t row) {
    return {keys.data(row), keys.size(row), keys.readable()};
  }
  // Reads the first unit once for all, of a key that is far away.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void hold_start() {
    if (bytes != 0) start = unit(0);
    holds_start = true;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Pair unit(uint64_t number) const {
    if (holds_start && number == 0) return start;
    const uint64_t left = bytes - number * unit_bytes;
    const auto some = static_cast<uint32_t>(left < unit_bytes ? left : unit_bytes);
    return load_unit(data + number * unit_bytes, some, readable);
  }
  // Calls work(number, word) for each word of the key, zeros behind it, as long as it returns true;
  // whether it always did.
  template <class Work>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool each_word(Work&& work) const {
    const uint64_t words = words_of(bytes);
    for (uint64_t i = 0; i < words; i += 2) {
      const Pair two = unit(i / 2);
      if (!work(i, two.first) || (i + 1 < words && !work(i + 1, two.second))) return false;
    }
    return true;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_key_of(const ItemHead& item) const {
    if (item.key_bytes != bytes) return false;
    const uint64_t* its = item.key();
    return each_word([&](uint64_t i, uint64_t word) { return load_steady_word(its + i) == word; });
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

// `first`: of the chain of the key's hash, or 0. A Key says whether it is_key_of(an item's head).
template <class Key>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE ItemPlace find_item(uint64_t first, const Key& key) {
  ItemPlace place;
  for (place.item = first; place.item != 0; place.item = place.head.next()) {
    place.head = ItemHead::of(place.item);
    if (key.is_key_of(place.head)) break;
    place.before = place.item;
  }
  return place;
}

}  // namespace isotherm
