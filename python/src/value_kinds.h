// What the binding of tables reads off dtypes and words: which values can be added, and how, which
// are words of 8 bytes, and what on_full= and evict= say.
#pragma once

#include <cstdint>
#include <string_view>

#include "arrays.h"
#include "isotherm/row_table.h"

namespace isotherm::python {

inline RowSum sum_of(int type) {
  switch (type) {
    case NPY_BYTE:
    case NPY_UBYTE:
      return add_elements<uint8_t>;
    case NPY_SHORT:
    case NPY_USHORT:
      return add_elements<uint16_t>;
    case NPY_INT:
    case NPY_UINT:
      return add_elements<uint32_t>;
    case NPY_LONG:
    case NPY_ULONG:
    case NPY_LONGLONG:
    case NPY_ULONGLONG:
      return add_elements<uint64_t>;
    case NPY_FLOAT:
      return add_elements<float>;
    case NPY_DOUBLE:
      return add_elements<double>;
    default:
      return nullptr;
  }
}

inline bool is_word(int type) {
  return type == NPY_LONG || type == NPY_ULONG || type == NPY_LONGLONG || type == NPY_ULONGLONG;
}

enum class OnFull : uint8_t { raise, mask };

inline OnFull parse_on_full(nb::handle given) {
  std::string_view name;
  if (nb::try_cast(given, name)) {
    if (name == "raise") return OnFull::raise;
    if (name == "mask") return OnFull::mask;
  }
  throw nb::value_error("on_full must be 'raise' or 'mask'");
}

// The name of RowScores, or empty.
inline RowScores parse_evict(std::string_view name) {
  if (name == "use") return RowScores::use;
  if (name == "given") return RowScores::given;
  if (name.empty()) return RowScores::none;
  throw nb::value_error("evict must be 'use' or 'given'");
}

}  // namespace isotherm::python
