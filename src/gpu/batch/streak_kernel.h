// StreakKernel: operations of one key whose result depends on the state before, applied in turn.
//
// A streak begins at a sorted writer whose state before is known, and goes on as far as the
// operations depend on their state (put_if_absent, add, compare-and-swap); each reply on the way is
// the state so far. Most are short, and each warp of a block takes one. The whole block then takes
// the long ones among them, as many rows at a time as it has threads: once the key is present,
// put_if_absent changes nothing and adds are a prefix sum, so only rows with a compare-and-swap
// among them are applied one after another, from shared memory.
#pragma once

#include <cstdint>

#include "gpu/batch/batch_view.h"
#include "gpu/kernel/block_sum.h"
#include "index/probe.h"

namespace isotherm {

struct StreakKernel {
  static constexpr uint32_t threads = 256;
  static constexpr uint32_t warps = threads / 32;
  static constexpr uint32_t longest_short = 64;
  static constexpr uint32_t none = ~0u;
  struct Shared {
    uint32_t long_one[warps];  // where it starts, or none
    uint64_t value[threads];
    BlockSums<uint64_t, threads> sums;
    uint64_t expected[threads];
    TableOp op[threads];
    KeyState before[threads];
    KeyState state;
    uint32_t end;  // of the rows of this step that take part
    uint32_t swaps;
  };

  BatchView batch;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    auto* shared = lane.template shared<Shared>();
    const uint32_t streaks = batch.counters->streaks;
    const uint32_t warp = lane.thread() / 32;
    for (uint32_t first = lane.block() * warps; first < streaks; first += lane.blocks() * warps) {
      uint32_t long_one = none;
      if (first + warp < streaks) {
        const uint32_t start = batch.streak_starts[first + warp];
        const uint32_t end = batch.writers.end[batch.sorted_slots[start]];
        if (end - start <= longest_short) {
          take_by_warp(lane, start, end);
        } else {
          long_one = start;
        }
      }
      if ((lane.thread() & 31) == 0) shared->long_one[warp] = long_one;
      lane.sync_block();
      for (uint32_t w = 0; w < warps; ++w) {
        if (shared->long_one[w] != none) take_by_block(lane, shared->long_one[w]);
      }
      lane.sync_block();
    }
  }

 private:
  template <class Lane>
  ISOTHERM_HOST_DEVICE void take_by_warp(const Lane& lane, uint32_t start, uint32_t end) const {
    const uint32_t number = lane.thread() & 31;
    KeyState state = batch.before(batch.sorted_rows[start]);
    for (uint32_t first = start; first < end; first += 32) {
      const uint32_t i = first + number;
      const bool mine = i < end;
      const uint32_t row = mine ? batch.sorted_rows[i] : 0;
      const TableOp op = mine ? batch.op_of(row) : TableOp::erase;
      const uint64_t value = mine ? batch.value_of(row, op) : 0;
      const uint64_t expected = mine ? batch.expected_of(row, op) : 0;
      const uint32_t stops = lane.ballot(whole_warp, !mine || is_constant(op));
      // Those up to and with the first whose result does not depend on its state.
      const uint32_t count =
          stops == 0 ? 32 : static_cast<uint32_t>(probe_internal::first_bit(stops)) + 1;
      KeyState before = state;
      for (uint32_t k = 0; k + 1 < count || (k < count && stops == 0); ++k) {
        if (number == k) {
          before = state;
          state = apply(op, value, expected, state);
        }
        state = {lane.shuffle(whole_warp, state.value, k),
                 static_cast<uint8_t>(lane.shuffle(whole_warp, uint32_t{state.found}, k))};
      }
      if (stops != 0 && number + 1 == count) before = state;
      if (mine && number < count) batch.reply(row, before);
      if (stops != 0) return;
    }
  }

  template <class Lane>
  ISOTHERM_HOST_DEVICE void take_by_block(const Lane& lane, uint32_t start) const {
    auto* shared = lane.template shared<Shared>();
    const uint32_t end = batch.writers.end[batch.sorted_slots[start]];
    if (lane.thread() == 0) shared->state = batch.before(batch.sorted_rows[start]);
    for (uint32_t first = start; first < end; first += threads) {
      const uint32_t i = first + lane.thread();
      const bool mine = i < end;
      const uint32_t row = mine ? batch.sorted_rows[i] : 0;
      read(lane, *shared, mine, row);
      const KeyState state = shared->state;
      const uint32_t count = shared->end;
      lane.sync_block();
      if (shared->swaps != 0) {
        if (lane.thread() == 0) one_by_one(*shared, state, count);
      } else {
        at_once(lane, *shared, state, count);
      }
      lane.sync_block();
      // The operation that ended the streak has its state before, too.
      if (mine && lane.thread() <= count) batch.reply(row, shared->before[lane.thread()]);
      lane.sync_block();
      if (count < threads) return;
    }
  }

  // What the threads' rows are, and up to where they belong to the streak. Ends with all in step.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void read(const Lane& lane, Shared& shared, bool mine,
                                                 uint32_t row) const {
    const uint32_t thread = lane.thread();
    const TableOp op = mine ? batch.op_of(row) : TableOp::erase;
    shared.op[thread] = op;
    shared.value[thread] = mine ? batch.value_of(row, op) : 0;
    shared.expected[thread] = mine ? batch.expected_of(row, op) : 0;
    if (thread == 0) {
      shared.end = threads;
      shared.swaps = 0;
    }
    lane.sync_block();
    if (is_constant(op)) Lane::atomic_min(&shared.end, thread);
    lane.sync_block();
    if (thread < shared.end && op == TableOp::compare_and_swap) {
      Lane::atomic_or(&shared.swaps, 1u);
    }
    lane.sync_block();
  }

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void one_by_one(Shared& shared, KeyState state,
                                                              uint32_t count) {
    for (uint32_t k = 0; k < count; ++k) {
      shared.before[k] = state;
      state = apply(shared.op[k], shared.value[k], shared.expected[k], state);
    }
    if (count < threads) shared.before[count] = state;
    shared.state = state;
  }

  // Without compare-and-swaps: the key is present from the first row on, and sums do the rest.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void at_once(const Lane& lane, Shared& shared,
                                                           KeyState state, uint32_t count) {
    const uint32_t thread = lane.thread();
    const bool adds = thread < count && shared.op[thread] == TableOp::add;
    // The first operation on an absent key stores its value, whichever it is.
    const bool sets = thread == 0 && count != 0 && state.found == 0;
    const uint64_t added = adds || sets ? shared.value[thread] : 0;
    const uint64_t sum = sum_upto(lane, shared.sums, added);
    const uint64_t base = state.found != 0 ? state.value : 0;
    const bool present = state.found != 0 || thread != 0;
    shared.before[thread] = {base + sum - added, static_cast<uint8_t>(present ? 1 : 0)};
    if (thread + 1 == count) shared.state = {base + sum, 1};
  }
};

}  // namespace isotherm
