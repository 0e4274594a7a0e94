#include "byte_columns.h"

#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

namespace isotherm::python {
namespace {

[[noreturn]] void refuse_type(const char* name, nb::handle given, const char* wanted) {
  const std::string type = nb::cast<std::string>(nb::str(given.type()));
  throw nb::type_error((std::string(name) + ": " + wanted + ", not " + type).c_str());
}

// Strings of an array, row by row.
template <class Offset>
void view_offsets(const ArrowArray& array, std::vector<std::string_view>& views) {
  const auto* const offsets = static_cast<const Offset*>(array.buffers[1]) + array.offset;
  const auto* const bytes = static_cast<const char*>(array.buffers[2]);
  for (int64_t i = 0; i < array.length; ++i) {
    views.emplace_back(bytes + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i]));
  }
}

// Of the view kinds: 16 bytes a row, a length and the bytes, or where they lie.
void view_views(const ArrowArray& array, std::vector<std::string_view>& views) {
  constexpr int32_t most_inline = 12;
  const auto* row = static_cast<const char*>(array.buffers[1]) + array.offset * 16;
  for (int64_t i = 0; i < array.length; ++i, row += 16) {
    std::array<int32_t, 4> words;  // length, first bytes, buffer, offset there
    std::memcpy(words.data(), row, sizeof words);
    const auto length = static_cast<size_t>(words[0]);
    const char* bytes = row + sizeof(int32_t);
    if (words[0] > most_inline) {
      bytes = static_cast<const char*>(array.buffers[2 + words[2]]) + words[3];
    }
    views.emplace_back(bytes, length);
  }
}

bool has_nulls(const ArrowArray& array) {
  if (array.null_count == 0 || array.n_buffers == 0 || array.buffers[0] == nullptr) return false;
  const auto* const validity = static_cast<const uint8_t*>(array.buffers[0]);
  for (int64_t i = array.offset; i < array.offset + array.length; ++i) {
    if ((validity[i / 8] >> (i % 8) & 1) == 0) return true;
  }
  return false;
}

}  // namespace

std::string_view bytes_of(nb::handle object, const char* name) {
  if (PyBytes_Check(object.ptr())) {
    char* data = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(object.ptr(), &data, &size) != 0) throw nb::python_error();
    return {data, static_cast<size_t>(size)};
  }
  if (PyUnicode_Check(object.ptr())) {
    Py_ssize_t size = 0;
    const char* const data = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
    if (data == nullptr) throw nb::python_error();
    return {data, static_cast<size_t>(size)};
  }
  refuse_type(name, object, "wants bytes or str");
}

ByteColumn::ByteColumn(nb::handle object, const char* name) {
  if (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr())) {
    take_list(object, name);
  } else if (PyArray_Check(object.ptr())) {
    take_array(object, name);
  } else if (nb::hasattr(object, "__arrow_c_array__")) {
    take_arrow(object, name);
  } else if (nb::hasattr(object, "__arrow_c_stream__") && !nb::hasattr(object, "iloc")) {
    // Less pandas' columns, whose streams are made by pyarrow.
    take_stream(object, name);
  } else if (nb::hasattr(object, "__array__")) {  // a column of pandas
    take_array(checked(PyArray_FROM_O(object.ptr())), name);
  } else {
    refuse_type(
        name, object,
        "wants a list of bytes or str, an Arrow array of binary or strings, or a NumPy array");
  }
}

void ByteColumn::take_list(nb::handle list, const char* name) {
  keep_.push_back(checked(PySequence_Tuple(list.ptr())));
  const nb::handle all = keep_.back();
  const size_t size = nb::len(all);
  views_.reserve(size);
  for (size_t i = 0; i < size; ++i) {
    views_.push_back(bytes_of(PyTuple_GetItem(all.ptr(), static_cast<Py_ssize_t>(i)), name));
  }
}

void ByteColumn::take_array(nb::handle array, const char* name) {
  if (PyArray_NDIM(as_array(array)) == 0 || !PyArray_IS_C_CONTIGUOUS(as_array(array))) {
    throw nb::value_error(
        (std::string(name) + ": wants an array in C order (numpy.ascontiguousarray)").c_str());
  }
  const int type = PyArray_TYPE(as_array(array));
  if (type == NPY_OBJECT) return take_list(nb::object(array.attr("tolist")()), name);
  if (PyDataType_REFCHK(PyArray_DESCR(as_array(array)))) {
    refuse_type(name, array, "wants rows of bytes alone, without objects");
  }
  if (type == NPY_UNICODE) refuse_type(name, array, "wants bytes (numpy.char.encode), not text");
  keep_.push_back(nb::borrow(array));
  const auto rows = static_cast<size_t>(PyArray_DIM(as_array(array), 0));
  const auto* const data = static_cast<const char*>(PyArray_DATA(as_array(array)));
  const size_t bytes = rows != 0 ? static_cast<size_t>(PyArray_NBYTES(as_array(array))) / rows : 0;
  views_.reserve(rows);
  for (size_t i = 0; i < rows; ++i) {
    std::string_view view(data + i * bytes, bytes);
    if (type == NPY_STRING) view = view.substr(0, view.find_last_not_of('\0') + 1);
    views_.push_back(view);
  }
}

void ByteColumn::take_arrow(nb::handle object, const char* name) {
  keep_.push_back(object.attr("__arrow_c_array__")());
  const nb::handle pair = keep_.back();
  const auto* const schema =
      static_cast<ArrowSchema*>(PyCapsule_GetPointer(nb::object(pair[0]).ptr(), "arrow_schema"));
  const auto* const array =
      static_cast<ArrowArray*>(PyCapsule_GetPointer(nb::object(pair[1]).ptr(), "arrow_array"));
  if (schema == nullptr || array == nullptr) throw nb::python_error();
  view(*schema, *array, name);
}

void ByteColumn::Release::operator()(ArrowArray* array) const {
  if (array->release != nullptr) array->release(array);
  delete array;
}

void ByteColumn::take_stream(nb::handle object, const char* name) {
  keep_.push_back(object.attr("__arrow_c_stream__")());
  auto* const stream = static_cast<ArrowArrayStream*>(
      PyCapsule_GetPointer(keep_.back().ptr(), "arrow_array_stream"));
  if (stream == nullptr) throw nb::python_error();
  if (stream->release == nullptr) {
    throw nb::value_error((std::string(name) + ": the Arrow stream was read already").c_str());
  }
  const auto require = [&](int error) {
    if (error == 0) return;
    const char* const why = stream->get_last_error(stream);
    throw std::runtime_error(std::string(name) + ": the Arrow stream failed: " +
                             (why != nullptr ? why : std::to_string(error).c_str()));
  };
  ArrowSchema schema{};
  require(stream->get_schema(stream, &schema));
  const std::unique_ptr<ArrowSchema, void (*)(ArrowSchema*)> released(
      &schema, [](ArrowSchema* its) { its->release(its); });
  for (;;) {
    chunks_.push_back(std::unique_ptr<ArrowArray, Release>(new ArrowArray{}));
    require(stream->get_next(stream, chunks_.back().get()));
    if (chunks_.back()->release == nullptr) return;
    view(schema, *chunks_.back(), name);
  }
}

void ByteColumn::view(const ArrowSchema& schema, const ArrowArray& array, const char* name) {
  if (has_nulls(array)) {
    throw nb::value_error((std::string(name) + ": the Arrow array has nulls").c_str());
  }
  const std::string_view format = schema.format;
  views_.reserve(views_.size() + static_cast<size_t>(array.length));
  if (array.length == 0 && schema.dictionary == nullptr) return;
  if (schema.dictionary == nullptr && (format == "z" || format == "u")) {
    view_offsets<int32_t>(array, views_);
  } else if (schema.dictionary == nullptr && (format == "Z" || format == "U")) {
    view_offsets<int64_t>(array, views_);
  } else if (schema.dictionary == nullptr && (format == "vz" || format == "vu")) {
    view_views(array, views_);
  } else if (schema.dictionary == nullptr && format.starts_with("w:")) {
    const auto bytes = static_cast<size_t>(std::stoll(std::string(format.substr(2))));
    const auto* const data = static_cast<const char*>(array.buffers[1]);
    for (int64_t i = 0; i < array.length; ++i) {
      views_.emplace_back(data + static_cast<size_t>(array.offset + i) * bytes, bytes);
    }
  } else {
    throw nb::type_error((std::string(name) +
                          ": wants an Arrow array of binary or strings, not of format '" +
                          std::string(format) + "'")
                             .c_str());
  }
}

namespace {

struct OwnedArrow {
  std::vector<int64_t> offsets;
  std::vector<char> bytes;
  std::vector<uint8_t> validity;
  const void* buffers[3];
};

void release_schema(ArrowSchema* schema) { schema->release = nullptr; }
void release_array(ArrowArray* array) {
  delete static_cast<OwnedArrow*>(array->private_data);
  array->release = nullptr;
}

// Destructors of the capsules: whoever imports a structure moves it out and leaves no `release`.
void end_schema(PyObject* capsule) {
  auto* const schema = static_cast<ArrowSchema*>(PyCapsule_GetPointer(capsule, "arrow_schema"));
  if (schema->release != nullptr) schema->release(schema);
  delete schema;
}
void end_array(PyObject* capsule) {
  auto* const array = static_cast<ArrowArray*>(PyCapsule_GetPointer(capsule, "arrow_array"));
  if (array->release != nullptr) array->release(array);
  delete array;
}

}  // namespace

nb::object arrow_capsules(std::vector<int64_t> offsets, std::vector<char> bytes,
                          std::vector<uint8_t> validity, int64_t nulls) {
  constexpr int64_t nullable = 2;  // ARROW_FLAG_NULLABLE
  auto schema = std::make_unique<ArrowSchema>();
  *schema = {"Z", "", nullptr, nullable, 0, nullptr, nullptr, release_schema, nullptr};
  auto owned = std::make_unique<OwnedArrow>();
  owned->offsets = std::move(offsets);
  owned->bytes = std::move(bytes);
  owned->bytes.reserve(1);  // a buffer is there also where all strings are empty
  owned->validity = std::move(validity);
  owned->buffers[0] = nulls != 0 ? owned->validity.data() : nullptr;
  owned->buffers[1] = owned->offsets.data();
  owned->buffers[2] = owned->bytes.data();
  auto array = std::make_unique<ArrowArray>();
  *array = {static_cast<int64_t>(owned->offsets.size()) - 1,
            nulls,
            0,
            3,
            0,
            owned->buffers,
            nullptr,
            nullptr,
            release_array,
            owned.get()};
  owned.release();
  nb::object schema_capsule = checked(PyCapsule_New(schema.get(), "arrow_schema", end_schema));
  schema.release();
  PyObject* const array_capsule = PyCapsule_New(array.get(), "arrow_array", end_array);
  if (array_capsule == nullptr) {
    array->release(array.get());
    throw nb::python_error();
  }
  array.release();
  return nb::make_tuple(schema_capsule, nb::steal(array_capsule));
}

}  // namespace isotherm::python
