// EndMark: tells the host, by a word in pinned memory, that what the device did before is done.
//
// A host that looks at a word in its own memory learns of an end sooner, and at less cost, than by
// asking the driver. The fence makes all that the lane knows of visible to the host before the word
// is.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace isotherm {

struct EndMark {
  uint64_t* word = nullptr;  // of the host
  uint64_t number = 0;       // what it becomes

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void fence_host() {
#if defined(__CUDA_ARCH__)
    __threadfence_system();
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void set() const {
    fence_host();
#if defined(__CUDA_ARCH__)
    *static_cast<volatile uint64_t*>(word) = number;
#else
    __atomic_store_n(word, number, __ATOMIC_RELEASE);
#endif
  }
};

// Sets the mark when all that came before it in its stream has ended.
struct EndMarkKernel {
  static constexpr uint32_t threads = 32;

  EndMark mark;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    if (lane.thread() == 0) mark.set();
  }
};

}  // namespace isotherm
