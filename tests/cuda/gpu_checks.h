// Runs lists of checks on the GPU, which print what passed; without a GPU a program says so and
// succeeds.
//
// A check has a name and run(device, scale), which returns the number of faults it found. A program
// takes two arguments: the scale, and which checks to run, as I/N: every N-th, from number I on.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "gpu/cuda_device.cuh"

namespace isotherm {

class GpuChecks {
 public:
  // `scale`: of the checks, unless the program's first argument says another.
  GpuChecks(int argc, char** argv, uint64_t scale)
      : scale_(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : scale) {
    if (argc > 2 && (std::sscanf(argv[2], "%d/%d", &first_, &step_) != 2 || step_ < 1 ||
                     first_ < 0 || first_ >= step_)) {
      std::fprintf(stderr, "%s [scale [I/N]]\n", argv[0]);
      std::exit(64);
    }
  }

  // False, and said so, where there is no GPU.
  static bool has_gpu() {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) == cudaSuccess && devices != 0) return true;
    std::printf("skipped: no GPU\n");
    return false;
  }

  template <class Check>
  void run(const char* name, Check&& check) {
    if (number_++ % step_ != first_) return;
    uint64_t wrong = 1;
    try {
      wrong = check(device_, scale_);
    } catch (const std::exception& error) {
      std::printf("  %s %s\n", error.what(), device_.error().c_str());
    }
    ++(wrong == 0 ? passed_ : failed_);
    std::printf("%s: %s\n", name, wrong == 0 ? "passed" : "FAILED");
    std::fflush(stdout);
  }
  template <class Checks>
  void run_all(const Checks& checks) {
    for (const auto& check : checks) run(check.name, check.run);
  }

  // What the program ends with.
  int end() const {
    std::printf("%d passed, %d failed\n", passed_, failed_);
    return failed_ == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  }

 private:
  CudaDevice device_{0};
  const uint64_t scale_;
  int first_ = 0;
  int step_ = 1;
  int number_ = 0;
  int passed_ = 0;
  int failed_ = 0;
};

}  // namespace isotherm
