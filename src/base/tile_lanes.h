// TileLanes: 8 lanes of a warp, 16 bytes of the line each, over any Lane. See base/tile.h.
//
// A Lane is what a kernel gets from the device that runs it (base/lane_cuda.cuh), so the probe loop
// compiles for a GPU and for the fake device of the tests (tests/fake_device/fake_lane.h) from one
// text.
//
// All 8 lanes call every function together with equal arguments, `from` excepted. The loads of a
// line are one coalesced 128-byte access on a GPU; the accesses of single slots are shuffles of
// what was loaded. Tiles start at multiples of 8 threads, so a block has a multiple of 8 threads.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/pair.h"

namespace isotherm {

inline constexpr uint32_t tile_lanes = 8;

template <class Lane>
class TileLanes {
 public:
  static constexpr uint32_t lanes = tile_lanes;
  // Splits are kernels of their own, between batches.
  static constexpr bool lines_move = false;
  using View = Pair;

  ISOTHERM_HOST_DEVICE explicit TileLanes(const Lane& lane)
      : lane_(lane),
        number_(lane.thread() & (lanes - 1)),
        base_(lane.thread() & 31 & ~(lanes - 1)),
        mask_(((1u << lanes) - 1) << base_) {}

  template <class Line>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Pair load(const Line* line) const {
    return load_pair(&line->slot[number_]);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t match(Pair view, uint64_t hash) const {
    return ballot(view.first == hash);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t first(Pair view, int i) const {
    return from(view.first, static_cast<uint32_t>(i));
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t second(Pair view, int i) const {
    return from(view.second, static_cast<uint32_t>(i));
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Pair slot(Pair view, int i) const {
    return {first(view, i), second(view, i)};
  }
  template <class Line>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool replace(Line* line, int i, Pair expected,
                                                    Pair desired) const {
    return by_leader([&] { return exchange_pair_alone(&line->slot[i], expected, desired); });
  }
  template <class Line>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool link(Line* line, int i, Pair expected,
                                                 Pair desired) const {
    return by_leader([&] { return compare_exchange_pair(&line->slot[i], expected, desired); });
  }
  template <class Line>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool replace_entry(Line* line, int i, Pair expected,
                                                          Pair desired) const {
    return replace(line, i, expected, desired);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool leads() const { return number_ == 0; }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t number() const { return number_; }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t mask() const { return mask_; }
  // A bit per lane of the tile.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t ballot(bool predicate) const {
    return (lane_.ballot(mask_, predicate) >> base_) & ((1u << lanes) - 1);
  }
  // The value of lane `i` of the tile, for every lane.
  template <class T>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE T from(T value, uint32_t i) const {
    return lane_.shuffle(mask_, value, base_ + i);
  }
  template <class T>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE T share(T value) const {
    return from(value, 0);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE const Lane& lane() const { return lane_; }

 private:
  // Gives every lane the result of the leader's `swap`.
  template <class Swap>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool by_leader(Swap&& swap) const {
    uint32_t done = 0;
    if (leads()) done = static_cast<uint32_t>(swap());
    return from(done, 0) != 0;
  }

  Lane lane_;
  uint32_t number_;
  uint32_t base_;
  uint32_t mask_;
};

// A tile that is the only writer of its requests' keys in this batch. Only another writer of the
// chain may touch their entries, and only to move them out of the last slot; in all other slots a
// store takes the place of a compare-and-swap.
template <class Lane>
class SoleWriterTile : public TileLanes<Lane> {
 public:
  using TileLanes<Lane>::TileLanes;

  template <class Line>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool replace_entry(Line* line, int i, Pair expected,
                                                          Pair desired) const {
    if (i == Line::last) return this->replace(line, i, expected, desired);
    if (this->leads()) store_pair(&line->slot[i], desired);
    return true;
  }
};

// A tile of a kernel during which nobody writes to the lines.
template <class Lane>
class SteadyTile : public TileLanes<Lane> {
 public:
  using TileLanes<Lane>::TileLanes;

  template <class Line>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Pair load(const Line* line) const {
    return load_steady_pair(&line->slot[this->number()]);
  }
};

}  // namespace isotherm
