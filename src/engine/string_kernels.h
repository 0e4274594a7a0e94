// Kernels over columns of byte strings and rows in device memory, for GpuItems: what stands between
// the columns that callers have and those of gpu::ItemTable, which are offsets of 64 bits and
// bytes.
//
// Threads. One an element of what is written.
#pragma once

#include <cstdint>

#include "gpu/kernel/each_request.h"

namespace isotherm {

// Offsets of a column, `rows` + 1 of them at `to`: those at `narrow` (32 bits) or at `wide`, or of
// strings of `step` bytes each. With `behind`, the column's strings come behind others: to[0] is
// there already, and the column's offsets begin with it.
struct StringOffsetsKernel {
  int64_t* to = nullptr;
  uint64_t rows = 0;
  const int32_t* narrow = nullptr;
  const int64_t* wide = nullptr;
  int64_t step = 0;
  bool behind = false;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, rows + 1, [&](uint64_t row) {
      if (!behind) {
        to[row] = offset(row);
      } else if (row != 0) {
        to[row] = to[0] + offset(row) - offset(0);
      }
    });
  }

 private:
  ISOTHERM_HOST_DEVICE int64_t offset(uint64_t row) const {
    if (narrow != nullptr) return narrow[row];
    return wide != nullptr ? wide[row] : static_cast<int64_t>(row) * step;
  }
};

// Strings of one size, which lie one behind the other in a reply, to the rows whose mask is set;
// the others stay. A string of another size is cut.
struct StringRowsKernel {
  char* to = nullptr;
  uint64_t rows = 0;
  uint64_t row_bytes = 0;
  const uint8_t* mask = nullptr;
  const int64_t* offsets = nullptr;
  const char* bytes = nullptr;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, rows * row_bytes, [&](uint64_t at) {
      const uint64_t row = at / row_bytes;
      const int64_t from = offsets[row] + static_cast<int64_t>(at % row_bytes);
      if (mask[row] == 1 && from < offsets[row + 1]) to[at] = bytes[from];
    });
  }
};

// A mask as bits, the lowest first, as Arrow has them.
struct StringBitsKernel {
  uint8_t* to = nullptr;
  uint64_t rows = 0;
  const uint8_t* mask = nullptr;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, (rows + 7) / 8, [&](uint64_t byte) {
      uint32_t bits = 0;
      for (uint64_t i = 0; i < 8 && byte * 8 + i < rows; ++i) {
        bits |= static_cast<uint32_t>(mask[byte * 8 + i] == 1) << i;
      }
      to[byte] = static_cast<uint8_t>(bits);
    });
  }
};

}  // namespace isotherm
