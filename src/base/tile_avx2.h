// TileAvx2: a line compared in four 32-byte loads. Include only from files named *_avx2.cc, which
// are compiled for it. See base/tile.h.
#pragma once

#include <immintrin.h>

#include "base/tile.h"

namespace isotherm {

struct TileAvx2 : TileHost {
  template <class Line>
  static ISOTHERM_INLINE uint32_t match(const Line* view, uint64_t hash) {
    static_assert(Line::slots == 8);
    const __m256i wanted = _mm256_set1_epi64x(static_cast<int64_t>(hash));
    uint32_t mask = 0;
    for (int i = 0; i < 4; ++i) {
      // Two slots: hash word hash word; lanes 0 and 2 hold hashes.
      const __m256i two = _mm256_load_si256(reinterpret_cast<const __m256i*>(&view->slot[2 * i]));
      const auto equal = static_cast<uint32_t>(
          _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(two, wanted))));
      mask |= ((equal & 1) | ((equal >> 1) & 2)) << (2 * i);
    }
    asm volatile("" ::: "memory");
    return mask;
  }
};

}  // namespace isotherm
