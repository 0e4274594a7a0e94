// Tile: the lanes that work on one request together.
//
// A tile reads one line (index/bucket.h) and offers the few accesses that the probe loop is written
// in:
//   View load(const Bucket* line)         looks at a line
//   uint32_t match(View, hash)            the slots whose hash seems to be `hash`, a bit each
//   Slot slot(View, i)                    slot i, read as one unit of 16 bytes
//   bool replace(line, i, from, to)       stores `to` over `from`; false: somebody was faster
//   bool replace_entry(line, i, from, to) the same, of an entry that is there
//   bool link(line, i, from, to)          the same; whoever reads `to` sees what was written before
//   bool leads()                          the one lane that may have side effects
//   lines_move                            lines may be split while the tile works (CPU)
// and to a walk along a chain (`follow` in index/probe.h), of which the tiles of a GPU's warp take
// each step together:
//   Slot last(View)                       the last slot, where `shows_last` says so
//   bool shows_last(line, found)          whether the last slot says how the tile's walk goes on
//   vote(bool)                            whose walks go on; 0: none
//   line = next(last, vote)               the line that the LINK leads to (GPU)
// On the CPU a tile is one thread with a SIMD register, a view is the line's address, `match` may
// be a wide compare that is not one access, and `slot` reads memory again, so a candidate counts
// only if the slot still has the hash. Writers hold the line's lock, so `replace` is a store.
// On the GPU a tile is 8 threads of a warp, a view is the 16 bytes that each lane loaded at once,
// and `replace` is a 128-bit compare-and-swap by one lane.
//
// The wide compares read memory that other threads write: a torn or stale candidate is caught by
// `slot`; a slot missed because it was written during the compare was written by a concurrent
// request, which may as well have come later. A compiler barrier keeps the compare before the
// reads of single slots; x86 does not reorder loads.
//
// A type per instruction set: TilePlain here, TileAvx2 and TileAvx512 in headers of their own,
// which only files compiled for that instruction set include.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/pair.h"

namespace isotherm {

// What all CPU tiles share. Line is a template parameter, so that base need not know buckets.
struct TileHost {
  static constexpr bool lines_move = true;

  template <class Line>
  static ISOTHERM_INLINE const Line* load(const Line* line) {
    return line;
  }
  template <class Line>
  static ISOTHERM_INLINE Pair slot(const Line* view, int i) {
    return load_pair(&view->slot[i]);
  }
  template <class Line>
  static ISOTHERM_INLINE bool replace(Line* line, int i, Pair /*from*/, Pair to) {
    store_pair(&line->slot[i], to);
    return true;
  }
  template <class Line>
  static ISOTHERM_INLINE bool link(Line* line, int i, Pair from, Pair to) {
    return replace(line, i, from, to);
  }
  template <class Line>
  static ISOTHERM_INLINE bool replace_entry(Line* line, int i, Pair from, Pair to) {
    return replace(line, i, from, to);
  }
  static ISOTHERM_INLINE bool leads() { return true; }

  template <class Line>
  static ISOTHERM_INLINE Pair last(const Line* view) {
    return slot(view, Line::last);
  }
  template <class Line>
  static ISOTHERM_INLINE bool shows_last(const Line* /*line*/, bool /*found*/) {
    return true;
  }
  static ISOTHERM_INLINE bool vote(bool goes_on) { return goes_on; }
};

struct TilePlain : TileHost {
  template <class Line>
  static ISOTHERM_INLINE uint32_t match(const Line* view, uint64_t hash) {
    uint32_t mask = 0;
    for (int i = 0; i < Line::slots; ++i) {
#if defined(ISOTHERM_TSAN)
      const uint64_t seen = load_pair(&view->slot[i]).first;
#else
      const uint64_t seen = __atomic_load_n(&view->slot[i].first, __ATOMIC_RELAXED);
#endif
      mask |= static_cast<uint32_t>(seen == hash) << i;
    }
    return mask;
  }
};

}  // namespace isotherm
