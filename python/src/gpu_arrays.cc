#include "gpu_arrays.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "arrays.h"
#include "gpu_loader.h"

// DLPack, as its specification gives it.
extern "C" {
struct DLDevice {
  int32_t device_type;
  int32_t device_id;
};
struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};
struct DLManagedTensorVersioned {
  uint32_t version[2];
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned*);
  uint64_t flags;
  DLTensor dl_tensor;
};
}

namespace isotherm::python {
namespace {

constexpr int32_t cuda_device = 2;
constexpr uint64_t read_only_flag = 1;

class GpuMemory {
 public:
  GpuMemory(int gpu, uint64_t bytes, GpuStream stream, bool zeros)
      : gpu_(gpu), bytes_(bytes), stream_(stream), at_(gpu_part().allocate(gpu, room(), stream)) {
    if (zeros && bytes != 0) gpu_part().clear(gpu, at_, bytes, stream);
  }
  ~GpuMemory() {
    const GilReleased released(GilReleased::worth_bytes);
    gpu_part().release(gpu_, at_, room(), stream_);
  }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  uintptr_t pointer() const { return reinterpret_cast<uintptr_t>(at_); }
  uint64_t bytes() const { return bytes_; }
  GpuStream stream() const { return stream_; }
  void read(nb::handle array) const {
    void* const to = host_bytes(array, true);
    if (bytes_ == 0) return;
    const GilReleased released(GilReleased::worth_bytes);
    gpu_part().to_host(gpu_, to, at_, bytes_, stream_);
  }
  void write(nb::handle array) {
    const void* const from = host_bytes(array, false);
    if (bytes_ == 0) return;
    const GilReleased released(GilReleased::worth_bytes);
    gpu_part().to_gpu(gpu_, at_, from, bytes_, stream_);
  }

 private:
  uint64_t room() const { return bytes_ != 0 ? bytes_ : 1; }
  void* host_bytes(nb::handle array, bool writable) const {
    if (!PyArray_Check(array.ptr()) || !PyArray_ISCARRAY_RO(as_array(array)) ||
        (writable && !PyArray_ISWRITEABLE(as_array(array))) ||
        static_cast<uint64_t>(PyArray_NBYTES(as_array(array))) != bytes_) {
      throw nb::value_error("wants a NumPy array in C order of as many bytes");
    }
    return PyArray_DATA(as_array(array));
  }

  const int gpu_;
  const uint64_t bytes_;
  const GpuStream stream_;
  void* const at_;
};

nb::tuple tuple_of(const int64_t* numbers, int32_t count) {
  nb::list list;
  for (int32_t i = 0; i < count; ++i) list.append(numbers[i]);
  return nb::tuple(list);
}

// (pointer, code, bits, lanes, shape, strides or None, device type, device, whether read-only)
nb::object read_dlpack(nb::handle capsule) {
  const DLTensor* tensor = nullptr;
  bool read_only = false;
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor") != 0) {
    tensor =
        &static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"))->dl_tensor;
  } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0) {
    const auto* const managed = static_cast<DLManagedTensorVersioned*>(
        PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->version[0] != 1) throw nb::value_error("DLPack: a version that is not known");
    tensor = &managed->dl_tensor;
    read_only = (managed->flags & read_only_flag) != 0;
  } else {
    throw nb::type_error("__dlpack__ has returned no capsule of DLPack");
  }
  const nb::object strides =
      tensor->strides != nullptr ? nb::object(tuple_of(tensor->strides, tensor->ndim)) : nb::none();
  return nb::make_tuple(reinterpret_cast<uintptr_t>(tensor->data) + tensor->byte_offset,
                        tensor->dtype.code, tensor->dtype.bits, tensor->dtype.lanes,
                        tuple_of(tensor->shape, tensor->ndim), strides, tensor->device.device_type,
                        tensor->device.device_id, read_only);
}

// What a capsule that goes out owns.
struct Shown {
  DLManagedTensor managed{};
  std::vector<int64_t> shape;
  PyObject* owner = nullptr;
};

// Of whoever took the tensor over, in any thread; behind the interpreter's end it stays.
void end_shown(DLManagedTensor* managed) {
  if (Py_IsInitialized() == 0) return;
  auto* const shown = static_cast<Shown*>(managed->manager_ctx);
  const PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF(shown->owner);
  PyGILState_Release(state);
  delete shown;
}
void end_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor") == 0) return;  // it was taken over
  auto* const managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  managed->deleter(managed);
}

nb::object make_dlpack(nb::handle owner, uintptr_t pointer, int gpu, uint8_t code, uint8_t bits,
                       nb::tuple shape) {
  auto shown = std::make_unique<Shown>();
  for (const nb::handle size : shape) shown->shape.push_back(nb::cast<int64_t>(size));
  DLTensor& tensor = shown->managed.dl_tensor;
  tensor.data = reinterpret_cast<void*>(pointer);
  tensor.device = {cuda_device, gpu};
  tensor.ndim = static_cast<int32_t>(shown->shape.size());
  tensor.dtype = {code, bits, 1};
  tensor.shape = shown->shape.data();
  shown->managed.manager_ctx = shown.get();
  shown->managed.deleter = end_shown;
  shown->owner = owner.inc_ref().ptr();
  PyObject* const capsule = PyCapsule_New(&shown->managed, "dltensor", end_capsule);
  if (capsule == nullptr) {
    owner.dec_ref();
    throw nb::python_error();
  }
  shown.release();
  return nb::steal(capsule);
}

}  // namespace

void add_gpu_arrays(nb::module_& module) {
  nb::class_<GpuMemory>(module, "_GpuMemory")
      .def(nb::init<int, uint64_t, GpuStream, bool>(), nb::arg("gpu"), nb::arg("bytes"),
           nb::arg("stream"), nb::arg("zeros"))
      .def_prop_ro("pointer", &GpuMemory::pointer)
      .def_prop_ro("bytes", &GpuMemory::bytes)
      .def_prop_ro("stream", &GpuMemory::stream)
      .def("read", &GpuMemory::read, nb::arg("array"))
      .def("write", &GpuMemory::write, nb::arg("array"));
  module.def("_read_dlpack", &read_dlpack, nb::arg("capsule"));
  module.def("_make_dlpack", &make_dlpack, nb::arg("owner"), nb::arg("pointer"), nb::arg("gpu"),
             nb::arg("code"), nb::arg("bits"), nb::arg("shape"));
}

}  // namespace isotherm::python
