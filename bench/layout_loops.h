// The loops of layout_bench, for two layouts of a line of 128 bytes that differ in nothing else:
//
//   8 slots      the product's (index/bucket.h, index/probe.h): the last slot becomes the link
//   7 slots      behind a header of 16 bytes: u64 lock byte and moved mark, u64 next line
//
// Both use the product's tiles, hash and rolling prefetch, take the line's lock to write (beside
// the lines, or in the header), and after a hit in the home line look whether it has moved.
//
// As with gpu/table/fixed_stages.h only the files of one instruction set include this, and
// everything is a template over Tile or always inlined.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/hash.h"
#include "index/probe.h"
#include "index/segment.h"

namespace isotherm::bench {

// Lines of one table, and those that overflow. The number of lines is even, so that all hashes of
// a line agree in the top bit, as the mark in a last slot demands.
struct LayoutLines {
  Bucket* home;
  uint64_t count;
  Bucket* overflow;
  uint64_t overflow_count;
  uint64_t overflow_used = 0;
  std::atomic<uint8_t>* locks = nullptr;  // of the layout without a header

  ISOTHERM_INLINE uint64_t number(uint64_t hash) const { return (hash >> 32) * count >> 32; }
  ISOTHERM_INLINE Bucket* take() {
    return overflow_used < overflow_count ? overflow + overflow_used++ : nullptr;
  }
  ISOTHERM_INLINE void give(Bucket*) { --overflow_used; }
};

constexpr uint64_t layout_seed = 0x243f6a8885a308d3;
ISOTHERM_INLINE uint64_t layout_hash(uint64_t key) { return mix(key, layout_seed); }

// One instruction set's loops over keys; the word of a key is its complement.
struct LayoutLoops {
  // False when overflow lines ended.
  bool (*insert)(LayoutLines& lines, uint64_t first_key, uint64_t count);
  // How many were found with the right word.
  uint64_t (*get)(const LayoutLines& lines, const uint64_t* keys, size_t count);
  // Lines that get reads.
  uint64_t (*lines_read)(const LayoutLines& lines, const uint64_t* keys, size_t count);
};

struct LayoutChoice {
  LayoutLoops eight_slots;
  LayoutLoops header;
};
extern const LayoutChoice layout_plain;
extern const LayoutChoice layout_avx2;
extern const LayoutChoice layout_avx512;

template <class Tile>
struct EightSlots {
  static ISOTHERM_INLINE Found find(const LayoutLines& lines, uint64_t hash) {
    return isotherm::find(Tile{}, lines.home + lines.number(hash), hash);
  }
  // The locks are an array of their own, so a writer fetches two places, not one.
  static ISOTHERM_INLINE void prefetch_lock(const LayoutLines& lines, uint64_t hash) {
    __builtin_prefetch(&lines.locks[lines.number(hash)], 1);
  }
  static ISOTHERM_INLINE bool insert(LayoutLines& lines, uint64_t hash, uint64_t word) {
    const uint64_t number = lines.number(hash);
    LineLock guard(lines.locks[number]);
    return isotherm::update(Tile{}, lines.home + number, hash, lines, [&](bool, uint64_t) {
             return Decision{Action::store, word};
           }).change != Change::no_line;
  }
  static ISOTHERM_INLINE Bucket* next(const Bucket* line, uint64_t hash) {
    const Slot last = load_pair(&line->slot[Bucket::last]);
    return mark::is_mark(last, hash) ? mark::link_target(last) : nullptr;
  }
};

// Slot 0 is the header: the lock in the low byte, `moved` above it, and the next line's address.
template <class Tile>
struct HeaderAndSeven {
  static constexpr uint32_t slots = 0xFE;
  static constexpr uint64_t moved = 1 << 8;

  static ISOTHERM_INLINE Found find(const LayoutLines& lines, uint64_t hash) {
    const Bucket* home = lines.home + lines.number(hash);
    const Bucket* line = home;
    for (;;) {
      const auto view = Tile::load(line);
      uint32_t candidates = Tile::match(view, hash) & slots;
      Found found;
      while (candidates != 0) {
        const int i = __builtin_ctz(candidates);
        candidates &= candidates - 1;
        const Slot slot = Tile::slot(view, i);
        if (slot.first == hash) {
          found = {true, slot.second};
          break;
        }
      }
      if (found.found && line != home) return found;
      const Slot header = Tile::slot(view, 0);
      if (ISOTHERM_UNLIKELY((header.first & moved) != 0)) {
        home = line = reinterpret_cast<const Bucket*>(header.second);
        continue;
      }
      if (found.found || header.second == 0) return found;
      line = reinterpret_cast<const Bucket*>(header.second);
    }
  }

  static ISOTHERM_INLINE void prefetch_lock(const LayoutLines&, uint64_t) {}
  static ISOTHERM_INLINE bool insert(LayoutLines& lines, uint64_t hash, uint64_t word) {
    Bucket* line = lines.home + lines.number(hash);
    auto* lock = reinterpret_cast<std::atomic<uint8_t>*>(line);
    LineLock guard(*lock);
    Bucket* free_line = nullptr;
    int free = 0;
    for (;;) {
      const uint32_t candidates = Tile::match(line, hash) & slots;
      if (candidates != 0) {
        store_pair(&line->slot[__builtin_ctz(candidates)], {hash, word});
        return true;
      }
      const uint32_t empty = free_line != nullptr ? 0 : Tile::match(line, 0) & slots;
      if (empty != 0) {
        free_line = line;
        free = __builtin_ctz(empty);
      }
      Bucket* following = next(line, hash);
      if (following == nullptr) break;
      line = following;
    }
    if (free_line == nullptr) {
      free_line = lines.take();
      free = 1;
      if (free_line == nullptr) return false;
      __atomic_store_n(&line->slot[0].second, reinterpret_cast<uint64_t>(free_line),
                       __ATOMIC_RELEASE);
    }
    store_pair(&free_line->slot[free], {hash, word});
    return true;
  }
  static ISOTHERM_INLINE Bucket* next(const Bucket* line, uint64_t /*hash*/) {
    return reinterpret_cast<Bucket*>(load_pair(&line->slot[0]).second);
  }
};

template <class Tile, template <class> class Layout>
struct LayoutStages {
  static constexpr size_t ahead = 16;

  static ISOTHERM_INLINE void prefetch(const LayoutLines& lines, uint64_t key) {
    const auto* line = reinterpret_cast<const char*>(lines.home + lines.number(layout_hash(key)));
    __builtin_prefetch(line);
    __builtin_prefetch(line + 64);
  }

  static bool insert(LayoutLines& lines, uint64_t first_key, uint64_t count) {
    for (uint64_t key = first_key; key < first_key + count; ++key) {
      prefetch(lines, key + ahead);
      Layout<Tile>::prefetch_lock(lines, layout_hash(key + ahead));
      if (!Layout<Tile>::insert(lines, layout_hash(key), ~key)) return false;
    }
    return true;
  }

  static uint64_t get(const LayoutLines& lines, const uint64_t* keys, size_t count) {
    uint64_t right = 0;
    for (size_t i = 0; i < count; ++i) {
      if (i + ahead < count) prefetch(lines, keys[i + ahead]);
      const Found found = Layout<Tile>::find(lines, layout_hash(keys[i]));
      right += static_cast<uint64_t>(found.found && found.word == ~keys[i]);
    }
    return right;
  }

  static uint64_t lines_read(const LayoutLines& lines, const uint64_t* keys, size_t count) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t hash = layout_hash(keys[i]);
      const Bucket* line = lines.home + lines.number(hash);
      for (; line != nullptr; line = Layout<Tile>::next(line, hash)) {
        ++sum;
        const bool here =
            std::any_of(line->slot, line->slot + Bucket::slots, [&](const Slot& slot) {
              return slot == Slot{hash, ~keys[i]};
            });
        if (here) break;
      }
    }
    return sum;
  }

  static constexpr LayoutLoops loops{insert, get, lines_read};
};

template <class Tile>
constexpr LayoutChoice layout_choice{LayoutStages<Tile, EightSlots>::loops,
                                     LayoutStages<Tile, HeaderAndSeven>::loops};

}  // namespace isotherm::bench
