// warp_find: lookups by the tiles of a warp, in step.
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

// Looks for the entries of the lanes whose home has a line, among the first `rows_per_tile` of
// each tile. `look(answer, line, view, hit)` is called in every lane with what it read of a line;
// it returns nothing. Follows a chain until its tile has a hit. `mine.home` and `mine.answer` of
// all lanes are set before; answers are there afterwards.
template <uint32_t rows_per_tile, uint32_t at_a_time, class Tile, class Answer, class Look>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void warp_find(const Tile& tile, FindShared<Answer>& shared,
                                                    Look&& look) {
  const auto& lane = tile.lane();
  const uint32_t tile_first = lane.thread() - tile.number();
  lane.sync_warp(whole_warp);
  for (uint32_t owner = tile_first; owner < tile_first + rows_per_tile; owner += at_a_time) {
    Home home[at_a_time];
    Pair view[at_a_time];
    for (uint32_t i = 0; i < at_a_time; ++i) {
      home[i] = shared.home[owner + i];
      view[i] = home[i].line != nullptr ? tile.load(home[i].line) : Pair{0, 0};
    }
    for (uint32_t i = 0; i < at_a_time; ++i) {
      warp_follow(tile, home[i], view[i], shared.answer[owner + i], look);
    }
  }
  lane.sync_warp(whole_warp);
}

template <class Tile, class Answer, class Look>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void warp_follow(const Tile& tile, const Home& home, Pair view,
                                                      Answer& answer, Look&& look) {
  const auto& lane = tile.lane();
  const uint32_t tile_bits = tile.mask();
  Bucket* line = home.line;
  for (;;) {
    const bool hit = line != nullptr && view.first == home.hash;
    const uint32_t hits = lane.ballot(whole_warp, hit);
    look(answer, line, view, hit, (hits & tile_bits) != 0);
    const bool link = (hits & tile_bits) == 0 && line != nullptr &&
                      tile.number() == uint32_t{Bucket::last} && mark::is_mark(view, home.hash);
    const uint32_t links = lane.ballot(whole_warp, link);
    if (links == 0) return;
    lane.sync_warp(whole_warp);  // what a lane answered is there for the others
    const uint64_t next =
        tile.lane().shuffle(whole_warp, view.second, (lane.thread() & 31) | (tile_lanes - 1));
    line = (links & tile_bits) != 0 ? reinterpret_cast<Bucket*>(next) : nullptr;
    view = line != nullptr ? tile.load(line) : Pair{0, 0};
  }
}

// The common answer: the word of the entry.
struct FoundWord {
  uint64_t word;
  bool found;
};

// Looks up one entry per lane; `home` without a line: none.
template <uint32_t rows_per_tile, class Lane>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Found find_in_warp(const SteadyTile<Lane>& tile,
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
