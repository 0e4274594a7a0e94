// ByteColumn: n byte strings given as one of
//   - a list or tuple of bytes or str (as UTF-8); with `optional`, None, too,
//   - an Arrow array of binary, utf8, their large and view kinds, or fixed-size binary without
//     nulls, by the C data interface (`__arrow_c_array__`), or such arrays one behind the other by
//     the C stream interface (`__arrow_c_stream__`), as of pyarrow's ChunkedArray and polars'
//     Series,
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
#include <vector>

#include "arrays.h"

// The C data interface of Arrow, as its specification gives it.
extern "C" {
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};
}

namespace isotherm::python {

class ByteColumn {
 public:
  // `name` is that of the argument, for messages.
  ByteColumn(nb::handle object, const char* name);

  size_t size() const { return views_.size(); }
  std::string_view operator[](size_t i) const { return views_[i]; }

 private:
  void take_list(nb::handle list, const char* name);
  void take_arrow(nb::handle object, const char* name);
  void take_stream(nb::handle object, const char* name);
  void view(const ArrowSchema& schema, const ArrowArray& array, const char* name);
  void take_array(nb::handle array, const char* name);

  struct Release {
    void operator()(ArrowArray* array) const;
  };

  std::vector<nb::object> keep_;
  std::vector<std::unique_ptr<ArrowArray, Release>> chunks_;  // of a stream
  std::vector<std::string_view> views_;
};

// One byte string; the object must stay.
std::string_view bytes_of(nb::handle object, const char* name);

// The pair of capsules that `__arrow_c_array__` returns, of large binary with nulls: the strings
// lie one behind the other in `bytes`, and `offsets` has one more than there are rows.
nb::object arrow_capsules(std::vector<int64_t> offsets, std::vector<char> bytes,
                          std::vector<uint8_t> validity, int64_t nulls);

}  // namespace isotherm::python
