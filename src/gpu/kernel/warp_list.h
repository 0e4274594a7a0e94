// WarpList: rows that a warp leaves to a later kernel, on a list that all warps share.
//
// A warp keeps the rows it finds in shared memory and puts them on the list some 32 at a time: one
// counter for each of its rounds would be asked for by every warp of the device at once, and all
// would wait for it. The list is in no order.
//
// Threads. All lanes of a warp call together; flush() before the kernel ends. Memory. `room` rows
// of shared memory a warp.
#pragma once

#include <cstdint>

#include "gpu/kernel/bits.h"

namespace isotherm {

template <uint32_t threads>
struct WarpListShared {
  static constexpr uint32_t room = 64;
  uint32_t rows[threads / 32][room];
};

template <class Lane>
class WarpList {
 public:
  // `length` and `rows`: of the list, which has room for all rows that come.
  template <uint32_t threads>
  ISOTHERM_HOST_DEVICE WarpList(const Lane& lane, WarpListShared<threads>& shared, uint32_t* length,
                                uint32_t* rows)
      : lane_(lane), kept_(shared.rows[lane.thread() / 32]), length_(length), rows_(rows) {}

  // The rows of the lanes that `want` it.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void add(bool want, uint32_t row) {
    const uint32_t wanted = lane_.ballot(whole_warp, want);
    if (wanted == 0) return;
    if (want) kept_[count_ + count_below(wanted, number())] = row;
    count_ += count_bits(wanted);
    if (count_ > WarpListShared<lanes>::room - lanes) flush();
  }

  ISOTHERM_HOST_DEVICE void flush() {
    if (count_ == 0) return;
    uint32_t first = 0;
    if (number() == 0) first = Lane::atomic_add(length_, count_);
    lane_.sync_warp(whole_warp);  // what other lanes kept is there
    first = lane_.shuffle(whole_warp, first, 0);
    for (uint32_t i = number(); i < count_; i += lanes) rows_[first + i] = kept_[i];
    lane_.sync_warp(whole_warp);
    count_ = 0;
  }

 private:
  static constexpr uint32_t lanes = 32;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t number() const { return lane_.thread() & 31; }

  const Lane& lane_;
  uint32_t* kept_;
  uint32_t* length_;
  uint32_t* rows_;
  uint32_t count_ = 0;  // of what is kept; the same in all lanes
};

}  // namespace isotherm
