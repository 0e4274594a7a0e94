// warp_find: lookups by the tiles of a warp, in step: the walk of index/probe.h, as a GPU takes it.
//
// Each lane owns at most one request. The lanes of its tile look for the owners' entries together,
// one owner after another, the next lines being loaded before the current ones are looked at. The
// four tiles of a warp take every step together: a collective of the whole warp costs as much as
// one of a tile, while tiles that go their own ways through the code would be run one after
// another.
//
// Places and answers pass between owner and tile through shared memory, which takes fewer
// instructions than shuffles.
#pragma once

#include <cstdint>

#include "gpu/kernel/bits.h"
#include "gpu/kernel/table_view.h"

namespace isotherm {

// The first row of the warp's lanes and the step from one round to the next: rounds are whole
// warps, so that all lanes of a warp take part in its collectives.
template <class Lane>
struct WarpRounds {
  static constexpr uint32_t lanes = 32;
  ISOTHERM_HOST_DEVICE explicit WarpRounds(const Lane& lane)
      : first(uint64_t{lane.block()} * lane.threads() + (lane.thread() & ~(lanes - 1))),
        stride(uint64_t{lane.blocks()} * lane.threads()),
        number(lane.thread() & (lanes - 1)) {}
  uint64_t first;
  uint64_t stride;
  uint32_t number;  // of the lane in its warp
};

inline constexpr uint32_t find_threads = 256;  // of a block

// What a block keeps for its lanes. Answers have the members found and word.
template <class Answer>
struct FindShared {
  Home home[find_threads];
  Answer answer[find_threads];
};

// A tile whose steps all tiles of its warp take together. Its line is null where it has no chain,
// or has come to the end of it. A view is what each lane read, so it knows the last slot where it
// is the last lane.
template <class Tile>
class WarpTile {
 public:
  static constexpr bool lines_move = false;

  ISOTHERM_HOST_DEVICE explicit WarpTile(const Tile& tile) : tile_(tile) {}

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Pair load(const Bucket* line) const {
    return line != nullptr ? tile_.load(line) : Pair{0, 0};
  }
  // Whether a lane of the tile says so.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool any(bool hit) const {
    return (vote(hit) & tile_.mask()) != 0;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Slot last(Pair view) const { return view; }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool shows_last(const Bucket* line, bool found) const {
    return !found && line != nullptr && tile_.number() == uint32_t{Bucket::last};
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t vote(bool goes_on) const {
    return tile_.lane().ballot(whole_warp, goes_on);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Bucket* next(Slot last, uint32_t vote) const {
    const auto& lane = tile_.lane();
    lane.sync_warp(whole_warp);  // what a lane answered is there for the others
    const uint64_t line =
        lane.shuffle(whole_warp, last.second, (lane.thread() & 31) | (tile_lanes - 1));
    return (vote & tile_.mask()) != 0 ? reinterpret_cast<Bucket*>(line) : nullptr;
  }

 private:
  const Tile& tile_;
};

// Looks for the entries of the lanes whose home has a line, among the first `rows_per_tile` of
// each tile. `look(answer, line, view, hit)` is called in every lane with what it read of a line;
// it returns nothing. Follows a chain until its tile has a hit. `mine.home` and `mine.answer` of
// all lanes are set before; answers are there afterwards.
template <uint32_t rows_per_tile, uint32_t at_a_time, class Tile, class Answer, class Look>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void warp_find(const Tile& tile, FindShared<Answer>& shared,
                                                    Look&& look) {
  const auto& lane = tile.lane();
  const WarpTile<Tile> step(tile);
  const uint32_t tile_first = lane.thread() - tile.number();
  lane.sync_warp(whole_warp);
  for (uint32_t owner = tile_first; owner < tile_first + rows_per_tile; owner += at_a_time) {
    Home home[at_a_time];
    Pair view[at_a_time];
    for (uint32_t i = 0; i < at_a_time; ++i) {
      home[i] = shared.home[owner + i];
      view[i] = step.load(home[i].line);
    }
    for (uint32_t i = 0; i < at_a_time; ++i) {
      const Home& its = home[i];
      Answer& answer = shared.answer[owner + i];
      follow(step, its.line, view[i], its.hash, [&](Bucket* line, const Pair& seen) {
        const bool hit = line != nullptr && seen.first == its.hash;
        const bool any = step.any(hit);
        look(answer, line, seen, hit, any);
        return any;
      });
    }
  }
  lane.sync_warp(whole_warp);
}

// The common answer: the word of the entry.
struct FoundWord {
  uint64_t word;
  bool found;
};

// Looks up one entry per lane; `home` without a line: none.
template <uint32_t rows_per_tile, class Tile>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Found find_in_warp(const Tile& tile,
                                                        FindShared<FoundWord>& shared,
                                                        const Home& home) {
  const uint32_t thread = tile.lane().thread();
  shared.home[thread] = home;
  shared.answer[thread].found = false;
  warp_find<rows_per_tile, 2>(tile, shared,
                              [](FoundWord& answer, Bucket*, Pair view, bool hit, bool) {
                                if (hit) answer = {view.second, true};
                              });
  const FoundWord answer = shared.answer[thread];
  return {answer.found, answer.word};
}

}  // namespace isotherm
