// Macros shared by code that compiles for the CPU (g++, clang) and for the GPU (nvcc).
//
// ISOTHERM_HOST_DEVICE marks a function that both sides call. ISOTHERM_INLINE is for the few
// functions of the probe loop that must be inlined into the code of one instruction set. Under a
// sanitizer that takes clang three times as long, for checks that are inlined with them; there each
// unit keeps copies of its own instead, so that none serves another instruction set.
#pragma once

#if defined(__CUDACC__)
#define ISOTHERM_HOST_DEVICE __host__ __device__
#define ISOTHERM_INLINE __forceinline__
#elif defined(__clang__) && defined(ISOTHERM_SANITIZED_BUILD)
#define ISOTHERM_HOST_DEVICE
#define ISOTHERM_INLINE inline __attribute__((internal_linkage))
#else
#define ISOTHERM_HOST_DEVICE
#define ISOTHERM_INLINE inline __attribute__((always_inline))
#endif

// Stands before a loop of a kernel that is not to be unrolled: its copies would cost more in
// registers than they save in time.
#if defined(__CUDA_ARCH__)
#define ISOTHERM_KEEP_ROLLED _Pragma("unroll 1")
#else
#define ISOTHERM_KEEP_ROLLED
#endif

// Stands before a function template of both sides that calls what only one side has, where it is
// called there alone.
#if defined(__CUDACC__)
#define ISOTHERM_EITHER_SIDE _Pragma("nv_exec_check_disable")
#else
#define ISOTHERM_EITHER_SIDE
#endif

#define ISOTHERM_LIKELY(x) __builtin_expect(static_cast<bool>(x), 1)
#define ISOTHERM_UNLIKELY(x) __builtin_expect(static_cast<bool>(x), 0)
