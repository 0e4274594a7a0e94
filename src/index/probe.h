// Probe: find and update in one chain of lines, for CPU and GPU.
//
// A chain is a home line and its overflow lines. `find` and `update` are all there is: upsert,
// erase and compare-and-swap are updates with a small decision each. Both follow LINK and MOVED
// (index/bucket.h).
//
// find. It looks for candidates first, and at the last slot last. A hit counts only if the home
// line is not MOVED when read afterwards; a line that was not moved then was not moved when the
// candidate was read. Overflow lines need no second look: they are reached through a LINK that was
// read earlier, and a move leaves them as they were at its moment, which lies within this request.
// `follow` is the walk behind it, on either side: on the GPU the tiles of a warp take each step
// together, so a tile that has its entry, or no chain, goes on until all have
// (gpu/kernel/warp_find.h).
//
// update. Walks the chain once; `decide(found, word)` then says what becomes of the entry: keep,
// store another word, or erase. A new entry goes into the first free slot of the chain; if there is
// none the chain gets a line from `lines.take()`, and where that fails nothing changes. `decide`
// may run again when a compare-and-swap lost (GPU), so only its last result counts. On the CPU the
// caller holds the home line's lock, so none loses. `publish()` is called when it is certain that
// what was decided will be done, and before anybody can see it.
//
// Cost. One line for 93 of 100 hits at the loads that growth keeps (docs/layout.md).
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "index/bucket.h"

namespace isotherm {

struct Found {
  bool found = false;
  uint64_t word = 0;

  ISOTHERM_HOST_DEVICE explicit operator bool() const { return found; }
};

enum class Action : uint8_t { keep, store, erase };

struct Decision {
  Action action = Action::keep;
  uint64_t word = 0;
};

enum class Change : uint8_t {
  none,      // decide kept what was there
  replaced,  // the word of a present entry
  inserted,
  erased,
  moved,    // the line is MOVED: start again in the child
  no_line,  // the chain is full and no line could be had; nothing changed
};

struct Updated {
  Change change = Change::none;
  Found previous;
  bool extended = false;  // the chain got a line
};

// For changes of which nobody is told.
struct NoPublish {
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void operator()() const {}
};

namespace probe_internal {

// The number of the lowest bit of a mask that is not 0.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE int first_bit(uint32_t mask) {
#if defined(__CUDA_ARCH__)
  return __ffs(static_cast<int>(mask)) - 1;
#else
  return __builtin_ctz(mask);
#endif
}

// The entry of `hash` among the candidates of a line.
template <class Tile, class View>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Found pick(Tile tile, const View& view, uint32_t candidates,
                                                uint64_t hash) {
  for (; candidates != 0; candidates &= candidates - 1) {
    const Slot slot = tile.slot(view, first_bit(candidates));
    if (slot.first == hash) return {true, slot.second};
  }
  return {};
}

}  // namespace probe_internal

// Calls look(line, view) for the lines of a chain until it says that it has the entry, and returns
// what it said last. `view` is the home line, loaded by the caller, who may thus load several lines
// at once.
template <class Tile, class Line, class View, class Look>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE auto follow(const Tile& tile, Line* home, View view,
                                                 const uint64_t& hash, Look&& look) {
  Line* line = home;
  for (;;) {
    const auto found = look(line, view);
    if constexpr (Tile::lines_move) {
      if (found && line != home) return found;
    }
    const Slot last = tile.last(view);
    const bool goes_on =
        tile.shows_last(line, static_cast<bool>(found)) && mark::is_mark(last, hash);
    const auto vote = tile.vote(goes_on);
    if (!vote) return found;
    if constexpr (!Tile::lines_move) {
      line = tile.next(last, vote);
    } else if (mark::is_moved(last, hash)) {
      home = line = mark::moved_target(last, hash);
    } else if (found) {
      return found;
    } else {
      line = mark::link_target(last);
    }
    view = tile.load(line);
  }
}

// `view` as for follow.
template <class Tile, class View>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Found find_loaded(Tile tile, const Bucket* home, View view,
                                                       uint64_t hash) {
  return follow(tile, home, view, hash, [&](const Bucket*, View line) {
    return probe_internal::pick(tile, line, tile.match(line, hash), hash);
  });
}

template <class Tile>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Found find(Tile tile, const Bucket* home, uint64_t hash) {
  return find_loaded(tile, home, tile.load(home), hash);
}

namespace probe_internal {

// A chain as an update sees it.
struct Walk {
  Bucket* entry_line = nullptr;  // where the entry is, or null
  int entry = 0;
  Bucket* free_line = nullptr;  // the first free slot, or null
  int free = 0;
  Bucket* end = nullptr;  // the last line
  Slot last;              // its last slot
  uint64_t word = 0;
  bool moved = false;
};

template <class Tile, class View>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Walk walk(Tile tile, Bucket* home, View view, uint64_t hash) {
  Walk walk;
  Bucket* line = home;
  for (;; view = tile.load(line)) {
    const uint32_t candidates = tile.match(view, hash);
    if constexpr (Tile::lines_move) {
      walk.last = tile.slot(view, Bucket::last);
      if (mark::is_mark(walk.last, hash) && mark::is_moved(walk.last, hash)) {
        walk.moved = true;
        return walk;
      }
    }
    if (candidates != 0) {
      walk.entry_line = line;
      walk.entry = first_bit(candidates);
      walk.word = tile.slot(view, walk.entry).second;
      return walk;
    }
    if (walk.free_line == nullptr) {
      const uint32_t empty = tile.match(view, 0);
      if (empty != 0) {
        walk.free_line = line;
        walk.free = first_bit(empty);
      }
    }
    if constexpr (!Tile::lines_move) walk.last = tile.slot(view, Bucket::last);
    if (!mark::is_mark(walk.last, hash)) {
      walk.end = line;
      return walk;
    }
    line = mark::link_target(walk.last);
  }
}

// Hangs a line with the displaced last entry and `entry` onto the end of a chain.
template <class Tile, class Lines, class Publish>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Change extend(Tile tile, const Walk& walk, Slot entry,
                                                   Lines& lines, Publish& publish) {
  Bucket* fresh = lines.take();
  if (fresh == nullptr) return Change::no_line;
  publish();
  if (tile.leads()) {
    store_pair(&fresh->slot[0], walk.last);
    store_pair(&fresh->slot[1], entry);
  }
  const Slot link = mark::make_link(fresh, entry.first);
  if (tile.link(walk.end, Bucket::last, walk.last, link)) return Change::inserted;
  lines.give(fresh);
  return Change::none;
}

}  // namespace probe_internal

// `view` as for find_loaded.
template <class Tile, class View, class Lines, class Decide, class Publish = NoPublish>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Updated update_loaded(Tile tile, Bucket* home, View view,
                                                           uint64_t hash, Lines& lines,
                                                           Decide&& decide,
                                                           Publish&& publish = {}) {
  for (;; view = tile.load(home)) {
    const probe_internal::Walk walk = probe_internal::walk(tile, home, view, hash);
    if (walk.moved) return {Change::moved, {}, false};
    if (walk.entry_line != nullptr) {
      const Found previous{true, walk.word};
      const Decision decision = decide(true, walk.word);
      if (decision.action == Action::keep) return {Change::none, previous, false};
      const bool erase = decision.action == Action::erase;
      const Slot to = erase ? Slot{0, 0} : Slot{hash, decision.word};
      publish();
      if (tile.replace_entry(walk.entry_line, walk.entry, Slot{hash, walk.word}, to)) {
        return {erase ? Change::erased : Change::replaced, previous, false};
      }
      continue;
    }
    const Decision decision = decide(false, 0);
    if (decision.action != Action::store) return {};
    const Slot entry{hash, decision.word};
    if (walk.free_line != nullptr) {
      publish();
      if (tile.replace(walk.free_line, walk.free, Slot{0, 0}, entry)) {
        return {Change::inserted, {}, false};
      }
      continue;
    }
    const Change change = probe_internal::extend(tile, walk, entry, lines, publish);
    if (change != Change::none) {
      return {change, {}, change == Change::inserted};
    }
  }
}

template <class Tile, class Lines, class Decide, class Publish = NoPublish>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Updated update(Tile tile, Bucket* home, uint64_t hash,
                                                    Lines& lines, Decide&& decide,
                                                    Publish&& publish = {}) {
  return update_loaded(tile, home, tile.load(home), hash, lines, decide, publish);
}

}  // namespace isotherm
