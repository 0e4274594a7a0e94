// Compare-and-swap of a pair on GPUs before sm_90, which swap 64 bits at most: under one of some
// spin locks, by the pair's address. On these GPUs it is slower, and everything else is the same.
//
// What keeps it right is a rule of the index (gpu/write_place.h). While a kernel runs, an entry in
// the last slot of a line is changed by such swaps alone. In the other slots an entry is changed by
// the one writer of its key, and a free slot is claimed by its first word: so a swap on a free pair
// claims that word as others do, and any other swap compares and writes what only holders of its
// lock change. Readers see either pair whole, or, of a pair just claimed, the second word 0, as
// behind any claim.
//
// Progress. Lanes of a warp that want one lock take turns: the lane that has it ends its turn
// within the same iteration of the loop. Limits. The kernels of a module share the locks; memory
// 16 KiB a module. Not all checks pass with it yet (docs/gpu.md), so builds leave sm_80 out unless
// they are asked for it.
#pragma once

#include <cstdint>

#include "base/macros.h"

#if defined(__CUDACC__)

namespace isotherm::pair_locks {

inline constexpr uint32_t count = 4096;
[[maybe_unused]] static __device__ uint32_t locks[count];

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900

__device__ ISOTHERM_INLINE uint32_t* lock_of(const void* pair) {
  const uint64_t mixed = (reinterpret_cast<uint64_t>(pair) >> 4) * 0x9e3779b97f4a7c15;
  return &locks[mixed >> 52];
}

// What compare_exchange_pair says, of the words of an aligned pair. The caller holds the lock.
__device__ ISOTHERM_INLINE bool swap_held(volatile unsigned long long* at,
                                          const uint64_t (&expected)[2],
                                          const uint64_t (&desired)[2]) {
  uint64_t first;
  uint64_t second;
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0,%1}, [%2];"
               : "=l"(first), "=l"(second)
               : "l"(at)
               : "memory");
  if (first != expected[0] || second != expected[1]) return false;
  if (first == 0 && desired[0] != 0) {
    if (atomicCAS(const_cast<unsigned long long*>(at), 0ull, desired[0]) != 0) return false;
    at[1] = desired[1];
    return true;
  }
  asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1,%2};"
               :
               : "l"(at), "l"(desired[0]), "l"(desired[1])
               : "memory");
  return true;
}

__device__ ISOTHERM_INLINE bool swap(void* at, const uint64_t (&expected)[2],
                                     const uint64_t (&desired)[2]) {
  uint32_t* lock = lock_of(at);
  for (;;) {
    if (atomicCAS(lock, 0u, 1u) != 0) continue;
    __threadfence();
    const bool done = swap_held(static_cast<unsigned long long*>(at), expected, desired);
    __threadfence();
    atomicExch(lock, 0u);
    return done;
  }
}

#endif

}  // namespace isotherm::pair_locks

#endif
