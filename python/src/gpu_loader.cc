#include "gpu_loader.h"

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "arrays.h"
#include "gpu_arrays.h"
#include "isotherm/gpu/common.h"
#include "module.h"

namespace isotherm::python {
namespace {

GpuPart* loaded = nullptr;

// Each call has the GIL given up: it may wait for other calls of the table.
class GpuBackend final : public Backend {
 public:
  explicit GpuBackend(const GpuTableOptions& options) : table_(gpu_part().make_table(options)) {}

  uint64_t size() const override { return table_->stats().entries; }
  uint64_t memory() const override {
    const gpu::TableStats stats = table_->stats();
    return stats.bytes + stats.workspace + stats.host_bytes;
  }
  uint64_t evictions() const override { return table_->stats().evictions; }
  uint64_t get(const uint64_t* keys, size_t n, void* rows, uint8_t* found) override {
    RowRequests requests;
    requests.keys = {keys, n};
    requests.rows_out = rows;
    requests.found = found;
    return table_->run_host(requests).found;
  }
  BackendResult run(const RowRequests& requests) override {
    const RowHandle::Result result = table_->run_host(requests);
    return {result.found, result.refused};
  }
  BackendResult put_new(const uint64_t* keys, size_t n, uint64_t* to) override {
    const GpuTable::New result = table_->put_new({keys, n}, to);
    return {result.keys, result.refused};
  }
  uint64_t scan(uint64_t cursor, uint64_t count,
                const std::function<void(uint64_t key, const void* row)>& visit) override {
    return table_->scan(cursor, count, visit);
  }
  GpuTable* gpu() override { return table_.get(); }

 private:
  std::unique_ptr<GpuTable> table_;
};

uint64_t array_bytes(nb::handle array) {
  if (!PyArray_Check(array.ptr()) || !PyArray_ISCARRAY(as_array(array))) {
    throw nb::type_error("wants a NumPy array in C order");
  }
  return static_cast<uint64_t>(PyArray_NBYTES(as_array(array)));
}

// Loads the library at `path`; where `driver` is not empty, that must be there first. An empty
// string, or why it cannot be used.
std::string load(const std::string& path, const std::string& driver) {
  if (!driver.empty() && dlopen(driver.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    return "there is no NVIDIA driver (" + driver + ")";
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return dlerror();
  using Entry = GpuPart* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, gpu_part_entry));
  if (entry == nullptr) return "the GPU part belongs to another version: " + path;
  loaded = entry();
  return "";
}

}  // namespace

GpuPart& gpu_part() {
  if (loaded == nullptr) throw std::runtime_error("no GPU part is loaded");
  return *loaded;
}

std::unique_ptr<Backend> make_gpu_backend(const GpuTableOptions& options) {
  return std::make_unique<GpuBackend>(options);
}

void add_gpu(nb::module_& module) {
  module.def("_load_gpu_part", &load, nb::arg("path"), nb::arg("driver"));
  module.def(
      "_gpu_of",
      [](uintptr_t pointer) { return gpu_part().gpu_of(reinterpret_cast<const void*>(pointer)); },
      nb::arg("pointer"));
  module.def("_gpu_count", [] { return loaded == nullptr ? 0 : loaded->count(); });
  module.def(
      "_gpu_stream", [](int gpu) { return gpu_part().make_stream(gpu); }, nb::arg("gpu"));
  module.def(
      "_gpu_wait",
      [](int gpu, GpuStream stream, GpuStream behind) { gpu_part().wait(gpu, stream, behind); },
      nb::arg("gpu"), nb::arg("stream"), nb::arg("behind"));
  module.def(
      "_gpu_finish",
      [](int gpu, GpuStream stream) {
        const GilReleased released(GilReleased::worth_bytes);
        gpu_part().finish(gpu, stream);
      },
      nb::arg("gpu"), nb::arg("stream"));
  // Between the memory of a GPU and an array of the host, whose bytes it has; they wait.
  module.def(
      "_gpu_read",
      [](int gpu, uintptr_t from, nb::handle to, GpuStream stream) {
        const uint64_t bytes = array_bytes(to);
        const GilReleased released(GilReleased::worth_bytes);
        gpu_part().to_host(gpu, PyArray_DATA(as_array(to)), reinterpret_cast<const void*>(from),
                           bytes, stream);
      },
      nb::arg("gpu"), nb::arg("pointer"), nb::arg("array"), nb::arg("stream"));
  module.def(
      "_gpu_write",
      [](int gpu, uintptr_t to, nb::handle from, GpuStream stream) {
        const uint64_t bytes = array_bytes(from);
        const GilReleased released(GilReleased::worth_bytes);
        gpu_part().to_gpu(gpu, reinterpret_cast<void*>(to), PyArray_DATA(as_array(from)), bytes,
                          stream);
      },
      nb::arg("gpu"), nb::arg("pointer"), nb::arg("array"), nb::arg("stream"));
  add_gpu_arrays(module);
}

}  // namespace isotherm::python
