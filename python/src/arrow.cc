#include "arrow.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "gpu_loader.h"
#include "module.h"

namespace isotherm::python {
namespace {

constexpr const char* array_method = "__arrow_c_array__";
constexpr const char* stream_method = "__arrow_c_stream__";
constexpr const char* device_array_method = "__arrow_c_device_array__";
constexpr const char* device_stream_method = "__arrow_c_device_stream__";

template <class T>
T* of_capsule(nb::handle capsule, const char* name) {
  auto* const its = static_cast<T*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (its == nullptr) throw nb::python_error();
  return its;
}

const ArrowArray& host_part(const ArrowArray& array) { return array; }
const ArrowArray& host_part(const ArrowDeviceArray& array) { return array.array; }

ArrowDeviceArray as_device_array(const ArrowArray& array) {
  return {array, -1, arrow_cpu, nullptr, {}};
}
ArrowDeviceArray as_device_array(const ArrowDeviceArray& array) { return array; }

int32_t device_of(const ArrowArrayStream& /*stream*/) { return arrow_cpu; }
int32_t device_of(const ArrowDeviceArrayStream& stream) { return stream.device_type; }

}  // namespace

ArrowInput::ArrowInput(nb::handle object, const char* name, bool on_device) {
  const auto has = [&](const char* method) { return nb::hasattr(object, method); };
  const bool on_host = has(array_method) || has(stream_method);
  const bool device_first = on_device || !on_host;
  if (device_first && has(device_array_method)) {
    kept_ = object.attr(device_array_method)();
    take_schema(*of_capsule<ArrowSchema>(nb::object(kept_[0]), "arrow_schema"));
    const auto* const array =
        of_capsule<ArrowDeviceArray>(nb::object(kept_[1]), "arrow_device_array");
    device_type_ = array->device_type;
    arrays_.push_back(std::make_shared<ArrowDeviceArray>(*array));
  } else if (device_first && has(device_stream_method)) {
    kept_ = object.attr(device_stream_method)();
    take_stream<ArrowDeviceArrayStream, ArrowDeviceArray>(kept_, "arrow_device_array_stream", name);
  } else if (has(array_method)) {
    kept_ = object.attr(array_method)();
    take_schema(*of_capsule<ArrowSchema>(nb::object(kept_[0]), "arrow_schema"));
    arrays_.push_back(std::make_shared<ArrowDeviceArray>(
        as_device_array(*of_capsule<ArrowArray>(nb::object(kept_[1]), "arrow_array"))));
  } else if (has(stream_method)) {
    kept_ = object.attr(stream_method)();
    take_stream<ArrowArrayStream, ArrowArray>(kept_, "arrow_array_stream", name);
  } else {
    throw nb::type_error((std::string(name) + ": wants an Arrow array or stream").c_str());
  }
  for (const auto& array : arrays_) {
    if (device_type_ != arrow_cuda_host || array->sync_event == nullptr) continue;
    const int gpu = static_cast<int>(std::max<int64_t>(array->device_id, 0));
    const GilReleased released(GilReleased::worth_bytes);
    gpu_part().wait_for(gpu, 0, array->sync_event);
    gpu_part().finish(gpu, 0);
  }
}

bool ArrowInput::can_take(nb::handle object) {
  if (nb::hasattr(object, array_method)) return true;
  return !nb::hasattr(object, "iloc") &&
         (nb::hasattr(object, stream_method) || nb::hasattr(object, device_array_method) ||
          nb::hasattr(object, device_stream_method));
}

size_t ArrowInput::rows() const {
  size_t rows = 0;
  for (const auto& array : arrays_) rows += static_cast<size_t>(array->array.length);
  return rows;
}

void ArrowInput::take_schema(const ArrowSchema& schema) {
  format_ = schema.format;
  has_dictionary_ = schema.dictionary != nullptr;
}

template <class Stream, class Array>
void ArrowInput::take_stream(nb::handle capsule, const char* capsule_name, const char* name) {
  auto* const stream = of_capsule<Stream>(capsule, capsule_name);
  if (stream->release == nullptr) {
    throw nb::value_error((std::string(name) + ": the Arrow stream was read already").c_str());
  }
  device_type_ = device_of(*stream);
  const auto require = [&](int error) {
    if (error == 0) return;
    const char* const why = stream->get_last_error(stream);
    throw std::runtime_error(std::string(name) + ": the Arrow stream failed: " +
                             (why != nullptr ? why : std::to_string(error).c_str()));
  };
  ArrowSchema schema{};
  require(stream->get_schema(stream, &schema));
  take_schema(schema);
  if (schema.release != nullptr) schema.release(&schema);
  for (;;) {
    Array next{};
    require(stream->get_next(stream, &next));
    if (host_part(next).release == nullptr) return;
    arrays_.emplace_back(new ArrowDeviceArray(as_device_array(next)),
                         [](const ArrowDeviceArray* array) {
                           ArrowArray its = array->array;
                           if (its.release != nullptr) its.release(&its);
                           delete array;
                         });
  }
}

namespace {

// Structures that go out. Whoever takes one moves it out of its capsule and leaves no `release`, so
// what one owns lies outside of it.
struct OwnedArray {
  explicit OwnedArray(ArrowParts its) : parts(std::move(its)) {}

  ArrowParts parts;
  std::array<const void*, 3> buffers{};
};
struct OwnedStream {
  ArrowParts parts;
  bool given = false;
};

void release_schema(ArrowSchema* schema) { schema->release = nullptr; }
void release_array(ArrowArray* array) {
  delete static_cast<OwnedArray*>(array->private_data);
  array->release = nullptr;
}
template <class Stream>
void release_stream(Stream* stream) {
  delete static_cast<OwnedStream*>(stream->private_data);
  stream->release = nullptr;
}

void fill(ArrowSchema& schema) {
  constexpr int64_t nullable = 2;  // ARROW_FLAG_NULLABLE
  schema = {"Z", "", nullptr, nullable, 0, nullptr, nullptr, release_schema, nullptr};
}
void fill(ArrowArray& array, const ArrowParts& parts) {
  auto owned = std::make_unique<OwnedArray>(parts);
  owned->buffers = {parts.bits, parts.offsets, parts.bytes};
  array = {parts.rows, parts.nulls,   0,          3, 0, owned->buffers.data(), nullptr,
           nullptr,    release_array, owned.get()};
  owned.release();
}
void fill(ArrowDeviceArray& array, const ArrowParts& parts) {
  array = {{}, parts.device_id, parts.device_type, parts.event, {}};
  fill(array.array, parts);
}

template <class Stream>
int give_schema(Stream* /*stream*/, ArrowSchema* out) {
  fill(*out);
  return 0;
}
template <class Stream, class Array>
int give_next(Stream* stream, Array* out) {
  auto& owned = *static_cast<OwnedStream*>(stream->private_data);
  *out = {};
  if (!owned.given) fill(*out, owned.parts);
  owned.given = true;
  return 0;
}
template <class Stream>
const char* give_error(Stream* /*stream*/) {
  return nullptr;
}

template <class T>
ArrowArray& releasable(T& structure) {
  return structure.array;
}
ArrowSchema& releasable(ArrowSchema& schema) { return schema; }
ArrowArray& releasable(ArrowArray& array) { return array; }
ArrowArrayStream& releasable(ArrowArrayStream& stream) { return stream; }
ArrowDeviceArrayStream& releasable(ArrowDeviceArrayStream& stream) { return stream; }

template <class T>
void drop(T* structure) {
  auto& its = releasable(*structure);
  if (its.release != nullptr) its.release(&its);
  delete structure;
}
// A capsule that owns the structure.
template <class T>
nb::object capsule_of(std::unique_ptr<T> structure, const char* name) {
  PyObject* const capsule = PyCapsule_New(structure.get(), name, [](PyObject* its) {
    drop(static_cast<T*>(PyCapsule_GetPointer(its, PyCapsule_GetName(its))));
  });
  if (capsule == nullptr) {
    drop(structure.release());
    throw nb::python_error();
  }
  structure.release();
  return nb::steal(capsule);
}

template <class Array>
nb::object array_capsules(const ArrowParts& parts, const char* name) {
  auto schema = std::make_unique<ArrowSchema>();
  fill(*schema);
  auto array = std::make_unique<Array>();
  fill(*array, parts);
  nb::object array_capsule = capsule_of(std::move(array), name);
  return nb::make_tuple(capsule_of(std::move(schema), "arrow_schema"), array_capsule);
}

template <class Stream, class Array>
std::unique_ptr<Stream> new_stream(const ArrowParts& parts) {
  auto stream = std::make_unique<Stream>();
  stream->get_schema = give_schema<Stream>;
  stream->get_next = give_next<Stream, Array>;
  stream->get_last_error = give_error<Stream>;
  stream->private_data = new OwnedStream{parts};
  stream->release = release_stream<Stream>;
  return stream;
}

}  // namespace

nb::object arrow_array(const ArrowParts& parts) {
  return array_capsules<ArrowArray>(parts, "arrow_array");
}
nb::object arrow_device_array(const ArrowParts& parts) {
  return array_capsules<ArrowDeviceArray>(parts, "arrow_device_array");
}
nb::object arrow_stream(const ArrowParts& parts) {
  return capsule_of(new_stream<ArrowArrayStream, ArrowArray>(parts), "arrow_array_stream");
}
nb::object arrow_device_stream(const ArrowParts& parts) {
  auto stream = new_stream<ArrowDeviceArrayStream, ArrowDeviceArray>(parts);
  stream->device_type = parts.device_type;
  return capsule_of(std::move(stream), "arrow_device_array_stream");
}

}  // namespace isotherm::python
