// Pair: two 64-bit words that are read and written as one unit of 16 bytes.
//
// On the CPU. An aligned 16-byte SSE load or store is one memory access on every x86-64 processor
// with AVX (Intel and AMD document it); wider ones are not. load_pair and store_pair are therefore
// inline `movdqa` with a compiler barrier: on x86's memory model the load acquires and the store
// releases. compare_exchange_pair is `cmpxchg16b`. Under the thread sanitizer (clang's or g++'s)
// the same accesses go through 16-byte atomics, which it understands.
//
// On the GPU. Inline PTX: a relaxed 128-bit load, and atom.cas.b128; before sm_90, which has no
// such swap, base/pair_locks.h.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/pair_locks.h"

#if defined(__SANITIZE_THREAD__)
#define ISOTHERM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ISOTHERM_TSAN 1
#endif
#endif

#if !defined(__CUDA_ARCH__)
#include <emmintrin.h>
#endif

namespace isotherm {

struct alignas(16) Pair {
  uint64_t first;
  uint64_t second;

  friend ISOTHERM_HOST_DEVICE constexpr bool operator==(Pair a, Pair b) {
    return a.first == b.first && a.second == b.second;
  }
};

// In files compiled for AVX the encoding must be AVX's too: the two do not mix without a penalty of
// hundreds of cycles.
#if defined(__AVX__)
#define ISOTHERM_MOVE_PAIR "vmovdqa"
#else
#define ISOTHERM_MOVE_PAIR "movdqa"
#endif

#if !defined(__CUDA_ARCH__)
namespace pair_internal {

__extension__ typedef unsigned __int128 Unit;

ISOTHERM_INLINE Unit to_unit(Pair pair) {
  return static_cast<Unit>(pair.second) << 64 | pair.first;
}
ISOTHERM_INLINE Pair to_pair(Unit unit) {
  return {static_cast<uint64_t>(unit), static_cast<uint64_t>(unit >> 64)};
}

}  // namespace pair_internal
#endif

ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Pair load_pair(const Pair* from) {
#if defined(__CUDA_ARCH__)
  Pair pair;
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0,%1}, [%2];"
               : "=l"(pair.first), "=l"(pair.second)
               : "l"(from)
               : "memory");
  return pair;
#elif defined(ISOTHERM_TSAN)
  return pair_internal::to_pair(
      __atomic_load_n(reinterpret_cast<const pair_internal::Unit*>(from), __ATOMIC_ACQUIRE));
#else
  __m128i unit;
  asm volatile(ISOTHERM_MOVE_PAIR " %1, %0" : "=x"(unit) : "m"(*from) : "memory");
  Pair pair;
  __builtin_memcpy(&pair, &unit, sizeof pair);
  return pair;
#endif
}

// For a pair that nobody writes while the kernel runs: on the GPU the load may go through the L1
// cache.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Pair load_steady_pair(const Pair* from) {
#if defined(__CUDA_ARCH__)
  Pair pair;
  asm("ld.global.nc.v2.u64 {%0,%1}, [%2];" : "=l"(pair.first), "=l"(pair.second) : "l"(from));
  return pair;
#else
  return load_pair(from);
#endif
}

// On the GPU one 16-byte store of a lane; it needs no more, since writers claim by
// compare-and-swap.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void store_pair(Pair* to, Pair pair) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1,%2};"
               :
               : "l"(to), "l"(pair.first), "l"(pair.second)
               : "memory");
#elif defined(ISOTHERM_TSAN)
  __atomic_store_n(reinterpret_cast<pair_internal::Unit*>(to), pair_internal::to_unit(pair),
                   __ATOMIC_RELEASE);
#else
  __m128i unit;
  __builtin_memcpy(&unit, &pair, sizeof pair);
  asm volatile(ISOTHERM_MOVE_PAIR " %1, %0" : "=m"(*to) : "x"(unit) : "memory");
#endif
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define ISOTHERM_SWAP_PAIR(order)                                                           \
  asm volatile(                                                                             \
      "{ .reg .b128 c, n, o; mov.b128 c, {%2,%3}; mov.b128 n, {%4,%5};"                     \
      " atom." order ".gpu.global.cas.b128 o, [%6], c, n; mov.b128 {%0,%1}, o; }"           \
      : "=l"(first), "=l"(second)                                                           \
      : "l"(expected.first), "l"(expected.second), "l"(desired.first), "l"(desired.second), \
        "l"(at)                                                                             \
      : "memory")
#endif

// Stores `desired` where `*at` equals `expected`; true if it did. A thread that reads `desired`
// also sees what was written before it.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool compare_exchange_pair(Pair* at, Pair expected,
                                                                Pair desired) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  return pair_locks::swap(at, {expected.first, expected.second}, {desired.first, desired.second});
#elif defined(__CUDA_ARCH__)
  uint64_t first;
  uint64_t second;
  ISOTHERM_SWAP_PAIR("release");
  return first == expected.first && second == expected.second;
#elif defined(ISOTHERM_TSAN)
  pair_internal::Unit unit = pair_internal::to_unit(expected);
  return __atomic_compare_exchange_n(reinterpret_cast<pair_internal::Unit*>(at), &unit,
                                     pair_internal::to_unit(desired), false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE);
#else
  return __sync_bool_compare_and_swap(reinterpret_cast<pair_internal::Unit*>(at),
                                      pair_internal::to_unit(expected),
                                      pair_internal::to_unit(desired));
#endif
}

// The same for a pair that publishes nothing else. On the GPU it needs no fence; a fence costs a
// microsecond and the contents of the L1 cache.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool exchange_pair_alone(Pair* at, Pair expected,
                                                              Pair desired) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  return pair_locks::swap(at, {expected.first, expected.second}, {desired.first, desired.second});
#elif defined(__CUDA_ARCH__)
  uint64_t first;
  uint64_t second;
  ISOTHERM_SWAP_PAIR("relaxed");
  return first == expected.first && second == expected.second;
#else
  return compare_exchange_pair(at, expected, desired);
#endif
}

}  // namespace isotherm
