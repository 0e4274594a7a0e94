// SetPart: a set of 16 ways, with the least recently used one evicted.
//
//   bytes 0    version, base
//         16   tags: 8 bits a way, 0 where it is empty
//         32   time stamps: 32 bits a way, counted from the base
//         96   16 entries {hash, word}
//   22 bytes an entry
//
// Time is a count of requests, given by the caller: a set is, whatever the order in which requests
// reach it, what their arrival order makes of it. An entry's stamp is the time of its last request;
// a new key takes an empty way, or that of the oldest stamp; and where all of them are newer than
// the request itself, the new entry is the one that goes at once. So the 16 newest stay, also of a
// batch whose requests are run in any order. Stamps of lookups are let stand if they are no older
// than `slack`, so hot keys are not written all the time.
//
// The base follows the time when stamps come near their end (2^32 requests); what is older than
// that has stamp 0. A lookup that writes its stamp just then may make its entry look newer.
//
// Sources. MemcachedGPU, sections 4.2.1 (16 ways, tags, LRU within a set), 4.2.2 (a lock a set).
#pragma once

#include "index/cache_unit.h"

namespace isotherm {

struct alignas(32) SetPart {
  static constexpr uint32_t entries = 16;
  static constexpr bool moves = false;
  static constexpr bool by_time = true;

  uint32_t version;
  uint32_t unused;
  uint64_t base;
  uint64_t tags[2];
  uint32_t stamp[entries];
  Pair entry[entries];

  // The entry of a key; without `compare` the first that has its tag. `part` is null where the unit
  // only goes in step with others.
  template <bool compare = true, class Unit>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static CachePlace find(const Unit& unit, SetPart* part,
                                                              uint64_t hash) {
    uint64_t tags[2] = {};
    if (part != nullptr) Unit::load_two(part->tags, tags[0], tags[1]);
    uint64_t low = equal_bytes(tags[0], tag_of(hash));
    uint64_t high = equal_bytes(tags[1], tag_of(hash));
    CachePlace place;
    while (unit.vote((low | high) != 0)) {
      if ((low | high) == 0) continue;
      const uint32_t way = take_way(low, high);
      const Pair pair = load_pair(&part->entry[way]);
      if (compare && pair.first != hash) continue;
      place = {pair.first, pair.second, 0, way, way, true};
      low = high = 0;
    }
    return place;
  }

  template <class Unit>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void touch(const Unit& unit, SetPart& part,
                                                         const CachePlace& place, uint64_t time,
                                                         uint64_t slack) {
    const uint32_t mine = since(time, Unit::load(&part.base));
    if (Unit::load(&part.stamp[place.entry]) + slack >= mine || !unit.leads()) return;
    Unit::store(&part.stamp[place.entry], mine);
  }

  // The rest under the lock. `pair` is of a key that is absent. Where all entries are newer than
  // the request, its own is the one that is evicted.
  template <class Unit>
  ISOTHERM_HOST_DEVICE static void insert(const Unit& unit, SetPart& part, Pair pair, uint64_t time,
                                          CacheTally& tally) {
    const CacheInsert plan = plan_insert(unit, part, pair.first, time, tally);
    if (plan.evicts) {
      ++tally.evicted;
    } else {
      ++tally.entries;
    }
    // Lookups stamp entries meanwhile, so lanes may plan differently. What the leader sees counts,
    // and the others go in step with it.
    const bool is_too_old = plan.evicts && Unit::load(&part.stamp[plan.entry]) > plan.stamp;
    unit.sync();
    if (!is_too_old) commit_insert(unit, part, plan, pair);
  }

  // Where the entry of an absent key will be, and whether it takes another's place there. Nothing
  // is changed for it.
  template <class Unit>
  ISOTHERM_HOST_DEVICE static CacheInsert plan_insert(const Unit& unit, SetPart& part,
                                                      uint64_t /*hash*/, uint64_t time,
                                                      CacheTally& /*tally*/) {
    CacheInsert plan;
    plan.stamp = stamp_for(unit, part, time);
    uint64_t low = equal_bytes(Unit::load(&part.tags[0]), 0);
    uint64_t high = equal_bytes(Unit::load(&part.tags[1]), 0);
    plan.evicts = (low | high) == 0;
    plan.entry = plan.cell = plan.evicts ? oldest<Unit>(part, 0) : take_way(low, high);
    return plan;
  }

  // Of a plan that evicts: another entry, where the planned one has to stay. False: all have to.
  template <class Unit>
  ISOTHERM_HOST_DEVICE static bool plan_another(const Unit& /*unit*/, SetPart& part,
                                                uint64_t /*hash*/, CacheInsert& plan) {
    plan.kept |= 1u << plan.entry;
    if (plan.kept == (1u << entries) - 1) return false;
    plan.entry = plan.cell = oldest<Unit>(part, plan.kept);
    return true;
  }

  template <class Unit>
  ISOTHERM_HOST_DEVICE static void commit_insert(const Unit& unit, SetPart& part,
                                                 const CacheInsert& plan, Pair pair) {
    if (!unit.leads()) return;
    store_pair(&part.entry[plan.entry], pair);
    Unit::store(&part.stamp[plan.entry], plan.stamp);
    set_tag<Unit>(part, plan.entry, tag_of(pair.first));
  }

  template <class Unit>
  ISOTHERM_HOST_DEVICE static void erase(const Unit& unit, SetPart& part, const CachePlace& place) {
    if (unit.leads()) set_tag<Unit>(part, place.entry, 0);
  }

  // Which entries there are, for walks.
  ISOTHERM_HOST_DEVICE EntryBits<entries> in_use() const {
    EntryBits<entries> bits;
    for (uint32_t i = 0; i < entries; ++i) {
      if ((tags[i / 8] >> i % 8 * 8 & 0xff) != 0) bits.set(i);
    }
    return bits;
  }

#if !defined(__CUDACC__)
  // Prefetches what a lookup on the host reads, in its order.
  ISOTHERM_INLINE static void prefetch(SetPart& part, uint64_t /*hash*/) {
    __builtin_prefetch(&part);
    __builtin_prefetch(&part.stamp[entries - 1]);
  }
  ISOTHERM_INLINE static void prefetch_entry(SetPart& part, uint64_t hash) {
    uint64_t low = equal_bytes(HostUnit::load(&part.tags[0]), tag_of(hash));
    uint64_t high = equal_bytes(HostUnit::load(&part.tags[1]), tag_of(hash));
    if ((low | high) != 0) __builtin_prefetch(&part.entry[take_way(low, high)]);
  }
#endif

 private:
  static constexpr uint32_t latest = ~uint32_t{0};

  // 1 to 255, by bits that do not pick the set.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint64_t tag_of(uint64_t hash) {
    return 1 + ((hash & 0xffff) * 255 >> 16);
  }
  // 0x80 in every byte of `word` that is `byte`.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint64_t equal_bytes(uint64_t word, uint64_t byte) {
    constexpr uint64_t low_bits = 0x7f7f7f7f7f7f7f7f;
    const uint64_t x = word ^ byte * 0x0101010101010101;
    return ~(((x & low_bits) + low_bits) | x | low_bits);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint32_t take_way(uint64_t& low, uint64_t& high) {
    const bool is_low = low != 0;
    const uint64_t from = is_low ? low : high;
    low = is_low ? from & (from - 1) : 0;
    high = is_low ? high : from & (from - 1);
    return cache_internal::lowest(from) / 8 + (is_low ? 0 : 8);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint32_t since(uint64_t time, uint64_t base) {
    if (time <= base) return 0;
    return time - base < latest ? static_cast<uint32_t>(time - base) : latest;
  }

  template <class Unit>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void set_tag(SetPart& part, uint32_t way,
                                                           uint64_t tag) {
    uint64_t* word = &part.tags[way / 8];
    const uint32_t shift = way % 8 * 8;
    Unit::store(word, (Unit::load(word) & ~(uint64_t{0xff} << shift)) | tag << shift);
  }

  // Of those that are not in `kept`, a bit each.
  template <class Unit>
  ISOTHERM_HOST_DEVICE static uint32_t oldest(const SetPart& part, uint32_t kept) {
    uint32_t way = entries;
    uint32_t least = latest;
    for (uint32_t i = 0; i < entries; ++i) {
      const uint32_t its = Unit::load(&part.stamp[i]);
      if ((kept >> i & 1) != 0 || (way != entries && its >= least)) continue;
      least = its;
      way = i;
    }
    return way;
  }

  // The stamp of `time`, for which the base may have to follow.
  template <class Unit>
  ISOTHERM_HOST_DEVICE static uint32_t stamp_for(const Unit& unit, SetPart& part, uint64_t time) {
    constexpr uint32_t kept = 1u << 30;
    constexpr uint32_t most = 3u << 30;
    const uint64_t base = Unit::load(&part.base);
    if (time <= base || time - base < most) return since(time, base);
    const uint64_t next = time - kept;
    const uint64_t by = next - base;
    unit.sync();
    for (uint32_t i = unit.number(); i < entries; i += Unit::lanes) {
      const uint32_t its = Unit::load(&part.stamp[i]);
      Unit::store(&part.stamp[i], its > by ? static_cast<uint32_t>(its - by) : 0);
    }
    if (unit.leads()) Unit::store(&part.base, next);
    unit.sync();
    return kept;
  }
};
static_assert(sizeof(SetPart) == 352);

}  // namespace isotherm
