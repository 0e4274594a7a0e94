// The GPU's part of the package (engine/gpu_part.h): a library of its own, which is loaded when the
// driver is found, so that one wheel serves machines with and without a GPU.
//
// Threads. With the GIL. What was loaded stays as long as the program.
#pragma once

#include <memory>

#include "backend.h"
#include "engine/gpu_part.h"

namespace isotherm::python {

// Throws std::runtime_error where none was loaded.
GpuPart& gpu_part();
std::unique_ptr<Backend> make_gpu_backend(const GpuTableOptions& options);

}  // namespace isotherm::python
