// Calls of a table of rows (isotherm/gpu/row_table.h) in parts, and which way their columns go.
#pragma once

#include <cstdint>

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
