// Arrays in the memory of a GPU: memory of the package's own, and DLPack's capsules, in and out.
//
// A capsule that comes in is not taken over: it stays with the object that was made of it, and
// gives its array back when it ends. One that goes out keeps the memory it shows.
//
// Threads. With the GIL.
#pragma once

#include <nanobind/nanobind.h>

namespace isotherm::python {

void add_gpu_arrays(nanobind::module_& module);

}  // namespace isotherm::python
