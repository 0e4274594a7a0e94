// LaneUnit: 1, 2, 4 or 8 neighbouring lanes of a warp as the unit of a cache index
// (index/cache_unit.h).
//
// `in_step`: all lanes of the warp call together, and each step of a lookup is one of the whole
// warp, since units that went their own ways would be run one after another. Otherwise units are
// on their own, as tiles that write are.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "gpu/kernel/bits.h"

namespace isotherm {

template <class Lane, uint32_t count, bool in_step>
class LaneUnit {
 public:
  static constexpr uint32_t lanes = count;
  static_assert(count == 1 || count == 2 || count == 4 || count == 8);

  ISOTHERM_HOST_DEVICE explicit LaneUnit(const Lane& lane)
      : lane_(lane),
        number_(lane.thread() % count),
        base_(lane.thread() % 32 / count * count),
        mask_(((1u << count) - 1) << base_) {}

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t number() const { return number_; }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool leads() const { return number_ == 0; }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t either(uint32_t bits) const {
    for (uint32_t step = 1; step < count; step *= 2) bits |= shuffled(bits, lane_.thread() ^ step);
    return bits;
  }
  template <class T>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE T from(T value, uint32_t lane) const {
    if constexpr (count == 1) return value;
    return shuffled(value, base_ + lane);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool vote(bool predicate) const {
    if constexpr (!in_step) return predicate;
    return lane_.ballot(whole_warp, predicate) != 0;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void sync() const { lane_.sync_warp(mask_); }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void meet() const {
    Lane::fence();
    sync();
  }

  template <class T>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static T load(const T* at) {
    return Lane::load(at);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void load_two(const uint64_t* at, uint64_t& first,
                                                            uint64_t& second) {
    Lane::load_two(at, first, second);
  }
  template <class T>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void store(T* at, T value) {
    Lane::store(at, value);
  }
  template <class T>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static T compare_exchange(T* at, T expected, T desired) {
    return Lane::compare_exchange(at, expected, desired);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void wait() {}

 private:
  template <class T>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE T shuffled(T value, uint32_t source) const {
    return lane_.shuffle(in_step ? whole_warp : mask_, value, source % 32);
  }

  const Lane& lane_;
  uint32_t number_;
  uint32_t base_;
  uint32_t mask_;
};

}  // namespace isotherm
