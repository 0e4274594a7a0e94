// DoneKernel: tells the host, by a word in pinned memory, that all before it in its stream is done.
//
// A host that looks at a word in its own memory learns of the end of a batch sooner and at less
// cost than by asking the driver. The kernel begins when all that came before it in the stream has
// ended and is visible to it; the fence makes that visible to the host before the word is.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace isotherm {

struct DoneKernel {
  static constexpr uint32_t threads = 32;

  uint64_t* word = nullptr;  // of the host
  uint64_t number = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    if (lane.thread() != 0) return;
#if defined(__CUDA_ARCH__)
    __threadfence_system();
    *static_cast<volatile uint64_t*>(word) = number;
#else
    __atomic_store_n(word, number, __ATOMIC_RELEASE);
#endif
  }
};

}  // namespace isotherm
