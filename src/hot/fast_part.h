// FastPart: entries that stand in front of the complete index, found by two cheap hashes.
//
// Layout. An array of places in huge pages (items/huge_block.h); a place has `size` entries of 32
// bytes, so one of two entries is a cache line:
//    0  u64  hash, as the index has it     0: free
//    8  u64  word, as the index has it     0: being changed, so whoever reads asks the index
//   16  u64  number of the index that has the key (LineIndex::number)
//   24  u8   read since the last look for an entry that can go
//   25  u8   lock, for writers; that of a place's first entry is the place's
// A hash may lie in two places, each given by a multiplication with a seeded odd number. They cost
// two nanoseconds less than two more hashes of the key would, and are as good as the hash, which is
// keyed (base/hash.h). A key's place decides speed alone: what finds no room here is in the index.
//
// Inserting. A key takes a free entry of its two places. If there is none, one entry of these moves
// to its own other place, if that has a free entry; no second one moves. If there is none either,
// an entry that nobody has read lately gives way. If all were read, they count as unread from then
// on, and the new key stays out.
//
// Readers take no lock. An entry's hash and word are one unit of 16 bytes, and its index is
// compared between two equal reads of that unit; a location is not reused within an epoch, so they
// belong together. A reader that comes by while an entry moves may look at the new place before and
// at the old place after: it finds nothing, and the index has the answer.
//
// Writers hold the locks of both places of their key (`Change`), the lower one first; whoever moves
// another entry only tries that one's other lock. So nobody moves an entry while it is changed. A
// change takes the word away before the index is written and puts the new one behind it. The order
// matters: a reader who has seen the new word in the index must not find the old one here.
//
// Threads. Any, within an epoch. Limits. 2^32 places.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/macros.h"
#include "base/pair.h"
#include "base/seed.h"
#include "items/huge_block.h"

namespace isotherm {

struct alignas(32) FastEntry {
  Pair slot;  // hash, word
  std::atomic<uint64_t> index;
  std::atomic<uint8_t> read;
  std::atomic<uint8_t> lock;
};
static_assert(sizeof(FastEntry) == 32);

// What a reader of a test does between its two looks; others do nothing.
struct NothingBetween {
  ISOTHERM_INLINE void operator()() const {}
};

template <int size>
class FastPartOf {
 public:
  static constexpr uint64_t place_bytes = size * sizeof(FastEntry);

  // The two places of a key; they may be the same.
  struct Places {
    uint64_t first;
    uint64_t second;
    bool has(uint64_t place) const { return place == first || place == second; }
  };

  // With as many places as fit, at least one. `hashes`: how many places a key may have, one or two.
  // Throws std::bad_alloc.
  explicit FastPartOf(uint64_t bytes, HugeBlock::Pages largest = HugeBlock::Pages::huge_1g,
                      uint64_t seed = draw_seed(), int hashes = 2);

  uint64_t bytes() const { return places_ * place_bytes; }
  uint64_t memory() const { return block_.bytes(); }  // whole pages
  uint64_t entries() const { return places_ * size; }
  HugeBlock::Pages pages() const { return block_.pages(); }

  ISOTHERM_INLINE void prefetch(uint64_t hash) const {
    prefetch_place(place(hash, first_));
    prefetch_place(place(hash, second_));
  }

  // The word of a hash; 0 where the index has to be asked.
  template <class Between = NothingBetween>
  ISOTHERM_INLINE uint64_t find(uint64_t hash, uint64_t index, Between&& between = {}) const {
    const uint64_t word = look(place(hash, first_), hash, index);
    if (ISOTHERM_LIKELY(word != 0)) return word;
    between();
    return look(place(hash, second_), hash, index);
  }

  // Holds the places of a key while its word changes. The word is away from here on.
  class Change {
   public:
    Change(FastPartOf& part, uint64_t hash, uint64_t index);
    ~Change();
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

    // Once, and not with 0; a key without this leaves the part. False where it found no room.
    bool put(uint64_t word);

   private:
    FastPartOf& part_;
    const Pair key_;  // its hash, without a word
    const uint64_t index_;
    const Places places_;
    FastEntry* entry_ = nullptr;
  };

  // Takes away, of `count` places from `first` on, the entries of indexes that `stays(index)` does
  // not want. Returns where to go on, 0 at the end.
  template <class Stays>
  uint64_t sweep(uint64_t first, uint64_t count, Stays&& stays) {
    const uint64_t end = std::min(first + count, places_);
    const auto goes = [&](const FastEntry& entry) {
      return load_pair(&entry.slot).first != 0 &&
             !stays(entry.index.load(std::memory_order_relaxed));
    };
    for (uint64_t place = first; place < end; ++place) {
      FastEntry* const entries = entries_at(place);
      // Pages that nobody wrote to stay so.
      if (std::none_of(entries, entries + size, goes)) continue;
      lock(place);
      for (int i = 0; i < size; ++i) {
        if (goes(entries[i])) store_pair(&entries[i].slot, {});
      }
      unlock(place);
    }
    return end == places_ ? 0 : end;
  }

  Places places_of(uint64_t hash) const { return {place(hash, first_), place(hash, second_)}; }
  // The share of entries in use, by a sample of so many neighbouring places.
  double load(uint64_t sample = 1024) const;
  // Entries that moved to make room, and that gave way.
  uint64_t moved() const { return moved_.load(std::memory_order_relaxed); }
  uint64_t replaced() const { return replaced_.load(std::memory_order_relaxed); }

 private:
  ISOTHERM_INLINE uint64_t place(uint64_t hash, uint64_t factor) const {
    return ((hash * factor) >> 32) * places_ >> 32;
  }
  FastEntry* entries_at(uint64_t place) const {
    return reinterpret_cast<FastEntry*>(block_.data()) + place * size;
  }
  ISOTHERM_INLINE void prefetch_place(uint64_t place) const {
    for (uint64_t at = 0; at < place_bytes; at += 64) {
      __builtin_prefetch(reinterpret_cast<const char*>(entries_at(place)) + at);
    }
  }

  // The entries are compared without a branch, since nobody could foresee where it goes.
  ISOTHERM_INLINE uint64_t look(uint64_t place, uint64_t hash, uint64_t index) const {
    FastEntry* entries = entries_at(place);
    uint32_t candidates = 0;
    for (int i = 0; i < size; ++i) {
      const uint32_t same_hash = load_pair(&entries[i].slot).first == hash;
      const uint32_t same_index = entries[i].index.load(std::memory_order_relaxed) == index;
      candidates |= (same_hash & same_index) << i;
    }
    if (candidates == 0) return 0;
    FastEntry& entry = entries[__builtin_ctz(candidates)];
    const Pair seen = load_pair(&entry.slot);
    const bool same_index = entry.index.load(std::memory_order_acquire) == index;
    if (seen.first != hash || !same_index || !(load_pair(&entry.slot) == seen)) return 0;
    // Written once, so that readers share the line.
    if (entry.read.load(std::memory_order_relaxed) == 0) {
      entry.read.store(1, std::memory_order_relaxed);
    }
    return seen.second;
  }

  void lock(uint64_t place);
  bool try_lock(uint64_t place);
  void unlock(uint64_t place) { entries_at(place)->lock.store(0, std::memory_order_release); }
  // These are for holders of the place's lock.
  FastEntry* entry_of(uint64_t place, uint64_t hash, uint64_t index) const;
  FastEntry* free_entry(uint64_t place) const;
  FastEntry* make_room(const Places& held);
  FastEntry* move_one(uint64_t from, const Places& held);
  FastEntry* take_unread(uint64_t place);

  HugeBlock block_;
  const uint64_t places_;
  const uint64_t first_;
  const uint64_t second_;
  std::atomic<uint64_t> moved_{0};
  std::atomic<uint64_t> replaced_{0};
};

extern template class FastPartOf<1>;
extern template class FastPartOf<2>;
extern template class FastPartOf<4>;

// Two entries a place: measured beside one and four by bench/hot_bench.cc.
using FastPart = FastPartOf<2>;

}  // namespace isotherm
