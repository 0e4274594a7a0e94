// Item evict kernels: items leave the table unasked, to make room or because they have expired.
//
// A kernel looks at blocks and chooses items by one of these:
//   UnreadItems   CLOCK over the blocks of a class: a hand goes round its slabs. An item that was
//                 read since the hand came by last is spared, and its mark removed; one that was
//                 not is chosen. Marks are set by gets (gpu/items/item_find_kernels.h); a new item
//                 has none, so what is put once and never read goes first.
//   ExpiredItems  those whose time has come
//   AllItems      of a slab that is taken from its class
//   CountedItems  none is to leave: they are counted
// Who looks at a block twice for one part finds a mark on what he has chosen.
//
// Items that were chosen are erased from the index by their hashes, where they are all that the
// hash has: chains, whose links others change, are left as they are. Then their blocks are free.
// All this happens within a part with writes, before its items are written, when no other part
// reads. Sources. Mega-KV, section 3 (bitmap CLOCK); here the bits lie in the items' heads.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "gpu/items/item_part.h"

namespace isotherm {

// Items that were chosen, and what the index is asked about them.
struct EvictedItems {
  uint64_t* items = nullptr;
  uint64_t* hashes = nullptr;
  uint64_t* first = nullptr;  // of the chain
  uint8_t* found = nullptr;
  TableOp* ops = nullptr;
  uint64_t* count = nullptr;  // of the chosen, or more
  uint64_t wanted = 0;        // at most so many
};

// Which live items are chosen.
struct UnreadItems {
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool operator()(uint64_t item) const {
    uint64_t& head = *item_words(item);
    if ((head & item_head::read_bit) == 0) return true;
    head &= ~item_head::read_bit;
    return false;
  }
};

struct ExpiredItems {
  int64_t now = 0;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool operator()(uint64_t item) const {
    return ItemHead::of(item).expired(now);
  }
};

// The first bytes of a key.
struct KeyStart {
  static constexpr uint32_t most_bytes = sizeof(uint64_t);

  uint64_t word = 0;
  uint64_t mask = 0;
  uint32_t bytes = 0;

  // Of at most `most_bytes`.
  static KeyStart of(std::string_view text) {
    KeyStart start;
    start.bytes = static_cast<uint32_t>(text.size());
    text.copy(reinterpret_cast<char*>(&start.word), most_bytes);
    std::memset(&start.mask, 0xff, text.size());
    return start;
  }

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool begins(const ItemHead& item) const {
    return bytes == 0 || (item.key_bytes >= bytes && (*item.key() & mask) == word);
  }
};

// Keys by their first bytes.
struct KeyChoice {
  KeyStart start;  // those that begin so
  KeyStart but;    // and, where this has any bytes, those that do not begin so

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool has(const ItemHead& item) const {
    return start.begins(item) || (but.bytes != 0 && !but.begins(item));
  }
};

// Those of a choice, but for the expired ones.
struct CountedItems {
  KeyChoice keys;
  int64_t now = 0;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool operator()(uint64_t item) const {
    const ItemHead head = ItemHead::of(item);
    return !head.expired(now) && keys.has(head);
  }
};

struct AllItems {
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool operator()(uint64_t /*item*/) const { return true; }
};

// Looks at `blocks` blocks of a class.
template <class Choice>
struct ChooseItemsKernel {
  EvictedItems evicted;
  char* first = nullptr;
  uint64_t blocks = 0;
  uint64_t block_bytes = 0;
  Choice choice;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    warp_rows(lane, static_cast<uint32_t>(blocks), [&](uint32_t block, bool mine) {
      const auto location = reinterpret_cast<uint64_t>(first + block * block_bytes);
      const bool chosen = mine && choose(location);
      const uint64_t number = draw(lane, evicted.count, 0, chosen);
      if (!chosen || number >= evicted.wanted) return;
      evicted.items[number] = location;
      *item_words(location) |= item_head::chosen_bit;
    });
  }

 private:
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool choose(uint64_t item) const {
    const uint64_t state = *item_words(item) & (item_head::live_bit | item_head::chosen_bit);
    return state == item_head::live_bit && choice(item);
  }
};

// The hashes of the chosen.
struct HashEvictedKernel {
  EvictedItems evicted;
  ItemHash hash;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    warp_rows(lane, static_cast<uint32_t>(evicted.wanted), [&](uint32_t i, bool mine) {
      if (!mine) return;
      const ItemHead item = ItemHead::of(evicted.items[i]);
      const auto* key = reinterpret_cast<const char*>(item.key());
      evicted.hashes[i] = hash(key, item.key_bytes, ByteRange::of_items());
    });
  }
};

// Which of them are erased: those that are alone with their hash.
struct JudgeEvictedKernel {
  EvictedItems evicted;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    warp_rows(lane, static_cast<uint32_t>(evicted.wanted), [&](uint32_t i, bool mine) {
      if (!mine) return;
      const uint64_t item = evicted.items[i];
      const bool alone =
          evicted.found[i] == 1 && evicted.first[i] == item && ItemHead::of(item).next() == 0;
      evicted.ops[i] = alone ? TableOp::erase : TableOp::get;
      if (!alone) *item_words(item) &= ~item_head::chosen_bit;
    });
  }
};

// When the index has forgotten them.
struct FreeEvictedKernel {
  EvictedItems evicted;
  ItemLists* lists = nullptr;
  uint64_t* freed_ever = nullptr;  // of this kind

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    warp_rows(lane, static_cast<uint32_t>(evicted.wanted), [&](uint32_t i, bool mine) {
      const bool freed = mine && evicted.ops[i] == TableOp::erase;
      const uint32_t count = count_bits(lane.ballot(whole_warp, freed));
      if (count != 0 && (lane.thread() & 31) == 0) {
        Lane::atomic_add(&lists->items, -int64_t{count});
        Lane::atomic_add(freed_ever, uint64_t{count});
      }
      give_back(lane, *lists, freed ? evicted.items[i] : 0);
    });
  }
};

}  // namespace isotherm
