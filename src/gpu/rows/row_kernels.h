// Row kernels: rows of a row table, and the list of those that are free.
//
// Layout. Rows lie in slabs of 2^slab_bits rows; a row's number is its slab's and its place. Free
// rows are two lists of numbers in one array: from its beginning those whose slab lay on the device
// when they became free, and from its end those of the host, which are taken when there are no
// others. `last_writer` has a word for each row: the largest stamp of the requests that claimed it.
// Stamps are larger than those of all parts before, so that nobody has to clear the words. Those of
// a put grow with the requests' positions, so that of several rows for one key the last is copied;
// those of a get_or_insert fall, so that the first is.
//
// The numbers of rows are the values of an index of keys (gpu/table/fixed_device_table.h). A put
// looks its keys up and claims the rows that are there. Keys that are absent are offered a free row
// each, by put_if_absent; a key takes the row that it has then, and rows that were not needed are
// given back.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/pair.h"
#include "gpu/batch/batch_view.h"
#include "gpu/kernel/each_request.h"
#include "gpu/kernel/warp_list.h"
#include "isotherm/table_requests.h"

namespace isotherm {

struct FreeRowCounts {
  uint64_t on_device = 0;
  uint64_t on_host = 0;
  uint64_t counted = 0;  // of CountHostRowsKernel

  ISOTHERM_HOST_DEVICE uint64_t all() const { return on_device + on_host; }
  // Of so many rows that are taken.
  ISOTHERM_HOST_DEVICE uint64_t of_device(uint64_t rows) const {
    return rows < on_device ? rows : on_device;
  }
};

struct RowsView {
  static constexpr uint64_t free_score = ~uint64_t{0};

  char* const* slabs = nullptr;
  const uint8_t* on_host = nullptr;  // of each slab; null: none may be there
  uint32_t slab_bits = 0;
  uint32_t row_bytes = 0;  // a multiple of 16
  uint32_t* last_writer = nullptr;
  uint64_t* free = nullptr;
  uint64_t free_size = 0;
  FreeRowCounts* free_counts = nullptr;
  // Of each row, where rows have scores (gpu/rows/score_kernels.h).
  uint64_t* keys = nullptr;
  uint64_t* scores = nullptr;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Pair* row(uint64_t number) const {
    const uint64_t place = number & ((uint64_t{1} << slab_bits) - 1);
    return reinterpret_cast<Pair*>(slabs[number >> slab_bits] + place * row_bytes);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_on_host(uint64_t number) const {
    return on_host != nullptr && on_host[number >> slab_bits] != 0;
  }
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void give_back(uint64_t number) const {
    if (is_on_host(number)) {
      free[free_size - 1 - Lane::atomic_add(&free_counts->on_host, uint64_t{1})] = number;
    } else {
      free[Lane::atomic_add(&free_counts->on_device, uint64_t{1})] = number;
    }
  }
  // A row that many requests claim is asked for first: most of them come too late to change it.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void claim(uint64_t number, uint32_t stamp) const {
    uint32_t* writer = last_writer + number;
    if (Lane::load(writer) < stamp) Lane::atomic_max(writer, stamp);
  }
};

// The stamps of a part's requests, by their positions.
struct RowStamps {
  uint32_t first = 0;  // of position 0
  uint32_t step = 1;   // from one position to the next, modulo 2^32

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t of(uint32_t position) const {
    return first + position * step;
  }
};

// Where request `i` stands in the caller's columns; null: there.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t position_of(const uint32_t* positions, uint64_t i) {
  return positions != nullptr ? positions[i] : static_cast<uint32_t>(i);
}

// Makes the rows from `first` on free ones.
struct AddRowsKernel {
  RowsView view;
  uint64_t first = 0;
  uint64_t rows = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, rows, [&](uint64_t i) {
      view.last_writer[first + i] = 0;
      if (view.scores != nullptr) view.scores[first + i] = RowsView::free_score;
      view.give_back<Lane>(first + i);
    });
  }
};

// Counts the free rows whose slabs lie on the host.
struct CountHostRowsKernel {
  RowsView view;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const FreeRowCounts counts = *view.free_counts;
    uint64_t on_host = 0;
    each_request(lane, counts.all(), [&](uint64_t i) {
      const uint64_t at = i < counts.on_device ? i : view.free_size - 1 - (i - counts.on_device);
      if (view.is_on_host(view.free[at])) ++on_host;
    });
    if (on_host != 0) Lane::atomic_add(&view.free_counts->counted, on_host);
  }
};

// Offers the free rows that came last, one a request, those of the device first.
struct OfferRowsKernel {
  RowsView view;
  uint64_t* offered = nullptr;
  uint64_t rows = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const FreeRowCounts counts = *view.free_counts;
    const uint64_t of_device = counts.of_device(rows);
    each_request(lane, rows, [&](uint64_t i) {
      offered[i] = i < of_device ? view.free[counts.on_device - of_device + i]
                                 : view.free[view.free_size - counts.on_host + (i - of_device)];
    });
  }
};

// Takes what was offered off the lists; one thread.
struct TakeRowsKernel {
  RowsView view;
  uint64_t rows = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    if (lane.block() != 0 || lane.thread() != 0) return;
    FreeRowCounts& counts = *view.free_counts;
    const uint64_t of_device = counts.of_device(rows);
    counts.on_device -= of_device;
    counts.on_host -= rows - of_device;
  }
};

// After keys were looked up: claims the rows of those that are present, if it is to, and puts the
// positions of the others onto a list, or refuses them. Later requests come first, so that most of
// those of a put for one row find it claimed.
struct ClaimPresentKernel {
  static constexpr uint32_t threads = 256;
  struct Shared {
    WarpListShared<threads> absent;
  };

  RowsView view;
  RowStamps stamps;
  const uint32_t* positions = nullptr;
  const uint64_t* numbers = nullptr;
  const uint8_t* found = nullptr;
  uint8_t* replies = nullptr;        // or null
  uint32_t* absent = nullptr;        // null: refused
  uint32_t* absent_count = nullptr;  // of the list
  uint64_t rows = 0;
  bool claims = true;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    auto* shared = lane.template shared<Shared>();
    WarpList list(lane, shared->absent, absent_count, absent);
    const uint64_t warp = (uint64_t{lane.block()} * lane.threads() + lane.thread()) / 32;
    const uint64_t warps = uint64_t{lane.blocks()} * lane.threads() / 32;
    for (uint64_t left = (rows + 31) / 32 - 1 - warp; left < rows; left -= warps) {
      const uint64_t i = left * 32 + (lane.thread() & 31);
      const bool present = i < rows && found[i] == 1;
      const uint32_t at = i < rows ? position_of(positions, i) : 0;
      if (claims && present) view.claim<Lane>(numbers[i], stamps.of(at));
      if (absent != nullptr) list.add(i < rows && !present, at);
      if (i >= rows || replies == nullptr) continue;
      replies[at] = present ? 1 : reply_retry;
    }
    list.flush();
  }
};

// The keys at some positions of a part.
struct GatherKeysKernel {
  const uint64_t* keys = nullptr;
  const uint32_t* positions = nullptr;
  uint64_t* gathered = nullptr;
  uint64_t rows = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, rows, [&](uint64_t i) { gathered[i] = keys[positions[i]]; });
  }
};

// After the index has answered the offers: makes `offered` the row of each request, claims it, and
// gives back what was not taken. `found` and `replies` say afterwards who has a row: 1, or
// reply_retry.
struct ClaimOffersKernel {
  RowsView view;
  RowStamps stamps;
  const uint32_t* positions = nullptr;
  uint64_t* offered = nullptr;
  const uint64_t* present = nullptr;  // the index's replies
  uint8_t* found = nullptr;
  uint8_t* replies = nullptr;  // or null
  uint64_t rows = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, rows, [&](uint64_t i) {
      const uint8_t was = found[i];
      if (was != 0) view.give_back<Lane>(offered[i]);
      if (was == 1) offered[i] = present[i];
      found[i] = was == reply_retry ? reply_retry : 1;
      if (replies != nullptr) replies[positions[i]] = found[i];
      if (was != reply_retry) view.claim<Lane>(offered[i], stamps.of(positions[i]));
    });
  }
};

// After all offers of a get_or_insert: of the requests that have a row, the first of its key is
// answered that the key was absent.
struct InsertRepliesKernel {
  RowsView view;
  RowStamps stamps;
  const uint32_t* positions = nullptr;
  const uint64_t* numbers = nullptr;
  uint8_t* found = nullptr;
  uint8_t* replies = nullptr;
  uint64_t rows = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, rows, [&](uint64_t i) {
      if (found[i] != 1) {
        found[i] = reply_retry;  // for those that copy rows
        return;
      }
      const uint32_t at = positions[i];
      found[i] = view.last_writer[numbers[i]] == stamps.of(at) ? 0 : 1;
      replies[at] = found[i];
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
      if (view.scores != nullptr) {
        view.scores[numbers[i]] = RowsView::free_score;
        view.last_writer[numbers[i]] = 0;  // it may have another key in the same part
      }
      view.give_back<Lane>(numbers[i]);
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

// Which requests have written a row, or have found one.
struct RowWriters {
  const uint64_t* numbers = nullptr;
  const uint8_t* found = nullptr;  // 1: there is a row; 0: there was none
  uint64_t rows = 0;
  const uint32_t* positions = nullptr;  // in the columns of the caller
  RowStamps stamps;                     // of puts

  template <RowCopy copy>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool wanted(const RowsView& view, uint64_t i,
                                                   uint32_t at) const {
    if (found[i] != (copy == RowCopy::insert ? 0 : 1)) return false;
    return copy != RowCopy::put || view.last_writer[numbers[i]] == stamps.of(at);
  }
};

// Copies rows into the table or out of it. A row is copied by as many lanes as it has units of 16
// bytes, up to a warp; several rows of a warp are on their way at a time.
template <RowCopy copy>
struct CopyRowsKernel {
  static constexpr bool into = copy != RowCopy::out;
  static constexpr uint32_t at_a_time = 4;

  RowsView view;
  RowWriters writers;
  Pair* rows_of_caller = nullptr;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint32_t number = lane.thread() & 31;
    const uint64_t warp = (uint64_t{lane.block()} * lane.threads() + lane.thread()) / 32;
    const uint64_t stride = uint64_t{lane.blocks()} * lane.threads();
    for (uint64_t first = warp * 32; first < writers.rows; first += stride) {
      const uint64_t i = first + number;
      uint32_t at = 0;
      Pair* mine = nullptr;
      if (i < writers.rows) {
        at = position_of(writers.positions, i);
        if (writers.template wanted<copy>(view, i, at)) mine = view.row(writers.numbers[i]);
      }
      copy_warp(lane, at, mine);
    }
  }

 private:
  // The rows of a warp's lanes: `at` is this lane's with the caller, `mine` in the table, or null.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void copy_warp(const Lane& lane, uint32_t at,
                                                      Pair* mine) const {
    const uint32_t units = view.row_bytes / sizeof(Pair);
    uint32_t lanes = 1;  // of a row
    while (lanes < units && lanes < 32) lanes *= 2;
    const uint32_t number = lane.thread() & 31;
    const uint32_t unit = number & (lanes - 1);
    const uint32_t rows_at_once = 32 / lanes;
    for (uint32_t row = number / lanes; row < 32; row += rows_at_once * at_a_time) {
      Pair* table[at_a_time];
      Pair* caller[at_a_time];
      for (uint32_t k = 0; k < at_a_time; ++k) {
        const uint32_t of = row + k * rows_at_once;
        const uint64_t to = lane.shuffle(whole_warp, reinterpret_cast<uint64_t>(mine), of & 31);
        table[k] = of < 32 ? reinterpret_cast<Pair*>(to) : nullptr;
        caller[k] = rows_of_caller + uint64_t{lane.shuffle(whole_warp, at, of & 31)} * units;
      }
      for (uint32_t u = unit; u < units; u += lanes) {
        Pair data[at_a_time];
        for (uint32_t k = 0; k < at_a_time; ++k) {
          if (table[k] != nullptr) data[k] = load_steady_pair((into ? caller[k] : table[k]) + u);
        }
        for (uint32_t k = 0; k < at_a_time; ++k) {
          if (table[k] != nullptr) (into ? table[k] : caller[k])[u] = data[k];
        }
      }
    }
  }
};

}  // namespace isotherm
