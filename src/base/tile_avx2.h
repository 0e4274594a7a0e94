// TileAvx2: a line compared in four 32-byte loads, whose hashes are gathered in two registers.
// Include only from files named *_avx2.cc, which are compiled for it. See base/tile.h.
#pragma once

#include <immintrin.h>

#include "base/tile.h"

namespace isotherm {

struct TileAvx2 : TileHost {
  template <class Line>
  static ISOTHERM_INLINE uint32_t match(const Line* view, uint64_t hash) {
    static_assert(Line::slots == 8);
    const __m256i wanted = _mm256_set1_epi64x(static_cast<int64_t>(hash));
    const auto* two_slots = reinterpret_cast<const __m256i*>(&view->slot[0]);
    // A bit for each of the slots 0 2 1 3 4 6 5 7, in this order.
    const uint32_t mixed = match_four(two_slots, wanted) | match_four(two_slots + 2, wanted) << 4;
    const uint32_t mask = (mixed & 0x99) | (mixed & 0x22) << 1 | (mixed & 0x44) >> 1;
    asm volatile("" ::: "memory");
    return mask;
  }

 private:
  // A bit for each of the slots 0 2 1 3.
  static ISOTHERM_INLINE uint32_t match_four(const __m256i* two_slots, __m256i wanted) {
    const __m256i hashes =
        _mm256_unpacklo_epi64(_mm256_load_si256(two_slots), _mm256_load_si256(two_slots + 1));
    return static_cast<uint32_t>(
        _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(hashes, wanted))));
  }
};

}  // namespace isotherm
