// Steps: a sequence of kernels, each of which begins when the one before it has ended.
//
// A sequence is a functor over `steps`, written once and run in two ways. LaunchedSteps launches
// every kernel, from the host. A device may have launch_fused, which runs all of them in one launch
// whose blocks meet between two steps: where a call has few rows, kernels take longer to be
// launched than to run. A sequence must do the same in both ways, so it may ask for counts on the
// device by `any` alone, and go on without steps that have nothing to do.
//
// Threads. A step has blocks of as many threads as its kernel names, or step_threads; those of a
// fused step lie together in larger blocks, and a step's blocks number as many as there is room
// for.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "gpu/platform/device_error.h"
#include "gpu/platform/grid.h"

namespace isotherm {

inline constexpr uint32_t step_threads = 256;

template <class Kernel>
ISOTHERM_HOST_DEVICE constexpr uint32_t threads_of() {
  if constexpr (requires { Kernel::threads; }) {
    return Kernel::threads;
  } else {
    return step_threads;
  }
}

template <class Device>
class LaunchedSteps {
 public:
  using Stream = typename Device::Stream;
  // Where a count decides between two ways, both are gone; kernels of the wrong one do nothing.
  static constexpr bool reads_counts = false;

  // `large_blocks`: of kernels by run_large.
  LaunchedSteps(Device& device, Stream stream, uint32_t rows, uint32_t large_blocks)
      : device_(device),
        stream_(stream),
        blocks_(grid_for(device, rows, step_threads)),
        large_blocks_(large_blocks) {}

  // `at` and `bytes` are multiples of 8.
  void clear(void* at, uint64_t bytes) const {
    require_device(device_.clear(stream_, at, bytes), "clear the workspace");
  }
  // Over the rows.
  template <class Kernel>
  void run(const Kernel& kernel) const {
    launch(blocks_, kernel);
  }
  // In blocks of fused_threads.
  template <class Kernel>
  void run_large(const Kernel& kernel) const {
    launch(large_blocks_, kernel);
  }
  // In one block.
  template <class Kernel>
  void run_once(const Kernel& kernel) const {
    launch(1, kernel);
  }
  // Whether a count on the device may be other than zero.
  bool any(const uint32_t* /*count*/) const { return true; }

 private:
  template <class Kernel>
  void launch(uint32_t blocks, const Kernel& kernel) const {
    require_device(device_.launch(stream_, blocks, threads_of<Kernel>(), kernel),
                   "launch a kernel");
  }

  Device& device_;
  Stream stream_;
  uint32_t blocks_;
  uint32_t large_blocks_;
};

// Threads of a block of fused steps.
inline constexpr uint32_t fused_threads = 512;

// Finds out how much memory of a block the steps of a sequence want.
class SharedBytesOfSteps {
 public:
  static constexpr bool reads_counts = false;

  void clear(void* /*at*/, uint64_t /*bytes*/) {}
  template <class Kernel>
  void run(const Kernel& /*kernel*/) {
    note<Kernel>(fused_threads / threads_of<Kernel>());
  }
  template <class Kernel>
  void run_large(const Kernel& kernel) {
    run(kernel);
  }
  template <class Kernel>
  void run_once(const Kernel& /*kernel*/) {
    note<Kernel>(1);
  }
  bool any(const uint32_t* /*count*/) const { return true; }

  uint32_t bytes() const { return bytes_; }

 private:
  template <class Kernel>
  void note(uint32_t blocks) {
    if constexpr (requires { typename Kernel::Shared; }) {
      const auto bytes = static_cast<uint32_t>(sizeof(typename Kernel::Shared)) * blocks;
      if (bytes > bytes_) bytes_ = bytes;
    }
  }

  uint32_t bytes_ = 0;
};

}  // namespace isotherm
