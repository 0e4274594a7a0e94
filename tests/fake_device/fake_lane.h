// FakeLane: what a kernel sees of the fake device; the Lane that its body is compiled for.
//
// A kernel is a trivially copyable functor, a template over its Lane, so that one text runs on a
// GPU and here:
//
//   struct Kernel {                            // parameters are members: device pointers, sizes
//     struct Shared { … };                     // optional: the block's shared memory
//     template <class Lane>
//     ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const;
//   };
//
// Lanes of a warp meet in `ballot`, `shuffle`, `match` and `sync_warp`: every lane of the mask must
// call the same one with the same mask. `sync_block` is for all lanes of the block that have not
// returned. The accesses below are relaxed. Each of them, and a fence, is where another lane may
// get its turn; the accesses of base/pair.h are used as they are and are not.
//
// Threads. Lanes run on one thread, in turns (fake_device/fake_grid.h, where the limits are, too).
// Limits. Values of 4 or 8 bytes; shared memory is not cleared and is at most 48 KiB.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "fake_device/fake_grid.h"

namespace isotherm {

class FakeLane {
 public:
  // A kernel that waits for the host ends after each look, and is repeated.
  static constexpr bool takes_steps = true;

  explicit FakeLane(FakeLaneState& state) : state_(&state) {}

  uint32_t thread() const { return state_->thread; }           // within the block
  uint32_t threads() const { return state_->block->threads; }  // of a block
  uint32_t block() const { return state_->block->number; }
  uint32_t blocks() const { return state_->block->blocks; }

  // The lanes of `mask` whose predicate holds, a bit each.
  uint32_t ballot(uint32_t mask, bool predicate) const {
    return static_cast<uint32_t>(meet({FakeCollective::ballot, mask, 0, predicate ? 1u : 0u}));
  }
  // The value of lane `source` of the warp, 0 to 31, which is in `mask`.
  template <class T>
  T shuffle(uint32_t mask, T value, uint32_t source) const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(uint64_t));
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = meet({FakeCollective::shuffle, mask, source, bits});
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  // The lanes of `mask` whose value equals this lane's, a bit each.
  uint32_t match(uint32_t mask, uint32_t value) const {
    return static_cast<uint32_t>(meet({FakeCollective::match, mask, 0, value}));
  }
  void sync_warp(uint32_t mask) const { meet({FakeCollective::sync_warp, mask, 0, 0}); }
  void sync_block() const { state_->grid->sync_block(*state_); }
  void sync_all() const { sync_block(); }  // a block is no part of another

  // The block's memory; T is the kernel's Shared.
  template <class T>
  T* shared() const {
    return static_cast<T*>(state_->grid->shared(*state_, sizeof(T)));
  }

  // Each returns the old value.
  template <class T>
  static T atomic_add(T* at, T value) {
    touch(at);
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
  }
  static float atomic_add(float* at, float value) {
    touch(at);
    const float old = *at;
    *at = old + value;
    return old;
  }
  template <class T>
  static T atomic_or(T* at, T value) {
    touch(at);
    return __atomic_fetch_or(at, value, __ATOMIC_RELAXED);
  }
  template <class T>
  static T atomic_max(T* at, T value) {
    touch(at);
    T old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (old < value && !replace(at, &old, value)) {
    }
    return old;
  }
  template <class T>
  static T atomic_min(T* at, T value) {
    touch(at);
    T old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (value < old && !replace(at, &old, value)) {
    }
    return old;
  }
  template <class T>
  static T atomic_exchange(T* at, T value) {
    touch(at);
    return __atomic_exchange_n(at, value, __ATOMIC_RELAXED);
  }
  template <class T>
  static T compare_exchange(T* at, T expected, T desired) {
    touch(at);
    replace(at, &expected, desired);
    return expected;
  }
  template <class T>
  static T load(const T* at) {
    touch(at);
    return __atomic_load_n(at, __ATOMIC_RELAXED);
  }
  template <class T>
  static void store(T* at, T value) {
    touch(at);
    // The host may wait for it, on another thread than the one that runs this, and the thread
    // sanitizer knows no fences.
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
  }
  // Two words in one access, each of them whole.
  static void load_two(const uint64_t* at, uint64_t& first, uint64_t& second) {
    first = load(at);
    second = load(at + 1);
  }
  static void store_two(uint64_t* at, uint64_t first, uint64_t second) {
    store(at, first);
    store(at + 1, second);
  }
  // Of the whole device.
  static void fence() {
    FakeGrid::breathe();
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
  }
  // With the host.
  static void fence_system() { fence(); }

 private:
  uint64_t meet(const FakeArrival& arrival) const { return state_->grid->meet(*state_, arrival); }

  template <class T>
  static void touch(const T* at) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    FakeGrid::access(at, sizeof(T));
  }
  template <class T>
  static bool replace(T* at, T* expected, T desired) {
    return __atomic_compare_exchange_n(at, expected, desired, false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
  }

  FakeLaneState* state_;
};

}  // namespace isotherm
