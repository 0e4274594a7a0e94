// Requests from arrays: the columns of calls of one operation.
//
// Errors. std::invalid_argument for arrays of unequal lengths.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>

#include "isotherm/table_requests.h"

namespace isotherm {

inline void require_lengths(bool equal) {
  if (!equal) throw std::invalid_argument("all columns must have the same length");
}

inline TableRequests gets(const uint64_t* keys, uint64_t* values, uint8_t* found, uint64_t n) {
  TableRequests requests;
  requests.rows = n;
  requests.keys = keys;
  requests.values_out = values;
  requests.found = found;
  return requests;
}

inline TableRequests gets(std::span<const uint64_t> keys, std::span<uint64_t> values,
                          std::span<uint8_t> found) {
  require_lengths(keys.size() == values.size() && keys.size() == found.size());
  return gets(keys.data(), values.data(), found.data(), keys.size());
}

inline TableRequests puts(const uint64_t* keys, const uint64_t* values, uint64_t n) {
  TableRequests requests;
  requests.rows = n;
  requests.op = TableOp::put;
  requests.keys = keys;
  requests.values = values;
  return requests;
}

inline TableRequests puts(std::span<const uint64_t> keys, std::span<const uint64_t> values) {
  require_lengths(keys.size() == values.size());
  return puts(keys.data(), values.data(), keys.size());
}

inline TableRequests erases(const uint64_t* keys, uint64_t n) {
  TableRequests requests;
  requests.rows = n;
  requests.op = TableOp::erase;
  requests.keys = keys;
  return requests;
}

}  // namespace isotherm
