// CuckooPart: a partition of a cuckoo index: 64 buckets of 8 cells, and the 512 entries they name.
//
// A cell is {32-bit signature, 32-bit location}: 8 bytes. The signature is taken from the hash; the
// location is the number of an entry of this part, from 1 on, and its top bit is CLOCK's mark,
// which readers set by a compare-and-swap of the cell. A key's cell is in one of two buckets; the
// second is the first XOR a number that follows from the signature, so a cell alone says where else
// it may lie.
//
// There are as many entries as cells, and each empty cell has one of the entries that are free: its
// location is 0, and the upper half is the entry's number XOR the cell's own. So nobody has to look
// for a free entry, and zeroed memory is empty. The hash of a free entry is 0.
//
//   bytes 0      version, hand, which buckets are known to be full (a bit each)
//         64     64 buckets of 64 bytes
//         4160   512 entries {hash, word}
//   24.13 bytes an entry
//
// A new key takes the first of its buckets that has an empty cell, there the first one from its
// preferred cell on, which the top bits of its signature say. Where both are full, cells are
// displaced: a walk in breadth looks for a bucket with an empty cell first, in `most_steps` buckets
// at most, and only then are the cells along the path moved, the last one first. Entries stay where
// they are. Without a path one of the 16 cells is evicted by CLOCK: the first from the hand on that
// has no mark; those that it passed lose theirs.
//
// Sources. Mega-KV, sections 4.1 (cells, two buckets), 4.2 (preferred cell, unit), 4.3.2
// (partitions, in which a key's other bucket stays).
#pragma once

#include "index/cache_unit.h"

namespace isotherm {

struct alignas(64) CuckooPart {
  static constexpr uint32_t buckets = 64;
  static constexpr uint32_t cells = 8;
  static constexpr uint32_t entries = buckets * cells;
  static constexpr uint32_t most_steps = 16;
  static constexpr bool moves = true;
  static constexpr bool by_time = false;  // whether requests have a time

  uint32_t version;
  uint32_t hand;
  uint64_t full;
  uint64_t unused[6];
  uint64_t cell[entries];  // bucket by bucket
  Pair entry[entries];

  struct Spot {
    uint32_t signature;
    uint32_t bucket[2];
  };
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static Spot spot(uint64_t hash) {
    const auto signature = static_cast<uint32_t>(hash >> 6);
    const auto first = static_cast<uint32_t>(hash % buckets);
    return {signature, {first, first ^ step_of(signature)}};
  }

  // The entry of a key; without `compare` the first that has its signature. `part` is null where
  // the unit only goes in step with others.
  template <bool compare = true, class Unit>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static CachePlace find(const Unit& unit, CuckooPart* part,
                                                              uint64_t hash) {
    return look<compare, false>(unit, part, hash);
  }
  // The same for who puts the key if it is absent, with the empty cells of its buckets.
  template <class Unit>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static CachePlace find_place(const Unit& unit,
                                                                    CuckooPart* part,
                                                                    uint64_t hash) {
    return look<true, true>(unit, part, hash);
  }

  // Marks an entry as read.
  template <class Unit>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void touch(const Unit& unit, CuckooPart& part,
                                                         const CachePlace& place, uint64_t /*time*/,
                                                         uint64_t /*slack*/) {
    if ((place.seen & mark) != 0 || !unit.leads()) return;
    Unit::compare_exchange(part.cell + place.cell, place.seen, place.seen | mark);
  }

  // The rest under the lock. `pair` is of a key that is absent.
  template <class Unit>
  ISOTHERM_HOST_DEVICE static void insert(const Unit& unit, CuckooPart& part, Pair pair,
                                          uint64_t time, CacheTally& tally) {
    const CacheInsert plan = plan_insert(unit, part, pair.first, time, tally);
    if (plan.evicts) {
      ++tally.evicted;
    } else {
      ++tally.entries;
    }
    commit_insert(unit, part, plan, pair);
  }

  // Where the entry of an absent key will be, and whether it takes another's place there. Cells are
  // displaced for it, but no entry goes.
  template <class Unit>
  ISOTHERM_HOST_DEVICE static CacheInsert plan_insert(const Unit& unit, CuckooPart& part,
                                                      uint64_t hash, uint64_t /*time*/,
                                                      CacheTally& tally) {
    const Spot spot = CuckooPart::spot(hash);
    uint64_t full = Unit::load(&part.full);
    CacheInsert plan;
    plan.cell = none;
    for (const uint32_t bucket : spot.bucket) {
      if (plan.cell == none && has_empty_cell(unit, part, bucket, full)) {
        plan.cell = empty_cell(unit, part, bucket, spot.signature);
        plan.entry = free_entry(Unit::load(part.cell + plan.cell), plan.cell);
      }
    }
    if (plan.cell == none && full != ~uint64_t{0}) displace(unit, part, spot, full, tally, plan);
    plan.evicts = plan.cell == none;
    if (plan.evicts) {
      plan.cell = victim(unit, part, spot);
      plan.entry = entry_of(Unit::load(part.cell + plan.cell));
    }
    return plan;
  }

  // Of a plan that evicts: another entry, where the planned one has to stay. False: all have to.
  template <class Unit>
  ISOTHERM_HOST_DEVICE static bool plan_another(const Unit& unit, CuckooPart& part, uint64_t hash,
                                                CacheInsert& plan) {
    constexpr uint32_t all = 2 * cells;
    const Spot spot = CuckooPart::spot(hash);
    const auto bit_of = [&](uint32_t at) {
      return 1u << (at / cells == spot.bucket[0] ? at % cells : cells + at % cells);
    };
    plan.kept |= bit_of(plan.cell);
    if (plan.kept == (1u << all) - 1) return false;
    while ((plan.kept & bit_of(plan.cell)) != 0) plan.cell = victim(unit, part, spot);
    plan.entry = entry_of(Unit::load(part.cell + plan.cell));
    return true;
  }

  template <class Unit>
  ISOTHERM_HOST_DEVICE static void commit_insert(const Unit& unit, CuckooPart& part,
                                                 const CacheInsert& plan, Pair pair) {
    if (!unit.leads()) return;
    store_pair(&part.entry[plan.entry], pair);
    Unit::store(part.cell + plan.cell, cell_of(CuckooPart::spot(pair.first).signature, plan.entry));
  }

  template <class Unit>
  ISOTHERM_HOST_DEVICE static void erase(const Unit& unit, CuckooPart& part,
                                         const CachePlace& place) {
    if (!unit.leads()) return;
    Unit::store(part.cell + place.cell, uint64_t{place.entry ^ place.cell} << 32);
    Unit::store(&part.entry[place.entry].first, uint64_t{0});
    Unit::store(&part.full, Unit::load(&part.full) & ~(uint64_t{1} << place.cell / cells));
  }

  // Puts an absent key into one of the `empty` cells of its buckets (find_place), by a lane alone
  // and without the lock. False where others have taken them all. Other lanes look for other keys
  // and put them meanwhile, and nobody does anything else: a cell is taken once, by a
  // compare-and-swap, and its free entry with it. Whoever finds the cell before its entry is
  // written reads the hash 0 there, which is not the one it looks for: a key of that hash has the
  // signature 0, and no key of that signature is put here.
  template <class Lane>
  ISOTHERM_HOST_DEVICE static bool insert_alone(CuckooPart& part, Pair pair, uint32_t empty) {
    const Spot spot = CuckooPart::spot(pair.first);
    if (spot.signature == 0) return false;
    while (empty != 0) {
      const uint32_t which = (empty & all_cells) != 0 ? 0 : 1;
      const uint32_t here = empty >> which * cells & all_cells;
      const uint32_t bucket = which == 0 ? spot.bucket[0] : spot.bucket[1];
      const uint32_t at = bucket * cells + nearest(here, spot.signature);
      // Nearly all empty cells have the entry of their own number.
      for (uint64_t expected = 0; is_empty(expected);) {
        const uint32_t number = free_entry(expected, at);
        const uint64_t its =
            Lane::compare_exchange(part.cell + at, expected, cell_of(spot.signature, number));
        if (its == expected) {
          store_pair(&part.entry[number], pair);
          if ((here & (here - 1)) == 0) Lane::atomic_or(&part.full, uint64_t{1} << bucket);
          return true;
        }
        expected = its;
      }
      empty &= ~(1u << (which * cells + at % cells));
    }
    return false;
  }

  // Which entries there are, for walks. Nothing moves meanwhile.
  ISOTHERM_HOST_DEVICE EntryBits<entries> in_use() const {
    EntryBits<entries> bits;
    for (const uint64_t its : cell) {
      if (!is_empty(its)) bits.set(entry_of(its));
    }
    return bits;
  }

#if !defined(__CUDACC__)
  // Prefetches what a lookup on the host reads, in its order.
  ISOTHERM_INLINE static void prefetch(CuckooPart& part, uint64_t hash) {
    __builtin_prefetch(part.cell + hash % buckets * cells);
  }
  ISOTHERM_INLINE static void prefetch_entry(CuckooPart& part, uint64_t hash) {
    const Spot spot = CuckooPart::spot(hash);
    const uint32_t candidates =
        mask_of(HostUnit(), part.cell + spot.bucket[0] * cells,
                [&](uint64_t its) { return static_cast<uint32_t>(its >> 32) == spot.signature; });
    if (candidates == 0) {
      __builtin_prefetch(part.cell + spot.bucket[1] * cells);
      return;
    }
    const uint32_t i = cache_internal::lowest(candidates);
    const uint64_t cell = HostUnit::load(&part.cell[spot.bucket[0] * cells + i]);
    __builtin_prefetch(&part.entry[(cell - 1) % entries]);
  }
#endif

 private:
  static constexpr uint32_t none = ~uint32_t{0};
  static constexpr uint64_t mark = uint64_t{1} << 31;
  static constexpr uint32_t all_cells = (1u << cells) - 1;  // of a bucket, a bit each

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint32_t step_of(uint32_t signature) {
    return 1 + static_cast<uint32_t>(uint64_t{signature * 0x9e3779b1u} * (buckets - 1) >> 32);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint64_t cell_of(uint32_t signature, uint32_t entry) {
    return uint64_t{signature} << 32 | (entry + 1);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint32_t entry_of(uint64_t cell) {
    return static_cast<uint32_t>(cell & (mark - 1)) - 1;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static bool is_empty(uint64_t its) {
    return static_cast<uint32_t>(its) == 0;
  }
  // The entry that an empty cell has.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint32_t free_entry(uint64_t its, uint32_t at) {
    return (static_cast<uint32_t>(its >> 32) ^ at) % entries;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint32_t other_bucket(uint32_t bucket,
                                                                    uint64_t cell) {
    return bucket ^ step_of(static_cast<uint32_t>(cell >> 32));
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static bool is_open(uint64_t full, uint32_t bucket) {
    return (full >> bucket & 1) == 0;
  }

  // A bucket as a unit has read it, each lane its share of the cells. One that is null, of a unit
  // that only goes in step with others, looks empty.
  template <class Unit>
  struct ReadBucket {
    static constexpr uint32_t each = cells / Unit::lanes;
    const Unit& unit;
    const uint64_t* from;
    uint64_t mine[each] = {};

    ISOTHERM_HOST_DEVICE ISOTHERM_INLINE ReadBucket(const Unit& its_unit, const uint64_t* bucket)
        : unit(its_unit), from(bucket) {
      if (bucket == nullptr) return;
      const uint64_t* share = bucket + unit.number() * each;
      if constexpr (each == 1) {
        mine[0] = Unit::load(share);
      } else {
        for (uint32_t k = 0; k < each; k += 2) Unit::load_two(share + k, mine[k], mine[k + 1]);
      }
    }
    // The cells that `wanted` holds for, a bit each, as far as this lane has read them.
    template <class Wanted>
    ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t share(Wanted&& wanted) const {
      uint32_t bits = 0;
      for (uint32_t k = 0; k < each; ++k) bits |= (wanted(mine[k]) ? 1u : 0u) << k;
      return bits << unit.number() * each;
    }
    // A cell that was seen to have that signature. Who has read all of them finds it at hand, and
    // reads it again, so it may be another by now; others ask the lane that has read it.
    ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t cell(uint32_t number, uint32_t signature) const {
      if constexpr (each == cells) {
        return from != nullptr ? Unit::load(from + number) : 0;
      } else {
        auto location = static_cast<uint32_t>(mine[0]);
        for (uint32_t k = 1; k < each; ++k) {
          location = number % each == k ? static_cast<uint32_t>(mine[k]) : location;
        }
        return uint64_t{signature} << 32 | unit.from(location, number / each);
      }
    }
  };

  // The cells of a bucket that `wanted` holds for, a bit each.
  template <class Unit, class Wanted>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint32_t mask_of(const Unit& unit,
                                                               const uint64_t* bucket,
                                                               Wanted&& wanted) {
    return unit.either(ReadBucket<Unit>(unit, bucket).share(wanted));
  }

  template <bool compare, bool with_empty, class Unit>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static CachePlace look(const Unit& unit, CuckooPart* part,
                                                              uint64_t hash) {
    const Spot spot = CuckooPart::spot(hash);
    const auto matches = [&](uint64_t its) {
      return !is_empty(its) && static_cast<uint32_t>(its >> 32) == spot.signature;
    };
    CachePlace place;
    ISOTHERM_KEEP_ROLLED
    for (uint32_t which = 0; which < 2; ++which) {
      const bool looks = part != nullptr && !place.found;
      if (!unit.vote(looks)) break;
      const uint32_t first = (which == 0 ? spot.bucket[0] : spot.bucket[1]) * cells;
      const ReadBucket<Unit> bucket(unit, looks ? part->cell + first : nullptr);
      uint32_t share = bucket.share(matches);
      if constexpr (with_empty) {
        share |= bucket.share(is_empty) << cells;
      }
      const uint32_t seen = unit.either(share);
      if constexpr (with_empty) {
        if (looks) place.empty |= seen >> cells << which * cells;
      }
      uint32_t candidates = seen & all_cells;
      while (unit.vote(candidates != 0)) {
        const uint32_t i = candidates != 0 ? cache_internal::lowest(candidates) : 0;
        const uint64_t cell = bucket.cell(i, spot.signature);
        if (candidates == 0) continue;
        candidates &= candidates - 1;
        if (!matches(cell)) continue;
        const uint32_t entry = entry_of(cell);
        const Pair pair = load_pair(&part->entry[entry]);
        if (compare && pair.first != hash) continue;
        // An entry that was erased meanwhile has another.
        if (!compare && CuckooPart::spot(pair.first).signature != spot.signature) continue;
        place.hash = pair.first;
        place.word = pair.second;
        place.seen = cell;
        place.entry = entry;
        place.cell = first + i;
        place.found = true;
        candidates = 0;
      }
    }
    return place;
  }

  // Of the cells in `empty`, a bit each, of which there are some, the one next to the preferred
  // one.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint32_t nearest(uint32_t empty, uint32_t signature) {
    const uint32_t preferred = signature >> 29;
    const uint32_t turned = (empty | empty << cells) >> preferred;
    return (cache_internal::lowest(turned) + preferred) % cells;
  }
  template <class Unit>
  ISOTHERM_HOST_DEVICE static uint32_t empty_cells(const Unit& unit, const CuckooPart& part,
                                                   uint32_t bucket) {
    return mask_of(unit, part.cell + bucket * cells, is_empty);
  }
  template <class Unit>
  ISOTHERM_HOST_DEVICE static void note_full(const Unit& unit, CuckooPart& part, uint32_t bucket) {
    unit.sync();
    if (!unit.leads()) return;
    Unit::store(&part.full, Unit::load(&part.full) | uint64_t{1} << bucket);
  }

  // `full`: what the unit knows of full buckets.
  template <class Unit>
  ISOTHERM_HOST_DEVICE static bool has_empty_cell(const Unit& unit, CuckooPart& part,
                                                  uint32_t bucket, uint64_t& full) {
    if (!is_open(full, bucket)) return false;
    if (empty_cells(unit, part, bucket) != 0) return true;
    full |= uint64_t{1} << bucket;
    note_full(unit, part, bucket);
    return false;
  }
  // The empty cell of a bucket with one that is next to the preferred one; it counts as filled.
  template <class Unit>
  ISOTHERM_HOST_DEVICE static uint32_t empty_cell(const Unit& unit, CuckooPart& part,
                                                  uint32_t bucket, uint32_t signature) {
    const uint32_t empty = empty_cells(unit, part, bucket);
    if ((empty & (empty - 1)) == 0) note_full(unit, part, bucket);
    return bucket * cells + nearest(empty, signature);
  }
  // How a bucket was reached: by `cell` of the bucket of step `from`.
  struct Step {
    uint8_t bucket;
    uint8_t from;
    uint8_t cell;
  };

  // Moves cells along a path from a bucket of the key to an open one, where there is such a path;
  // the plan has the cell that is free then, and the entry that is.
  template <class Unit>
  ISOTHERM_HOST_DEVICE static void displace(const Unit& unit, CuckooPart& part, const Spot& spot,
                                            uint64_t& full, CacheTally& tally, CacheInsert& plan) {
    Step steps[most_steps];
    steps[0] = {static_cast<uint8_t>(spot.bucket[0]), 0xff, 0};
    steps[1] = {static_cast<uint8_t>(spot.bucket[1]), 0xff, 0};
    uint64_t seen = uint64_t{1} << spot.bucket[0] | uint64_t{1} << spot.bucket[1];
    uint32_t count = 2;
    for (uint32_t at = 0; at < count; ++at) {
      const uint32_t bucket = steps[at].bucket;
      const auto ends = [&](uint64_t its) { return is_open(full, other_bucket(bucket, its)); };
      for (;;) {
        const uint32_t cell = mask_of(unit, part.cell + bucket * cells, ends);
        if (cell == 0) break;
        const uint32_t i = cache_internal::lowest(cell);
        const uint64_t its = Unit::load(&part.cell[bucket * cells + i]);
        if (!has_empty_cell(unit, part, other_bucket(bucket, its), full)) continue;
        move_along(unit, part, steps, at, i, tally, plan);
        return;
      }
      for (uint32_t i = 0; i < cells && count < most_steps; ++i) {
        const uint32_t next = other_bucket(bucket, Unit::load(&part.cell[bucket * cells + i]));
        if ((seen >> next & 1) != 0) continue;
        seen |= uint64_t{1} << next;
        steps[count++] = {static_cast<uint8_t>(next), static_cast<uint8_t>(at),
                          static_cast<uint8_t>(i)};
      }
    }
  }

  // Every cell is copied before it is overwritten, so readers that see no change of the version
  // have met it.
  template <class Unit>
  ISOTHERM_HOST_DEVICE static void move_along(const Unit& unit, CuckooPart& part, const Step* steps,
                                              uint32_t step, uint32_t cell, CacheTally& tally,
                                              CacheInsert& plan) {
    uint32_t from = steps[step].bucket * cells + cell;
    uint64_t moved = Unit::load(part.cell + from);
    uint32_t to = empty_cell(unit, part, other_bucket(steps[step].bucket, moved),
                             static_cast<uint32_t>(moved >> 32));
    plan.entry = free_entry(Unit::load(part.cell + to), to);
    unit.sync();
    for (;;) {
      if (unit.leads()) Unit::store(part.cell + to, moved);
      ++tally.moved;
      plan.cell = from;
      if (steps[step].from == 0xff) return;
      to = from;
      cell = steps[step].cell;
      step = steps[step].from;
      from = steps[step].bucket * cells + cell;
      moved = Unit::load(part.cell + from);
    }
  }

  // The cell of the key's buckets whose entry goes, by CLOCK.
  template <class Unit>
  ISOTHERM_HOST_DEVICE static uint32_t victim(const Unit& unit, CuckooPart& part,
                                              const Spot& spot) {
    constexpr uint32_t all = 2 * cells;
    const auto marked = [](uint64_t its) { return (its & mark) != 0; };
    const uint32_t marks = mask_of(unit, part.cell + spot.bucket[0] * cells, marked) |
                           mask_of(unit, part.cell + spot.bucket[1] * cells, marked) << cells;
    const uint32_t hand = Unit::load(&part.hand) % all;
    const uint32_t turned = ~((marks | marks << all) >> hand) & ((1u << all) - 1);
    const uint32_t passed = turned != 0 ? cache_internal::lowest(turned) : all;
    unit.sync();
    for (uint32_t i = unit.number(); i < passed; i += Unit::lanes)
      unmark<Unit>(part, spot, hand + i);
    const uint32_t at = (hand + passed) % all;
    if (unit.leads()) Unit::store(&part.hand, at + 1);
    unit.sync();
    return spot.bucket[at / cells] * cells + at % cells;
  }
  template <class Unit>
  ISOTHERM_HOST_DEVICE static void unmark(CuckooPart& part, const Spot& spot, uint32_t at) {
    uint64_t* cell = &part.cell[spot.bucket[at / cells % 2] * cells + at % cells];
    Unit::store(cell, Unit::load(cell) & ~mark);
  }
};
static_assert(sizeof(CuckooPart) == 12352);

}  // namespace isotherm
