#include "byte_columns.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/reserve_more.h"
#include "module.h"

namespace isotherm::python {
namespace {

[[noreturn]] void refuse(const char* name, const char* wanted, const std::string& given) {
  throw nb::type_error((std::string(name) + ": " + wanted + ", not " + given).c_str());
}
[[noreturn]] void refuse_type(const char* name, nb::handle given, const char* wanted) {
  refuse(name, wanted, nb::cast<std::string>(nb::str(given.type())));
}
[[noreturn]] void refuse_dtype(const char* name, nb::handle given, const char* wanted) {
  const nb::object dtype = given.attr("dtype");
  refuse(name, wanted, "dtype " + nb::cast<std::string>(nb::str(dtype)));
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

// The size of strings of a fixed-size format.
size_t fixed_bytes(const std::string& format) {
  return static_cast<size_t>(std::stoll(format.substr(2)));
}

// Throws where the format is none of strings.
void check_strings(const ArrowInput& input, const char* name) {
  constexpr std::array<std::string_view, 6> formats = {"z", "u", "Z", "U", "vz", "vu"};
  const std::string& format = input.format();
  if (!input.has_dictionary() &&
      (std::find(formats.begin(), formats.end(), format) != formats.end() ||
       format.starts_with("w:"))) {
    return;
  }
  throw nb::type_error((std::string(name) + ": wants an Arrow array of binary or strings, not of " +
                        (input.has_dictionary() ? "a dictionary's format '" : "format '") + format +
                        "'")
                           .c_str());
}

// Of each array: (rows, offset, null count, addresses of its buffers, address of its event).
nb::object chunks_of(const ArrowInput& input) {
  nb::list chunks;
  for (size_t i = 0; i < input.size(); ++i) {
    const ArrowArray& array = input[i].array;
    nb::list buffers;
    for (int64_t at = 0; at < array.n_buffers; ++at) {
      buffers.append(reinterpret_cast<uintptr_t>(array.buffers[at]));
    }
    chunks.append(nb::make_tuple(array.length, array.offset, array.null_count, buffers,
                                 reinterpret_cast<uintptr_t>(input[i].sync_event)));
  }
  return chunks;
}

bool has_nulls(const ArrowArray& array) {
  if (array.null_count == 0 || array.n_buffers == 0 || array.buffers[0] == nullptr) return false;
  const auto* const validity = static_cast<const uint8_t*>(array.buffers[0]);
  for (int64_t i = array.offset; i < array.offset + array.length; ++i) {
    if ((validity[i / 8] >> (i % 8) & 1) == 0) return true;
  }
  return false;
}

void view_array(const ArrowArray& array, const std::string& format, const char* name,
                std::vector<std::string_view>& views) {
  if (has_nulls(array)) {
    throw nb::value_error((std::string(name) + ": the Arrow array has nulls").c_str());
  }
  reserve_more(views, static_cast<size_t>(array.length));
  if (array.length == 0) return;
  if (format == "z" || format == "u") return view_offsets<int32_t>(array, views);
  if (format == "Z" || format == "U") return view_offsets<int64_t>(array, views);
  if (format == "vz" || format == "vu") return view_views(array, views);
  const size_t bytes = fixed_bytes(format);
  const auto* const data = static_cast<const char*>(array.buffers[1]);
  for (int64_t i = 0; i < array.length; ++i) {
    views.emplace_back(data + static_cast<size_t>(array.offset + i) * bytes, bytes);
  }
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
  } else if (nb::isinstance<ArrowInput>(object)) {
    keep_.push_back(nb::borrow(object));
    take_arrow(nb::cast<const ArrowInput&>(object), name);
  } else if (ArrowInput::can_take(object)) {
    take_arrow(arrow_.emplace(object, name, false), name);
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
  if (!is_plain_array(array)) arrays_function("refuse_masked")(array, name);
  if (PyArray_NDIM(as_array(array)) == 0 || !PyArray_IS_C_CONTIGUOUS(as_array(array))) {
    throw nb::value_error(
        (std::string(name) + ": wants an array in C order (numpy.ascontiguousarray)").c_str());
  }
  const int type = PyArray_TYPE(as_array(array));
  if (type == NPY_OBJECT) return take_list(nb::object(array.attr("tolist")()), name);
  if (PyDataType_REFCHK(PyArray_DESCR(as_array(array)))) {
    refuse_dtype(name, array, "wants rows of bytes alone, without objects");
  }
  if (type == NPY_UNICODE)
    refuse_dtype(name, array, "wants bytes, as numpy.char.encode makes them of text");
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

void ByteColumn::take_arrow(const ArrowInput& input, const char* name) {
  if (!input.on_host()) {
    throw nb::value_error((std::string(name) +
                           ": the Arrow array lies on a device, and this table or the keys of the "
                           "call on the CPU; copy it to the host first")
                              .c_str());
  }
  check_strings(input, name);
  for (size_t i = 0; i < input.size(); ++i) {
    view_array(input[i].array, input.format(), name, views_);
  }
}

ArrowOutput ArrowOutput::on_host(std::vector<int64_t> offsets, std::vector<char> bytes,
                                 std::vector<uint8_t> validity, int64_t nulls) {
  struct Owned {
    std::vector<int64_t> offsets;
    std::vector<char> bytes;
    std::vector<uint8_t> validity;
  };
  const auto owned =
      std::make_shared<Owned>(Owned{std::move(offsets), std::move(bytes), std::move(validity)});
  owned->bytes.reserve(1);  // a buffer is there also where all strings are empty
  ArrowParts parts;
  parts.bits = nulls != 0 ? owned->validity.data() : nullptr;
  parts.offsets = owned->offsets.data();
  parts.bytes = owned->bytes.data();
  parts.rows = static_cast<int64_t>(owned->offsets.size()) - 1;
  parts.nulls = nulls;
  parts.owner = owned;
  return ArrowOutput(std::move(parts));
}

nb::object ArrowOutput::found() const {
  Shape shape;
  shape.dims = 1;
  shape.sizes[0] = static_cast<npy_intp>(parts_.rows);
  Mask mask(shape);
  const auto* const bits = static_cast<const uint8_t*>(parts_.bits);
  for (size_t i = 0; i < size(); ++i) {
    mask.data()[i] = bits != nullptr ? bits[i / 8] >> (i % 8) & 1 : 1;
  }
  return mask.give();
}

void add_arrow(nb::module_& module) {
  nb::class_<ArrowOutput>(module, "ArrowOutput")
      .def("__len__", &ArrowOutput::size)
      .def("found", &ArrowOutput::found)
      .def("array", &ArrowOutput::array)
      .def("stream", &ArrowOutput::stream)
      .def("device_array", &ArrowOutput::device_array)
      .def("device_stream", &ArrowOutput::device_stream);
  // A column that was imported: of the host for any argument of byte strings, and what
  // isotherm/_device_strings.py needs of one on a GPU.
  nb::class_<ArrowInput>(module, "ArrowInput")
      .def(
          "__init__",
          [](ArrowInput* at, nb::handle object, const std::string& name, bool on_device) {
            new (at) ArrowInput(object, name.c_str(), on_device);
            if (!at->on_host()) check_strings(*at, name.c_str());
          },
          nb::arg("object"), nb::arg("name"), nb::arg("on_device"))
      .def_prop_ro("format", &ArrowInput::format)
      .def_prop_ro("device_type", &ArrowInput::device_type)
      .def_prop_ro("device", &ArrowInput::device_id)
      .def("__len__", &ArrowInput::rows)
      .def("chunks", &chunks_of);
  // Any column as a list of bytes.
  module.def(
      "_strings",
      [](nb::handle given, const std::string& name) {
        const ByteColumn column(given, name.c_str());
        nb::list strings;
        for (size_t i = 0; i < column.size(); ++i) {
          strings.append(nb::bytes(column[i].data(), column[i].size()));
        }
        return strings;
      },
      nb::arg("column"), nb::arg("name"));
}

}  // namespace isotherm::python
