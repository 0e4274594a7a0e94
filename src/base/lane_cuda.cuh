// LaneCuda: one thread of a kernel, as the GPU runs it.
//
// Kernels are written over a Lane, so that the fake device of the tests can run the same bodies. A
// lane knows where it stands (thread, block), takes part in collectives of its warp (all lanes of
// `mask` call together, with equal masks) and of its block, and has the atomics of device scope,
// which are relaxed and return the old value.
//
// Kernels with a member type `Shared` have one of them per block, uninitialised.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/macros.h"

namespace isotherm {

namespace lane_cuda_internal {

// What CUDA's atomics call the type.
template <class T>
using Word = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned int>;

template <class T>
__device__ ISOTHERM_INLINE Word<T>* word(T* at) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  return reinterpret_cast<Word<T>*>(at);
}

}  // namespace lane_cuda_internal

struct LaneCuda {
  // A kernel that waits for the host runs beside it.
  static constexpr bool takes_steps = false;

  __device__ static uint32_t thread() { return threadIdx.x; }
  __device__ static uint32_t threads() { return blockDim.x; }
  __device__ static uint32_t block() { return blockIdx.x; }
  __device__ static uint32_t blocks() { return gridDim.x; }

  __device__ static uint32_t ballot(uint32_t mask, bool predicate) {
    return __ballot_sync(mask, predicate);
  }
  template <class T>
  __device__ static T shuffle(uint32_t mask, T value, uint32_t source) {
    return __shfl_sync(mask, value, static_cast<int>(source));
  }
  __device__ static uint32_t match(uint32_t mask, uint32_t value) {
    return __match_any_sync(mask, value);
  }
  __device__ static void sync_warp(uint32_t mask) { __syncwarp(mask); }
  __device__ static void sync_block() { __syncthreads(); }
  // All lanes that share memory of one kind after another: those of a larger block, too, that this
  // one is a part of.
  __device__ static void sync_all() { __syncthreads(); }
  template <class T>
  __device__ static T* shared() {
    extern __shared__ __align__(16) unsigned char memory[];
    return reinterpret_cast<T*>(memory);
  }

  template <class T>
  __device__ static T atomic_add(T* at, T value) {
    using lane_cuda_internal::word;
    return static_cast<T>(atomicAdd(word(at), static_cast<lane_cuda_internal::Word<T>>(value)));
  }
  __device__ static float atomic_add(float* at, float value) { return atomicAdd(at, value); }
  template <class T>
  __device__ static T atomic_or(T* at, T value) {
    return static_cast<T>(atomicOr(lane_cuda_internal::word(at), value));
  }
  template <class T>
  __device__ static T atomic_max(T* at, T value) {
    static_assert(std::is_unsigned_v<T>);
    return static_cast<T>(atomicMax(lane_cuda_internal::word(at), value));
  }
  template <class T>
  __device__ static T atomic_min(T* at, T value) {
    static_assert(std::is_unsigned_v<T>);
    return static_cast<T>(atomicMin(lane_cuda_internal::word(at), value));
  }
  template <class T>
  __device__ static T atomic_exchange(T* at, T value) {
    return static_cast<T>(atomicExch(lane_cuda_internal::word(at), value));
  }
  template <class T>
  __device__ static T compare_exchange(T* at, T expected, T desired) {
    return static_cast<T>(atomicCAS(lane_cuda_internal::word(at), expected, desired));
  }
  template <class T>
  __device__ static T load(const T* at) {
    return *static_cast<const volatile T*>(at);
  }
  template <class T>
  __device__ static void store(T* at, T value) {
    *static_cast<volatile T*>(at) = value;
  }
  // Two words in one access, each of them whole. `at` is aligned to both.
  __device__ static void load_two(const uint64_t* at, uint64_t& first, uint64_t& second) {
    asm volatile("ld.volatile.global.v2.u64 {%0,%1}, [%2];"
                 : "=l"(first), "=l"(second)
                 : "l"(at)
                 : "memory");
  }
  __device__ static void store_two(uint64_t* at, uint64_t first, uint64_t second) {
    asm volatile("st.volatile.global.v2.u64 [%0], {%1,%2};"
                 :
                 : "l"(at), "l"(first), "l"(second)
                 : "memory");
  }
  __device__ static void fence() { __threadfence(); }
  __device__ static void fence_system() { __threadfence_system(); }
};

// A lane of one of the blocks of `size` threads that a larger block is made of.
template <uint32_t size>
struct PartLaneCuda : LaneCuda {
  __device__ static uint32_t part() { return threadIdx.x / size; }
  __device__ static uint32_t parts() { return blockDim.x / size; }
  __device__ static uint32_t thread() { return threadIdx.x % size; }
  __device__ static uint32_t threads() { return size; }
  __device__ static uint32_t block() { return blockIdx.x * parts() + part(); }
  __device__ static uint32_t blocks() { return gridDim.x * parts(); }
  // Barrier 0 is that of the whole block.
  __device__ static void sync_block() {
    asm volatile("bar.sync %0, %1;" ::"r"(part() + 1), "n"(size) : "memory");
  }
  template <class T>
  __device__ static T* shared() {
    return LaneCuda::shared<T>() + part();
  }
};

}  // namespace isotherm
