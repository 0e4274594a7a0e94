// BatchView: one part of a batch and the memory it is worked off in, as kernels see it.
//
// How a part with writes is answered as if its requests ran one by one, without a lock and without
// waiting for a count on the host:
//   mark     every writer enters its key into the writer table
//   get      gets of keys that nobody writes go straight to the index; the others are put off
//   update   so do writers that are alone with their key; extend takes those that found no place
//   sort     writers of keys with several are sorted by key, stably (gpu/batch/sort_kernels.h), or,
//            where they are few, by counting those before each (gpu/batch/rank_kernel.h)
//   begin    the first of each group reads the index; whoever follows a put or an erase knows what
//            that left
//   streak   operations whose result depends on the state before are applied one by one
//   end      the last of each group leaves its result in the index; where nothing depends on the
//            state before, it does so in one kernel with `begin`
//   late     a get finds the last writer before it among the sorted ones, and applies that; groups
//            that found no memory are answered reply_retry
// A reply is the state before the request, so the state after a writer is its operation applied to
// its reply: no other intermediate state is kept.
// Of a part without a key twice only update and extend are left, for gets as well, or, where rows
// are few, a kernel that does all of it (gpu/batch/few_kernel.h). A part of puts
// of keys that are expected to be new begins with gpu/batch/try_kernels.h instead of mark and
// update, so that only rows that get no free slot at once are entered.
//
// Sizes. Rows of a part are numbered in 32 bits. Sources. H-Rocks, section 5 (answers in arrival
// order); the grouping is this project's (docs/papers.md).
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/batch/writer_table.h"
#include "gpu/kernel/bits.h"
#include "gpu/kernel/request_columns.h"
#include "gpu/kernel/request_op.h"

namespace isotherm {

// All zero when a part begins.
struct alignas(64) PartCounters {
  uint32_t late = 0;
  uint32_t grouped = 0;  // sorted writers
  uint32_t streaks = 0;
  uint32_t failed = 0;         // whether a group found no memory
  uint32_t failed_writes = 0;  // of writers that are alone
  uint32_t left = 0;           // over, by TryKernel
  uint32_t any_grouped = 0;    // whether a bit of grouped_bits is set
  uint32_t any_dependent = 0;  // whether an operation depends on the state before
  uint32_t listed = 0;         // grouped rows, where they are listed
  uint32_t too_many = 0;       // whether they are more than the list takes
};

struct BatchView {
  uint32_t rows = 0;
  const TableOp* ops = nullptr;  // null: all are `op`
  TableOp op = TableOp::get;
  const uint64_t* keys = nullptr;
  const uint64_t* values = nullptr;
  const uint64_t* expected = nullptr;
  uint64_t* values_out = nullptr;
  uint8_t* found = nullptr;
  bool distinct_keys = false;
  bool tried = false;  // the part begins with TryKernel

  PartCounters* counters = nullptr;
  WriterTable writers;
  uint32_t* slot_of_row = nullptr;   // of writers
  uint32_t* grouped_bits = nullptr;  // a bit per row: one of several writers of its key
  uint64_t* listed = nullptr;        // the slots of these above their rows, in no order
  uint32_t most_listed = 0;          // 0: they are not listed
  uint32_t* failed_rows = nullptr;
  uint32_t* done_bits = nullptr;  // a bit per row: TryKernel claimed its slot
  uint32_t* left_rows = nullptr;  // the other rows, in no order
  uint32_t* late_rows = nullptr;
  uint32_t* late_slots = nullptr;
  const uint32_t* sorted_slots = nullptr;
  const uint32_t* sorted_rows = nullptr;
  uint32_t* streak_starts = nullptr;  // positions among the sorted rows

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE TableOp op_of(uint32_t row) const {
    return ops != nullptr ? ops[row] : op;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t value_of(uint32_t row, TableOp of) const {
    return of == TableOp::get || of == TableOp::erase || values == nullptr ? 0 : values[row];
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t expected_of(uint32_t row, TableOp of) const {
    return of == TableOp::compare_and_swap && expected != nullptr ? expected[row] : 0;
  }
  // Rows of a word of grouped_bits are not alone. Few of those who say so write, as all would write
  // to the same place.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void note_grouped() const {
    if (counters->any_grouped == 0) counters->any_grouped = 1;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void note_dependent() const {
    if (counters->any_dependent == 0) counters->any_dependent = 1;
  }
  // Lists the rows of the lanes that are `grouped`, `bits` of the warp, as far as there is room;
  // all lanes of a warp call.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void list_grouped(const Lane& lane, uint32_t row,
                                                         bool grouped, uint32_t bits) const;
  // Whether the sorted rows are those of the list.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool takes_listed() const {
    return most_listed != 0 && counters->too_many == 0;
  }
  // Where nobody asked for replies, and no key comes twice, there are no columns for them.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void reply(uint32_t row, KeyState before) const {
    if (found == nullptr) return;
    if (before.found == 1) values_out[row] = before.value;
    found[row] = before.found;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE KeyState before(uint32_t row) const {
    const uint8_t was = found[row];
    return {was == 1 ? values_out[row] : 0, was};
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE KeyState after(uint32_t row) const {
    return apply_row(row, before(row));
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE KeyState apply_row(uint32_t row, KeyState state) const {
    const TableOp of = op_of(row);
    return apply(of, value_of(row, of), expected_of(row, of), state);
  }
};

// At most `rows` requests of a call from row `first` on.
inline BatchView part_of(const TableRequests& requests, uint64_t first, uint32_t rows) {
  const TableRequests some =
      rows_of(requests, first, std::min<uint64_t>(rows, requests.rows - first));
  BatchView part;
  part.rows = static_cast<uint32_t>(some.rows);
  part.ops = some.ops;
  part.op = some.op;
  part.keys = some.keys;
  part.values = some.values;
  part.expected = some.expected;
  part.values_out = some.values_out;
  part.found = some.found;
  return part;
}

// The next free places of a list for the lanes of a warp that `want` one; all lanes call.
template <class Lane>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t append(const Lane& lane, uint32_t* length,
                                                     bool want) {
  const uint32_t number = lane.thread() & 31;
  const uint32_t wanted = lane.ballot(whole_warp, want);
  if (wanted == 0) return 0;
  uint32_t first = 0;
  if (number == 0) first = Lane::atomic_add(length, count_bits(wanted));
  return lane.shuffle(whole_warp, first, 0) + count_below(wanted, number);
}

template <class Lane>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void BatchView::list_grouped(const Lane& lane, uint32_t row,
                                                                  bool grouped,
                                                                  uint32_t bits) const {
  if (most_listed == 0) return;
  // A warp with many times its share of the list knows that all of them have more than it takes.
  // Each that asked for its places would wait for the others, which ask at the same time.
  constexpr uint64_t shares = 8;
  if (uint64_t{count_bits(bits)} * rows > uint64_t{most_listed} * 32 * shares) {
    counters->too_many = 1;
    return;
  }
  const uint32_t at = append(lane, &counters->listed, grouped);
  if (!grouped) return;
  if (at < most_listed) {
    listed[at] = uint64_t{slot_of_row[row]} << 32 | row;
  } else {
    counters->too_many = 1;
  }
}

}  // namespace isotherm
