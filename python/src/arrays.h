// Arrays: NumPy arrays as columns of requests, without a copy.
//
// An array that has the wanted dtype, lies in one piece in C order, is aligned and in the machine's
// byte order is taken as it is. Everything else goes to a function of isotherm/_arrays.py, which
// makes such an array of it (of what has __dlpack__ without a copy, of lists with one) or raises
// the error that says what was given and what is wanted. A Python int as key needs no array.
//
// Threads. All functions need the GIL; `data` may be used without it while the Column lives.
#pragma once

#ifndef ISOTHERM_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#define PY_ARRAY_UNIQUE_SYMBOL isotherm_numpy
#define NPY_NO_DEPRECATED_API NPY_1_25_API_VERSION
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <numpy/arrayobject.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "one_process.h"

namespace isotherm::python {

namespace nb = nanobind;

inline constexpr int most_dims = 16;

struct Shape {
  int dims = 0;
  std::array<npy_intp, most_dims> sizes{};

  npy_intp count() const {
    npy_intp product = 1;
    for (int i = 0; i < dims; ++i) product *= sizes[static_cast<size_t>(i)];
    return product;
  }
  // This shape with the other one behind.
  Shape with(const Shape& behind) const {
    if (dims + behind.dims > most_dims)
      throw nb::value_error("an array has more than 16 dimensions");
    Shape all = *this;
    for (int i = 0; i < behind.dims; ++i) {
      all.sizes[static_cast<size_t>(all.dims++)] = behind.sizes[static_cast<size_t>(i)];
    }
    return all;
  }
};

inline PyArrayObject* as_array(nb::handle object) {
  return reinterpret_cast<PyArrayObject*>(object.ptr());
}
// Whether it can be an array that is taken as it is. Subclasses go by isotherm/_arrays.py, which
// refuses masked ones.
inline bool is_plain_array(nb::handle object) { return PyArray_CheckExact(object.ptr()); }
inline PyArray_Descr* as_dtype(nb::handle object) {
  return reinterpret_cast<PyArray_Descr*>(object.ptr());
}
inline bool has_dtype(nb::handle array, nb::handle dtype) {
  PyArray_Descr* const its = PyArray_DESCR(as_array(array));
  return its == as_dtype(dtype) || PyArray_EquivTypes(its, as_dtype(dtype)) != 0;
}
// Whether an element may have bytes without a meaning, which isotherm/_arrays.py sets to 0.
inline bool may_be_padded(nb::handle dtype) {
  const int type = as_dtype(dtype)->type_num;
  return type == NPY_LONGDOUBLE || type == NPY_CLONGDOUBLE ||
         (type == NPY_VOID && PyDataType_HASFIELDS(as_dtype(dtype)));
}
inline bool has_shape(nb::handle array, const Shape& shape) {
  return PyArray_NDIM(as_array(array)) == shape.dims &&
         std::memcmp(PyArray_DIMS(as_array(array)), shape.sizes.data(),
                     static_cast<size_t>(shape.dims) * sizeof(npy_intp)) == 0;
}
inline Shape shape_of(nb::handle array) {
  Shape shape;
  shape.dims = PyArray_NDIM(as_array(array));
  if (shape.dims > most_dims) throw nb::value_error("an array has more than 16 dimensions");
  std::memcpy(shape.sizes.data(), PyArray_DIMS(as_array(array)),
              static_cast<size_t>(shape.dims) * sizeof(npy_intp));
  return shape;
}
inline nb::object tuple_of(const Shape& shape) {
  nb::object tuple = nb::steal(PyTuple_New(shape.dims));
  for (int i = 0; i < shape.dims; ++i) {
    PyTuple_SetItem(tuple.ptr(), i, PyLong_FromSsize_t(shape.sizes[static_cast<size_t>(i)]));
  }
  return tuple;
}

// A function of isotherm/_arrays.py.
inline nb::object arrays_function(const char* name) {
  return nb::module_::import_("isotherm._arrays").attr(name);
}

inline nb::object checked(PyObject* made) {
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}
inline nb::object new_array(const Shape& shape, int type) {
  return checked(PyArray_SimpleNew(shape.dims, shape.sizes.data(), type));
}
// Zeros, so that a miss shows nothing that was there before.
inline nb::object new_zeros(const Shape& shape, nb::handle dtype) {
  Py_INCREF(dtype.ptr());  // which PyArray_Zeros takes
  return checked(PyArray_Zeros(shape.dims, shape.sizes.data(), as_dtype(dtype), 0));
}
// Between pieces of a long call, so that Ctrl-C ends it.
inline void look_for_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}
// An array without dimensions becomes a scalar, as NumPy's functions return it.
inline nb::object returned(nb::object array) {
  return checked(PyArray_Return(reinterpret_cast<PyArrayObject*>(array.release().ptr())));
}

// 64-bit keys, and what keeps them where they are.
class Keys {
 public:
  Keys(nb::handle object, nb::handle dtype, bool is_signed) {
    if (PyLong_CheckExact(object.ptr())) {
      one_ = is_signed ? static_cast<uint64_t>(PyLong_AsLongLong(object.ptr()))
                       : PyLong_AsUnsignedLongLong(object.ptr());
      if (PyErr_Occurred() == nullptr) return;
      PyErr_Clear();  // what is out of range is told below, in the words for arrays
    }
    if (is_plain_array(object) && PyArray_ISCARRAY_RO(as_array(object)) &&
        has_dtype(object, dtype)) {
      array_ = nb::borrow(object);
    } else {
      array_ = arrays_function("keys")(object, dtype);
    }
    shape_ = shape_of(array_);
    count_ = static_cast<size_t>(PyArray_SIZE(as_array(array_)));
    data_ = static_cast<const uint64_t*>(PyArray_DATA(as_array(array_)));
  }

  const uint64_t* data() const { return array_.is_valid() ? data_ : &one_; }
  size_t count() const { return count_; }
  const Shape& shape() const { return shape_; }
  // As Python shows a key.
  nb::object at(size_t i, bool is_signed) const {
    return checked(is_signed ? PyLong_FromLongLong(static_cast<int64_t>(data()[i]))
                             : PyLong_FromUnsignedLongLong(data()[i]));
  }

 private:
  nb::object array_;
  Shape shape_;
  size_t count_ = 1;
  uint64_t one_ = 0;
  const uint64_t* data_ = nullptr;
};

// Values to store, or to fill, of a dtype and a shape.
class Values {
 public:
  // `name` is that of the argument, for messages.
  static Values of(nb::handle object, nb::handle dtype, const Shape& shape, const char* name) {
    if (!may_be_padded(dtype) && is_plain_array(object) && PyArray_ISCARRAY_RO(as_array(object)) &&
        has_dtype(object, dtype) && has_shape(object, shape)) {
      return Values(nb::borrow(object));
    }
    return Values(arrays_function("values")(object, dtype, tuple_of(shape), name));
  }
  static Values to_fill(nb::handle object, nb::handle dtype, const Shape& shape) {
    if (is_plain_array(object) && PyArray_ISCARRAY(as_array(object)) && has_dtype(object, dtype) &&
        has_shape(object, shape)) {
      return Values(nb::borrow(object));
    }
    return Values(arrays_function("out")(object, dtype, tuple_of(shape)));
  }
  static Values of_zeros(nb::handle dtype, const Shape& shape) {
    return Values(new_zeros(shape, dtype));
  }

  void* data() const { return PyArray_DATA(as_array(array_)); }
  nb::object array() const { return array_; }

 private:
  explicit Values(nb::object array) : array_(std::move(array)) {}

  nb::object array_;
};

// A mask for a shape, a byte a row, which bindings fill with 0 and 1.
class Mask {
 public:
  explicit Mask(const Shape& shape) : array_(new_array(shape, NPY_BOOL)) {}

  uint8_t* data() const { return static_cast<uint8_t*>(PyArray_DATA(as_array(array_))); }
  nb::object give() { return returned(std::move(array_)); }

 private:
  nb::object array_;
};

// Behind the interpreter's end nobody gets the GIL again: Python before 3.14 unwinds a thread that
// asks for it, through frames that would then end objects of Python without it. Such a thread waits
// for the end of the process here, as it does in Python 3.14.
[[noreturn]] inline void wait_for_the_end() {
  while (true) pause();
}

// Without the GIL, where the work is worth it: giving it up and taking it costs more than a few
// rows.
class GilReleased {
 public:
  static constexpr size_t worth_bytes = 16 << 10;

  explicit GilReleased(size_t bytes) {
    if (bytes < worth_bytes) return;
    calls_without_gil.fetch_add(1, std::memory_order_relaxed);
    state_ = PyEval_SaveThread();
  }
  ~GilReleased() {
    if (state_ == nullptr) return;
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      wait_for_the_end();
    }
    calls_without_gil.fetch_sub(1, std::memory_order_relaxed);
  }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

}  // namespace isotherm::python
