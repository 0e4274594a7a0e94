// ByteColumn: n byte strings given as one of
//   - a list or tuple of bytes or str (as UTF-8); with `optional`, None, too,
//   - an Arrow array of binary, utf8, their large and view kinds, or fixed-size binary without
//     nulls, by the C data interface (`__arrow_c_array__`), or such arrays one behind the other by
//     the C stream interface (`__arrow_c_stream__`), as of pyarrow's ChunkedArray and polars'
//     Series; where an object has neither, by the device interface, of memory of the host
//     (arrow.h),
//   - a NumPy array whose rows are taken as bytes, all of one size, or of dtype S, where bytes end
//     before their zeros, as NumPy has them; or what NumPy makes an array of, as of pandas'
//     columns. Rows that have objects in them are no bytes.
//
// No string is copied. The column keeps what it was made of, so its views are valid while it lives,
// also without the GIL; of a list it keeps the strings themselves, since lists change.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "arrays.h"
#include "arrow.h"

namespace isotherm::python {

class ByteColumn {
 public:
  // `name` is that of the argument, for messages.
  ByteColumn(nb::handle object, const char* name);

  size_t size() const { return views_.size(); }
  std::string_view operator[](size_t i) const { return views_[i]; }

 private:
  void take_list(nb::handle list, const char* name);
  void take_arrow(const ArrowInput& input, const char* name);
  void take_array(nb::handle array, const char* name);

  std::vector<nb::object> keep_;
  std::optional<ArrowInput> arrow_;
  std::vector<std::string_view> views_;
};

// One byte string; the object must stay.
std::string_view bytes_of(nb::handle object, const char* name);

// The class ArrowOutput, a column in Arrow's layout for whoever imports it.
class ArrowOutput {
 public:
  explicit ArrowOutput(ArrowParts parts) : parts_(std::move(parts)) {}
  // Of large binary on the host, with nulls: the strings lie one behind the other in `bytes`, and
  // `offsets` has one more than there are rows.
  static ArrowOutput on_host(std::vector<int64_t> offsets, std::vector<char> bytes,
                             std::vector<uint8_t> validity, int64_t nulls);

  size_t size() const { return static_cast<size_t>(parts_.rows); }
  nb::object found() const;  // a mask of those that are not null; of the host
  nb::object array() const { return arrow_array(parts_); }
  nb::object stream() const { return arrow_stream(parts_); }
  nb::object device_array() const { return arrow_device_array(parts_); }
  nb::object device_stream() const { return arrow_device_stream(parts_); }

 private:
  ArrowParts parts_;
};

}  // namespace isotherm::python
