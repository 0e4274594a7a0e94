// Whether a row of a batch may change what is stored under its key.
//
// A get does not, nor does a call of a function that only reads (isotherm/object.h). Either may
// still take out an item that it finds expired, and a get that marks may win a stale one
// (items/meta_state.h).
#pragma once

#include "isotherm/batch.h"
#include "isotherm/object.h"

namespace isotherm {

// The function of a call.
inline const ObjectFunction& function_at(const Batch::Columns& columns, Batch::Row row) {
  return *reinterpret_cast<const ObjectFunction*>(columns.value[row].data());
}

inline bool changes(const Batch::Columns& columns, Batch::Row row) {
  const Op op = columns.op[row];
  if (op == Op::call) [[unlikely]]
    return function_at(columns, row).read == nullptr;
  return op != Op::get;
}

// Whether it is such a get: it writes in the item, so it needs the order that changes have.
inline bool marks(const Batch::Columns& columns, Batch::Row row) {
  return columns.op[row] == Op::get && (columns.options[row] & option::with_state) != 0;
}

}  // namespace isotherm
