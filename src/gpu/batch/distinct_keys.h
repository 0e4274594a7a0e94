// Whether no key comes twice in a few requests. Limits. Any number of rows, but it is meant for
// those that fit a first-level cache: a table of twice as many numbers is cleared for each call.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "gpu/kernel/request_op.h"
#include "isotherm/table_requests.h"

namespace isotherm {

// `table` is memory that calls share.
inline bool has_distinct_keys(const TableRequests& requests, std::vector<uint32_t>& table) {
  const uint64_t slots = std::bit_ceil(requests.rows * 2);
  table.assign(slots, 0);
  for (uint64_t row = 0; row < requests.rows; ++row) {
    const uint64_t key = requests.keys[row];
    constexpr uint64_t spread = 0x9E3779B97F4A7C15;
    uint64_t at = (key * spread) >> 32 & (slots - 1);
    for (; table[at] != 0; at = (at + 1) & (slots - 1)) {
      if (requests.keys[table[at] - 1] == key) return false;
    }
    table[at] = static_cast<uint32_t>(row + 1);
  }
  return true;
}

// Requests in host memory that write and are so few that the host learns in less time than it saves
// the device whether no key comes twice: with that promise, where it holds.
inline TableRequests with_promise(const TableRequests& requests, std::vector<uint32_t>& table) {
  constexpr uint64_t most_rows = 1 << 11;
  TableRequests promised = requests;
  if (!requests.distinct_keys && !is_gets(requests) && requests.rows <= most_rows) {
    promised.distinct_keys = has_distinct_keys(requests, table);
  }
  return promised;
}

}  // namespace isotherm
