// Calls of a table of rows (isotherm/gpu/row_table.h) in parts, and which way their columns go.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "base/pair.h"
#include "isotherm/gpu/row_table.h"

namespace isotherm {

inline bool brings_rows(const gpu::RowRequests& call) {
  return call.rows != nullptr &&
         (call.op == gpu::RowOp::get || call.op == gpu::RowOp::get_or_insert);
}
inline bool sends_rows(const gpu::RowRequests& call) {
  return call.op != gpu::RowOp::get && call.op != gpu::RowOp::erase;
}
inline bool brings_scores(const gpu::RowRequests& call) {
  return call.scores != nullptr && call.op == gpu::RowOp::get;
}
inline bool sends_scores(const gpu::RowRequests& call) {
  return call.scores != nullptr &&
         (call.op == gpu::RowOp::put || call.op == gpu::RowOp::get_or_insert);
}

// Throws std::invalid_argument for columns that do not belong together. In host memory a
// get_or_insert without rows inserts rows of zeros, and replies need not be wanted.
inline void require_columns(const gpu::RowRequests& call, bool on_device) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
  };
  require(call.op <= gpu::RowOp::erase, "unknown operation");
  if (call.n == 0) return;
  const bool reads = call.op == gpu::RowOp::get || call.op == gpu::RowOp::get_or_insert;
  const bool inserts_zeros = !on_device && call.op == gpu::RowOp::get_or_insert;
  require(call.keys != nullptr, "requests need keys");
  require(call.rows != nullptr || !sends_rows(call) || inserts_zeros, "the operation needs rows");
  if (!on_device) return;
  require(call.found != nullptr || !reads, "gets need a column for found");
  require(reinterpret_cast<uintptr_t>(call.rows) % sizeof(Pair) == 0,
          "rows in device memory must be aligned to 16 bytes");
}

// `count` of its requests, from `first` on; rows have `row_bytes`.
inline gpu::RowRequests part_of(const gpu::RowRequests& call, uint64_t first, uint64_t count,
                                uint64_t row_bytes) {
  gpu::RowRequests part = call;
  part.n = count;
  part.keys = call.keys + first;
  if (call.rows != nullptr) part.rows = static_cast<char*>(call.rows) + first * row_bytes;
  if (call.found != nullptr) part.found = call.found + first;
  if (call.scores != nullptr) part.scores = call.scores + first;
  return part;
}

}  // namespace isotherm
