// TileAvx512: a line compared in two 64-byte loads. Include only from files named *_avx512.cc,
// which are compiled for it. See base/tile.h.
#pragma once

#include <immintrin.h>

#include "base/tile.h"

namespace isotherm {

struct TileAvx512 : TileHost {
  template <class Line>
  static ISOTHERM_INLINE uint32_t match(const Line* view, uint64_t hash) {
    static_assert(Line::slots == 8);
    const __m512i wanted = _mm512_set1_epi64(static_cast<int64_t>(hash));
    constexpr __mmask8 hashes = 0x55;  // lanes of hashes; the others are words
    const auto low = static_cast<uint32_t>(_mm512_mask_cmpeq_epi64_mask(
        hashes, _mm512_load_si512(reinterpret_cast<const void*>(&view->slot[0])), wanted));
    const auto high = static_cast<uint32_t>(_mm512_mask_cmpeq_epi64_mask(
        hashes, _mm512_load_si512(reinterpret_cast<const void*>(&view->slot[4])), wanted));
    asm volatile("" ::: "memory");
    return _pext_u32(low | high << 8, 0x5555);
  }
};

}  // namespace isotherm
