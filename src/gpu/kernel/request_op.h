// RequestOp: what a request to a fixed-width table does to the state of its key, for CPU and GPU.
//
// The state of a key is absent, or a value. Every operation is a function of the state before it;
// the reply is that state, so that whether a conditional operation took place can be told from it.
//
//   get                                  nothing
//   put value                            value
//   erase                                absent
//   put_if_absent value                  value where absent
//   compare_and_swap expected → value    value where the value is `expected`
//   add value                            the sum (modulo 2^64), absent counting as 0
#pragma once

#include <cstdint>
#include <stdexcept>

#include "base/macros.h"
#include "isotherm/table_requests.h"

namespace isotherm {

// `found` is 0 or 1, and 255 in replies where nothing was done (reply_retry).
struct KeyState {
  uint64_t value = 0;
  uint8_t found = 0;
};

ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_write(TableOp op) { return op != TableOp::get; }

// Whether a call only reads.
inline bool is_gets(const TableRequests& requests) {
  return requests.ops == nullptr && requests.op == TableOp::get;
}

// Throws std::invalid_argument for columns that are missing, or that kernels could not read.
inline void require_columns(const TableRequests& requests) {
  if (requests.keys == nullptr) throw std::invalid_argument("requests need keys");
  const void* const columns[] = {requests.keys, requests.values, requests.expected,
                                 requests.values_out};
  for (const void* const column : columns) {
    if (reinterpret_cast<uintptr_t>(column) % sizeof(uint64_t) != 0) {
      throw std::invalid_argument("keys and values must be aligned to 8 bytes");
    }
  }
  if ((requests.values_out == nullptr) != (requests.found == nullptr)) {
    throw std::invalid_argument("values_out and found must both be given, or neither");
  }
  if (requests.ops == nullptr && requests.op > TableOp::add) {
    throw std::invalid_argument("the operation is for tables of items alone");
  }
  if (is_gets(requests) && requests.found == nullptr) {
    throw std::invalid_argument("gets need values_out and found");
  }
}

// Its result does not depend on the state before.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_constant(TableOp op) {
  return op == TableOp::put || op == TableOp::erase;
}

ISOTHERM_HOST_DEVICE ISOTHERM_INLINE KeyState apply(TableOp op, uint64_t value, uint64_t expected,
                                                    KeyState state) {
  switch (op) {
    case TableOp::get:
      return state;
    case TableOp::put:
      return {value, 1};
    case TableOp::erase:
      return {0, 0};
    case TableOp::put_if_absent:
      return state.found != 0 ? state : KeyState{value, 1};
    case TableOp::compare_and_swap:
      return state.found != 0 && state.value == expected ? KeyState{value, 1} : state;
    case TableOp::add:
      return {state.value + value, 1};
    default:  // those of items
      return state;
  }
}

}  // namespace isotherm
