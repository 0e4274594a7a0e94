// Functions over columns of byte strings in the memory of a GPU, by addresses, for
// isotherm/_device_strings.py. All but the last are queued in a stream.
#include <memory>

#include "arrays.h"
#include "byte_columns.h"
#include "gpu_loader.h"
#include "module.h"

namespace isotherm::python {
namespace {

template <class T>
T* at_address(uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

// What a column that goes out keeps; it may end in any thread. Behind the interpreter's end it
// stays.
struct GpuOwner {
  GpuOwner(nb::handle its, int its_gpu, GpuStream stream)
      : gpu(its_gpu), event(gpu_part().make_event(its_gpu, stream)), owner(its.inc_ref().ptr()) {}
  ~GpuOwner() {
    if (Py_IsInitialized() == 0) return;
    gpu_part().drop_event(gpu, event);
    const PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(owner);
    PyGILState_Release(state);
  }
  GpuOwner(const GpuOwner&) = delete;
  GpuOwner& operator=(const GpuOwner&) = delete;

  const int gpu;
  void* const event;
  PyObject* const owner;
};

ArrowOutput arrow_of_gpu(nb::handle owner, int gpu, GpuStream stream, uintptr_t bits,
                         uintptr_t offsets, uintptr_t bytes, int64_t rows) {
  const auto kept = std::make_shared<GpuOwner>(owner, gpu, stream);
  ArrowParts parts;
  parts.bits = at_address<void>(bits);
  parts.offsets = at_address<void>(offsets);
  parts.bytes = at_address<void>(bytes);
  parts.rows = rows;
  parts.nulls = bits != 0 ? -1 : 0;
  parts.device_type = arrow_cuda;
  parts.device_id = gpu;
  parts.event = kept->event;
  parts.owner = kept;
  return ArrowOutput(std::move(parts));
}

}  // namespace

void add_gpu_strings(nb::module_& module) {
  // `width`: of the offsets at `from` in bytes; 0: there are none, strings have `step` bytes.
  module.def(
      "_gpu_offsets",
      [](int gpu, GpuStream stream, uintptr_t to, uint64_t rows, uintptr_t from, int width,
         int64_t step, bool behind) {
        StringOffsetsKernel kernel;
        kernel.to = at_address<int64_t>(to);
        kernel.rows = rows;
        if (width == sizeof(int32_t)) kernel.narrow = at_address<const int32_t>(from);
        if (width == sizeof(int64_t)) kernel.wide = at_address<const int64_t>(from);
        kernel.step = step;
        kernel.behind = behind;
        gpu_part().make_offsets(gpu, kernel, stream);
      },
      nb::arg("gpu"), nb::arg("stream"), nb::arg("to"), nb::arg("rows"), nb::arg("pointer"),
      nb::arg("width"), nb::arg("step"), nb::arg("behind"));
  module.def(
      "_gpu_rows",
      [](int gpu, GpuStream stream, uintptr_t to, uint64_t rows, uint64_t row_bytes, uintptr_t mask,
         uintptr_t offsets, uintptr_t bytes) {
        gpu_part().make_rows(gpu,
                             {at_address<char>(to), rows, row_bytes, at_address<uint8_t>(mask),
                              at_address<int64_t>(offsets), at_address<char>(bytes)},
                             stream);
      },
      nb::arg("gpu"), nb::arg("stream"), nb::arg("to"), nb::arg("rows"), nb::arg("row_bytes"),
      nb::arg("mask"), nb::arg("offsets"), nb::arg("bytes"));
  module.def(
      "_gpu_bits",
      [](int gpu, GpuStream stream, uintptr_t to, uint64_t rows, uintptr_t mask) {
        gpu_part().make_bits(gpu, {at_address<uint8_t>(to), rows, at_address<uint8_t>(mask)},
                             stream);
      },
      nb::arg("gpu"), nb::arg("stream"), nb::arg("to"), nb::arg("rows"), nb::arg("mask"));
  module.def(
      "_gpu_copy",
      [](int gpu, GpuStream stream, uintptr_t to, uintptr_t from, uint64_t bytes) {
        gpu_part().copy(gpu, at_address<void>(to), at_address<void>(from), bytes, stream);
      },
      nb::arg("gpu"), nb::arg("stream"), nb::arg("to"), nb::arg("pointer"), nb::arg("bytes"));
  module.def(
      "_gpu_wait_for",
      [](int gpu, GpuStream stream, uintptr_t event) {
        gpu_part().wait_for(gpu, stream, at_address<void>(event));
      },
      nb::arg("gpu"), nb::arg("stream"), nb::arg("event"));
  module.def("_gpu_arrow", &arrow_of_gpu, nb::arg("owner"), nb::arg("gpu"), nb::arg("stream"),
             nb::arg("bits"), nb::arg("offsets"), nb::arg("bytes"), nb::arg("rows"));
}

}  // namespace isotherm::python
