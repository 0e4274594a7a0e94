// Row kernels: rows of a row table, and the list of those that are free.
//
// Layout. Rows lie in slabs of 2^slab_bits rows; a row's number is its slab's and its place. Free
// rows are a list of numbers with a counter. `last_writer` has a word for each row, 0 between
// calls: while a part of a put runs, 1 + the position of the last request for the row, so that of
// several rows for one key only the last is copied.
//
// The numbers of rows are the values of an index of keys (gpu/table/fixed_device_table.h): a put
// offers each key a free row by put_if_absent, takes the row that the key has then, and gives back
// the ones that were not needed.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/pair.h"
#include "gpu/batch/batch_view.h"
#include "gpu/kernel/each_request.h"
#include "isotherm/device_table.h"

namespace isotherm {

struct RowsView {
  char* const* slabs = nullptr;
  uint32_t slab_bits = 0;
  uint32_t row_bytes = 0;  // a multiple of 16
  uint32_t* last_writer = nullptr;
  uint64_t* free = nullptr;
  uint64_t* free_count = nullptr;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Pair* row(uint64_t number) const {
    const uint64_t place = number & ((uint64_t{1} << slab_bits) - 1);
    return reinterpret_cast<Pair*>(slabs[number >> slab_bits] + place * row_bytes);
  }
};

// Puts the numbers from `first` on onto the free list.
struct AddRowsKernel {
  RowsView view;
  uint64_t first = 0;
  uint64_t rows = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, rows, [&](uint64_t i) {
      view.last_writer[first + i] = 0;
      view.free[Lane::atomic_add(view.free_count, uint64_t{1})] = first + i;
    });
  }
};

// Offers the last free rows, one a request.
struct OfferRowsKernel {
  RowsView view;
  uint64_t* offered = nullptr;
  uint64_t rows = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint64_t count = *view.free_count;
    each_request(lane, rows, [&](uint64_t i) { offered[i] = view.free[count - rows + i]; });
  }
};

// Takes what was offered off the list; one thread.
struct TakeRowsKernel {
  RowsView view;
  uint64_t rows = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    if (lane.block() == 0 && lane.thread() == 0) *view.free_count -= rows;
  }
};

// After the index has answered the offers: makes `offered` the row of each request, gives back what
// was not taken, and for puts notes the last request of each row.
template <bool puts>
struct ClaimRowsKernel {
  RowsView view;
  uint64_t* offered = nullptr;
  const uint64_t* present = nullptr;  // the index's replies
  const uint8_t* found = nullptr;
  uint8_t* stored = nullptr;  // or null
  uint64_t rows = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, rows, [&](uint64_t i) {
      const uint8_t was = found[i];
      if (stored != nullptr) stored[i] = was == reply_retry ? reply_retry : 1;
      if (was != 0) view.free[Lane::atomic_add(view.free_count, uint64_t{1})] = offered[i];
      if (was == reply_retry) return;
      if (was == 1) offered[i] = present[i];
      if (puts) Lane::atomic_max(&view.last_writer[offered[i]], static_cast<uint32_t>(i) + 1);
    });
  }
};

// The same without offers: keys that are absent find no room.
struct KeepRowsKernel {
  RowsView view;
  const uint64_t* numbers = nullptr;
  uint8_t* found = nullptr;
  uint8_t* stored = nullptr;  // or null
  uint64_t rows = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, rows, [&](uint64_t i) {
      if (found[i] == 0) found[i] = reply_retry;
      if (stored != nullptr) stored[i] = found[i];
      if (found[i] != 1) return;
      Lane::atomic_max(&view.last_writer[numbers[i]], static_cast<uint32_t>(i) + 1);
    });
  }
};

// The same for requests that read what they find.
struct RefuseRowsKernel {
  uint8_t* found = nullptr;
  uint64_t rows = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, rows, [&](uint64_t i) {
      if (found[i] == 0) found[i] = reply_retry;
    });
  }
};

// Rows of erased keys.
struct FreeRowsKernel {
  RowsView view;
  const uint64_t* numbers = nullptr;
  const uint8_t* found = nullptr;
  uint64_t rows = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, rows, [&](uint64_t i) {
      if (found[i] != 1) return;
      view.free[Lane::atomic_add(view.free_count, uint64_t{1})] = numbers[i];
    });
  }
};

// Adds to each float of a row that was found what the caller has for it, in any order.
struct AccumulateRowsKernel {
  RowsView view;
  const uint64_t* numbers = nullptr;
  const uint8_t* found = nullptr;
  const float* deltas = nullptr;
  uint64_t rows = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint64_t floats = view.row_bytes / sizeof(float);
    each_request(lane, rows * floats, [&](uint64_t i) {
      const uint64_t row = i / floats;
      if (found[row] != 1) return;
      auto* to = reinterpret_cast<float*>(view.row(numbers[row]));
      Lane::atomic_add(to + i % floats, deltas[i]);
    });
  }
};

// Which rows are copied: out of the table where a key was found; into it for the last put of a
// key; into it where a key was absent.
enum class RowCopy : uint8_t { out, put, insert };

// Copies rows into the table or out of it. A row is copied by as many lanes as it has
// units of 16 bytes, up to a warp; several rows of a warp are on their way at a time.
template <RowCopy copy>
struct CopyRowsKernel {
  static constexpr bool into = copy != RowCopy::out;
  static constexpr uint32_t at_a_time = 4;

  RowsView view;
  const uint64_t* numbers = nullptr;
  const uint8_t* found = nullptr;  // 1: there was a row; 0: there was none; reply_retry: nor is
  Pair* rows_of_caller = nullptr;
  uint64_t rows = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint32_t number = lane.thread() & 31;
    const uint64_t warp = (uint64_t{lane.block()} * lane.threads() + lane.thread()) / 32;
    const uint64_t stride = uint64_t{lane.blocks()} * lane.threads();
    for (uint64_t first = warp * 32; first < rows; first += stride) {
      const uint64_t i = first + number;
      Pair* mine = nullptr;
      if (i < rows && wanted(i)) mine = view.row(numbers[i]);
      copy_warp(lane, first, mine);
      if (copy == RowCopy::put && mine != nullptr) view.last_writer[numbers[i]] = 0;
    }
  }

 private:
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool wanted(uint64_t i) const {
    if constexpr (copy == RowCopy::put) {
      return found[i] != reply_retry &&
             view.last_writer[numbers[i]] == static_cast<uint32_t>(i) + 1;
    }
    return found[i] == (copy == RowCopy::out ? 1 : 0);
  }

  // The rows of a warp's lanes: `mine` is this lane's in the table, or null.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void copy_warp(const Lane& lane, uint64_t first,
                                                      Pair* mine) const {
    const uint32_t units = view.row_bytes / sizeof(Pair);
    uint32_t lanes = 1;  // of a row
    while (lanes < units && lanes < 32) lanes *= 2;
    const uint32_t number = lane.thread() & 31;
    const uint32_t unit = number & (lanes - 1);
    const uint32_t rows_at_once = 32 / lanes;
    for (uint32_t row = number / lanes; row < 32; row += rows_at_once * at_a_time) {
      Pair* table[at_a_time];
      for (uint32_t k = 0; k < at_a_time; ++k) {
        const uint32_t of = row + k * rows_at_once;
        const uint64_t at = lane.shuffle(whole_warp, reinterpret_cast<uint64_t>(mine), of & 31);
        table[k] = of < 32 ? reinterpret_cast<Pair*>(at) : nullptr;
      }
      for (uint32_t u = unit; u < units; u += lanes) {
        Pair data[at_a_time];
        for (uint32_t k = 0; k < at_a_time; ++k) {
          Pair* caller = rows_of_caller + (first + row + k * rows_at_once) * units;
          if (table[k] != nullptr) data[k] = load_steady_pair(into ? caller + u : table[k] + u);
        }
        for (uint32_t k = 0; k < at_a_time; ++k) {
          Pair* caller = rows_of_caller + (first + row + k * rows_at_once) * units;
          if (table[k] != nullptr) *(into ? table[k] + u : caller + u) = data[k];
        }
      }
    }
  }
};

}  // namespace isotherm
