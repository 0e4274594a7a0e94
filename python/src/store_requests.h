// Requests of a pipeline, and their replies as objects of Python.
//
// A request is a tuple (code, key, value, number, options, expiry); what a code means is in
// `append_request`, and what it returns in `result_of`. The batch borrows the bytes of the tuple.
//
// Threads. Any that has the GIL.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "arrays.h"
#include "byte_columns.h"
#include "isotherm/batch.h"

namespace isotherm::python {

enum class Code : uint8_t { get, put, erase, add, append, prepend, expire, get_item };

inline void append_request(Batch& batch, nb::handle request) {
  const auto field = [&](Py_ssize_t i) -> nb::handle {
    PyObject* const item = PyTuple_GetItem(request.ptr(), i);
    if (item == nullptr) throw nb::python_error();
    return item;
  };
  const std::string_view key = bytes_of(field(1), "key");
  const auto number = [&](Py_ssize_t i) -> int64_t {
    const int64_t all = PyLong_AsLongLong(field(i).ptr());
    if (all == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    return all;
  };
  const auto value = [&] { return bytes_of(field(2), "value"); };
  const auto options = static_cast<uint16_t>(number(4));
  switch (static_cast<Code>(number(0))) {
    case Code::get:
    case Code::get_item:
      batch.note(batch.get(key, options), number(0));
      return;
    case Code::put:
      batch.put(key, value(), options, number(5), 0, static_cast<uint64_t>(number(3)));
      return;
    case Code::erase:
      batch.erase(key, options, static_cast<uint64_t>(number(3)));
      return;
    case Code::add:
      batch.add(key, number(3), options);
      return;
    case Code::append:
      batch.append(key, value(), options);
      return;
    case Code::prepend:
      batch.prepend(key, value(), options);
      return;
    case Code::expire:
      batch.expire(key, number(5), options);
      return;
  }
  throw nb::value_error("a request of unknown code");
}

// Long values are copied without the GIL. It is not given up for those of less than a mebibyte,
// which are copied in less time than it may take to have it again.
inline nb::object bytes_object(std::string_view value) {
  nb::object bytes =
      checked(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(value.size())));
  char* const to = PyBytes_AsString(bytes.ptr());
  const GilReleased released(value.size() / 64);
  std::copy(value.begin(), value.end(), to);
  return bytes;
}

// Bytes or None; an item or None; whether it was done; a number. An exception where a request
// failed otherwise.
inline nb::object result_of(const Batch& batch, Batch::Row row) {
  const Reply& reply = batch.reply(row);
  const Status status = reply.status.load(std::memory_order_acquire);
  const bool ok = status == Status::ok;
  if (!ok && status != Status::not_found && status != Status::condition_failed) {
    return nb::module_::import_("isotherm._errors").attr("of_status")(static_cast<int>(status));
  }
  switch (batch.columns().op[row]) {
    case Op::get:
      if (!ok) return nb::none();
      if (batch.columns().number[row] == static_cast<int64_t>(Code::get)) {
        return bytes_object(reply.value());
      }
      return nb::make_tuple(bytes_object(reply.value()), reply.version, reply.expiry);
    case Op::add:
    case Op::append:
    case Op::prepend:
      return ok ? nb::cast(reply.number) : nb::none();
    default:
      return nb::bool_(ok);
  }
}

}  // namespace isotherm::python
