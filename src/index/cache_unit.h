// Units: who works on one request to a cache index, on either side; and what its parts share.
//
// A cache index is of a fixed size: an array of parts, each with room for so many entries and
// nothing but itself to touch for a request. CuckooPart (index/cuckoo_part.h) has 512 entries in
// 64 buckets, SetPart (index/set_part.h) 16 in one set. Where a part has no room for a new key, an
// older entry is evicted; nothing is ever refused. One text runs on the CPU and on a GPU, over a
// Unit, whose lanes call every function together with equal arguments and get equal results:
//   lanes, number(), leads()   1 lane on the CPU (HostUnit), 1 to 8 of a warp
//                              (gpu/kernel/lane_unit.h)
//   either(bits)               the bits that any lane of the unit has
//   from(value, lane)          what that lane of the unit has
//   vote(bool)                 whether any unit that goes in step with this one says so
//   sync()                     what each lane of the unit wrote before is seen by all of them
//   meet()                     and by everybody, before what follows
//   load, load_two, store, compare_exchange
//
// Layout. A part of zeroed memory is empty. An entry is a pair {hash, word}, read and written as
// one unit of 16 bytes. Hashes come from a bijection of the keys, so equal hashes are equal keys,
// and a pair says by itself whose it is.
//
// Threads. Writers hold the part's lock; its version is odd meanwhile. Readers take no lock. What
// they find is right at once: it is a pair that the key had during the request. That they find
// nothing is right if no cell moved meanwhile, which the version says (`read_part`). On a GPU
// nobody writes while lookups run, but for marks and time stamps.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <thread>

#include "base/macros.h"
#include "base/pair.h"
#include "index/probe.h"

namespace isotherm {

// What writers have done, counted by each unit.
struct CacheTally {
  int64_t entries = 0;
  uint64_t evicted = 0;
  uint64_t moved = 0;  // entries that were displaced
};

// Where the entry of a key is; `hash` and `word` are what lies there.
struct CachePlace {
  uint64_t hash = 0;
  uint64_t word = 0;
  uint64_t seen = 0;   // of the kind: what says that it is there
  uint32_t entry = 0;  // its number within the part
  uint32_t cell = 0;
  bool found = false;
  uint32_t empty = 0;  // cells of the key's buckets, a bit each, where they were asked for
};

// Where a new entry goes (Part::plan_insert). A plan that evicts nobody has to be carried out; one
// that evicts is given up, or changed, as long as nothing else was done to the part.
struct CacheInsert {
  uint32_t entry = 0;
  uint32_t cell = 0;
  uint32_t stamp = 0;
  uint32_t kept = 0;  // entries that have to stay, a bit each, as the kind counts them
  bool evicts = false;
};

// Entries of a part, a bit each.
template <uint32_t entries>
class EntryBits {
 public:
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void set(uint32_t number) {
    words_[number / 64] |= uint64_t{1} << number % 64;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool has(uint32_t number) const {
    return (words_[number / 64] >> number % 64 & 1) != 0;
  }

 private:
  uint64_t words_[(entries + 63) / 64] = {};
};

struct HostUnit {
  static constexpr uint32_t lanes = 1;
  static uint32_t number() { return 0; }
  static bool leads() { return true; }
  static bool vote(bool predicate) { return predicate; }
  static uint32_t either(uint32_t bits) { return bits; }
  template <class T>
  static ISOTHERM_INLINE T from(T value, uint32_t /*lane*/) {
    return value;
  }
  static void sync() {}
  static void meet() {}

  template <class T>
  static ISOTHERM_INLINE T load(const T* at) {
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
  }
  static ISOTHERM_INLINE void load_two(const uint64_t* at, uint64_t& first, uint64_t& second) {
    first = load(at);
    second = load(at + 1);
  }
  template <class T>
  static ISOTHERM_INLINE void store(T* at, T value) {
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
  }
  // The old value.
  template <class T>
  static ISOTHERM_INLINE T compare_exchange(T* at, T expected, T desired) {
    __atomic_compare_exchange_n(at, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return expected;
  }
  // Between two tries of something that another thread is about to end.
  static void wait() { std::this_thread::yield(); }
};

namespace cache_internal {

// The number of the lowest bit of a mask that is not 0.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t lowest(uint64_t mask) {
#if defined(__CUDA_ARCH__)
  return static_cast<uint32_t>(__ffsll(static_cast<long long>(mask)) - 1);
#else
  return static_cast<uint32_t>(__builtin_ctzll(mask));
#endif
}

}  // namespace cache_internal

// How many parts a cache index has that may take `bytes`, or, if that is 0, holds `entries`. Throws
// std::invalid_argument.
template <class Part>
uint64_t parts_for(uint64_t bytes, uint64_t entries) {
  const uint64_t parts =
      bytes != 0 ? bytes / sizeof(Part) : entries / Part::entries + (entries % Part::entries != 0);
  if (parts == 0) {
    throw std::invalid_argument("an index of a fixed size has to be told memory or entries");
  }
  if (parts >> 32 != 0) throw std::invalid_argument("an index of more than 2^32 parts");
  return parts;
}

// The part of a hash, by its top 32 bits.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t part_of_hash(uint64_t hash, uint64_t parts) {
  return ((hash >> 32) * parts) >> 32;
}

// Shows the entries of a part that nobody changes meanwhile.
template <class Part, class Visit>
void each_entry(const Part& part, Visit&& visit) {
  const auto in_use = part.in_use();
  for (uint32_t i = 0; i < Part::entries; ++i) {
    if (in_use.has(i)) visit(load_pair(&part.entry[i]));
  }
}

template <class Unit>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void lock_part(const Unit& unit, uint32_t* version) {
  if (unit.leads()) {
    for (;;) {
      const uint32_t seen = Unit::load(version);
      if (seen % 2 == 0 && Unit::compare_exchange(version, seen, seen + 1) == seen) break;
      Unit::wait();
    }
  }
  unit.meet();
}

template <class Unit>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void unlock_part(const Unit& unit, uint32_t* version) {
  unit.meet();
  if (unit.leads()) Unit::store(version, Unit::load(version) + 1);
}

// Looks a key up beside writers.
template <class Part, bool compare = true, class Unit>
ISOTHERM_INLINE CachePlace read_part(const Unit& unit, Part& part, uint64_t hash) {
  for (;;) {
    const uint32_t before = Unit::load(&part.version);
    const CachePlace place = Part::template find<compare>(unit, &part, hash);
    if (place.found || !Part::moves) return place;
    if (before % 2 == 0 && Unit::load(&part.version) == before) return place;
    Unit::wait();
  }
}

// Does with the entry of a key what decide(found, word) says (index/probe.h); the state before.
// `time`: of the request, which orders those of a set.
template <class Part, class Unit, class Decide>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Found update_part(const Unit& unit, Part& part, uint64_t hash,
                                                       uint64_t time, CacheTally& tally,
                                                       Decide&& decide) {
  lock_part(unit, &part.version);
  const CachePlace place = Part::find(unit, &part, hash);
  const Decision to = decide(place.found, place.word);
  unit.sync();  // all lanes have read what one of them is about to write
  if (!place.found) {
    if (to.action == Action::store) Part::insert(unit, part, {hash, to.word}, time, tally);
  } else if (to.action == Action::erase) {
    Part::erase(unit, part, place);
    --tally.entries;
  } else {
    if (to.action == Action::store && unit.leads()) {
      store_pair(&part.entry[place.entry], {hash, to.word});
    }
    Part::touch(unit, part, place, time, 0);
  }
  unlock_part(unit, &part.version);
  return {place.found, place.word};
}

}  // namespace isotherm
