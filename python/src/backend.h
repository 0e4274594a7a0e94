// Backend: a table of 64-bit keys and values of one size, as the binding sees it: FixedTable,
// RowTable, and tables of the GPU part (engine/gpu_part.h).
//
// Columns are in host memory and in the layout of RowRequests; where a value has 8 bytes it may be
// a word. Threads. Any; no GIL is needed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

#include "isotherm/row_table.h"

namespace isotherm {
class GpuTable;
}

namespace isotherm::python {

struct BackendOptions {
  uint64_t row_bytes = 8;
  bool words = true;     // values are integers of 8 bytes
  RowSum sum = nullptr;  // of rows that can be added
  uint64_t memory = 0;
  uint64_t expected = 0;
  RowScores evict_by = RowScores::none;  // which rows go at the cap
};

struct BackendResult {
  uint64_t found = 0;
  uint64_t refused = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual uint64_t size() const = 0;
  virtual uint64_t memory() const = 0;
  virtual uint64_t evictions() const { return 0; }
  // Which of the keys are there, and, unless `rows` is null, their rows.
  virtual uint64_t get(const uint64_t* keys, size_t n, void* rows, uint8_t* found) = 0;
  // The writes; columns as RowRequests has them.
  virtual BackendResult run(const RowRequests& requests) = 0;
  // As GpuTable has it; values have 8 bytes. Returns in `found` how many keys are new.
  virtual BackendResult put_new(const uint64_t* keys, size_t n, uint64_t* to);
  virtual uint64_t scan(uint64_t cursor, uint64_t count,
                        const std::function<void(uint64_t key, const void* row)>& visit) = 0;
  // Null where it is a table of the host.
  virtual GpuTable* gpu() { return nullptr; }
};

// A column's row; null where there is no column.
template <class Bytes>
Bytes* row_at(Bytes* rows, size_t row, uint64_t row_bytes) {
  using Byte = std::conditional_t<std::is_const_v<Bytes>, const char, char>;
  return rows == nullptr ? nullptr : static_cast<Byte*>(rows) + row * row_bytes;
}
inline RowRequests slice(const RowRequests& all, size_t from, size_t count, uint64_t row_bytes) {
  RowRequests its = all;
  its.keys = all.keys.subspan(from, count);
  its.rows = row_at(all.rows, from, row_bytes);
  its.expected = row_at(all.expected, from, row_bytes);
  its.rows_out = row_at(all.rows_out, from, row_bytes);
  if (all.found != nullptr) its.found += from;
  if (all.scores != nullptr) its.scores += from;
  return its;
}

std::unique_ptr<Backend> make_host_backend(const BackendOptions& options);

}  // namespace isotherm::python
