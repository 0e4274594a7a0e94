// Sort kernels: the writers of keys with several writers, sorted by key, stably, as a radix sort
// whose count of rows stays on the device.
//
// A pass goes by `bits` bits of the slot number, from the lowest up. DigitsKernel counts the digits
// of all passes, which do not depend on the order of rows, and the rows. SweepKernel moves the rows
// of one pass: a block counts its own digits, adds those of the blocks before it, which publish
// their counts as they know them, and where the digit begins. The first pass takes the rows whose
// bit is set in grouped_bits; the later ones read what the pass before wrote. Each block has a
// contiguous range of the input, and each warp a contiguous range of the block's, so order is kept.
//
// Threads. Blocks of a sweep take numbers as they start, so those that a block waits for run or
// have ended. What they publish is single words: a count and how much of the blocks before it
// covers. Limits. At most max_bits bits a pass, max_passes passes, 2^30 rows.
#pragma once

#include <cstdint>

#include "gpu/batch/batch_view.h"
#include "gpu/kernel/block_sum.h"

namespace isotherm {

// What is cleared before a part.
struct alignas(64) SortCounts {
  static constexpr uint32_t max_bits = 9;
  static constexpr uint32_t max_digits = 1u << max_bits;
  static constexpr uint32_t max_passes = 3;
  static constexpr uint32_t blocks = 132;

  // Of those that so many blocks use.
  static constexpr uint64_t bytes_for(uint32_t used_blocks) {
    return sizeof(SortCounts) - sizeof(published) + sizeof(published[0]) * used_blocks;
  }

  uint32_t digits[max_passes][max_digits];
  alignas(64) uint32_t begun[max_passes];  // blocks
  alignas(64) uint32_t published[blocks][max_passes][max_digits];
};

struct SortPass {
  static constexpr uint32_t warps = 16;  // of a block
  static constexpr uint32_t threads = warps * 32;

  BatchView batch;
  SortCounts* counts = nullptr;
  uint32_t number = 0;
  uint32_t bits = 0;
  const uint32_t* slots_in = nullptr;
  const uint32_t* rows_in = nullptr;
  uint32_t* slots_out = nullptr;
  uint32_t* rows_out = nullptr;

  ISOTHERM_HOST_DEVICE bool from_batch() const { return number == 0; }
  ISOTHERM_HOST_DEVICE uint32_t digits() const { return 1u << bits; }
  ISOTHERM_HOST_DEVICE uint32_t digit(uint32_t slot, uint32_t of_pass) const {
    return (slot >> (of_pass * bits)) & (digits() - 1);
  }

  struct Range {
    uint32_t begin;
    uint32_t end;
  };
  // The rows of one warp of one block, from a multiple of 32 on.
  ISOTHERM_HOST_DEVICE Range range(uint32_t block, uint32_t blocks, uint32_t warp) const {
    const uint32_t size = from_batch() ? batch.rows : batch.counters->grouped;
    return share(share({0, size}, block, blocks), warp, warps);
  }

  // Calls take(slot, row, taken) for each row of a range, once per 32 rows in every lane.
  template <class Take>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void each(Range range, uint32_t lane, Take&& take) const {
    for (uint32_t first = range.begin; first < range.end; first += 32) {
      const uint32_t i = first + lane;
      if (from_batch()) {
        const uint32_t bits_of_warp = batch.grouped_bits[first / 32];
        if (bits_of_warp == 0) continue;
        const bool taken = (bits_of_warp >> lane & 1) != 0;
        take(taken ? batch.slot_of_row[i] : 0, i, taken);
      } else {
        const bool taken = i < range.end;
        take(taken ? slots_in[i] : 0, taken ? rows_in[i] : 0, taken);
      }
    }
  }

 private:
  // The part `number` of `parts`, in whole warps.
  ISOTHERM_HOST_DEVICE static Range share(Range whole, uint32_t number, uint32_t parts) {
    const uint32_t length = whole.end - whole.begin;
    const uint32_t per_part = ((length + parts - 1) / parts + 31) & ~31u;
    const uint64_t begin = whole.begin + uint64_t{per_part} * number;
    const uint64_t end = begin + per_part;
    return {begin < whole.end ? static_cast<uint32_t>(begin) : whole.end,
            end < whole.end ? static_cast<uint32_t>(end) : whole.end};
  }
};

struct DigitsKernel {
  static constexpr uint32_t threads = SortPass::threads;
  struct Shared {
    uint32_t digits[SortCounts::max_passes][SortCounts::max_digits];
  };
  SortPass pass;
  uint32_t passes = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    if (pass.batch.counters->any_grouped == 0 || pass.batch.takes_listed()) return;
    auto* shared = lane.template shared<Shared>();
    for (uint32_t p = 0; p < passes; ++p) {
      for (uint32_t d = lane.thread(); d < pass.digits(); d += threads) shared->digits[p][d] = 0;
    }
    lane.sync_block();
    uint32_t rows = 0;
    const SortPass::Range range = pass.range(lane.block(), lane.blocks(), lane.thread() / 32);
    pass.each(range, lane.thread() & 31, [&](uint32_t slot, uint32_t, bool taken) {
      for (uint32_t p = 0; taken && p < passes; ++p) {
        Lane::atomic_add(&shared->digits[p][pass.digit(slot, p)], 1u);
      }
      rows += count_bits(lane.ballot(whole_warp, taken));
    });
    if ((lane.thread() & 31) == 0 && rows != 0) {
      Lane::atomic_add(&pass.batch.counters->grouped, rows);
    }
    lane.sync_block();
    for (uint32_t p = 0; p < passes; ++p) {
      for (uint32_t d = lane.thread(); d < pass.digits(); d += threads) {
        const uint32_t count = shared->digits[p][d];
        if (count != 0) Lane::atomic_add(&pass.counts->digits[p][d], count);
      }
    }
  }
};

struct SweepKernel {
  static constexpr uint32_t threads = SortPass::threads;
  struct Shared {
    uint32_t position[SortPass::warps][SortCounts::max_digits];
    BlockSums<uint32_t, threads> sums;
    uint32_t block;
  };
  SortPass pass;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    if (pass.batch.counters->grouped == 0 || pass.batch.takes_listed()) return;
    auto* shared = lane.template shared<Shared>();
    if (lane.thread() == 0) {
      shared->block = Lane::atomic_add(&pass.counts->begun[pass.number], 1u);
    }
    uint32_t* mine = shared->position[lane.thread() / 32];
    for (uint32_t d = lane.thread() & 31; d < pass.digits(); d += 32) mine[d] = 0;
    lane.sync_block();
    const SortPass::Range range = pass.range(shared->block, lane.blocks(), lane.thread() / 32);
    place(lane, range, mine, [](uint32_t, uint32_t, uint32_t) {});
    lane.sync_block();
    begin_digits(lane, *shared);
    lane.sync_block();
    place(lane, range, mine, [&](uint32_t at, uint32_t slot, uint32_t row) {
      pass.slots_out[at] = slot;
      pass.rows_out[at] = row;
    });
  }

 private:
  // Published words: a count, whether it is there, and whether the blocks before are in it.
  static constexpr uint32_t known = 1u << 30;
  static constexpr uint32_t whole = 1u << 31;
  static constexpr uint32_t count_of = known - 1;

  // Turns the counts of the block's warps into their first positions.
  template <class Lane>
  ISOTHERM_HOST_DEVICE void begin_digits(const Lane& lane, Shared& shared) const {
    static_assert(SortCounts::max_digits <= SortPass::threads);
    const uint32_t d = lane.thread();
    const bool digit = d < pass.digits();
    const uint32_t total = digit ? pass.counts->digits[pass.number][d] : 0;
    uint32_t position = sum_upto(lane, shared.sums, total) - total;
    if (!digit) return;
    uint32_t own = 0;
    for (const auto& of_warp : shared.position) own += of_warp[d];
    position += total == 0 ? 0 : count_before<Lane>(shared.block, d, own);
    for (auto& of_warp : shared.position) {
      const uint32_t count = of_warp[d];
      of_warp[d] = position;
      position += count;
    }
  }

  // Rows with the digit in the blocks before.
  template <class Lane>
  ISOTHERM_HOST_DEVICE uint32_t count_before(uint32_t block, uint32_t digit, uint32_t own) const {
    auto& published = pass.counts->published;
    const uint32_t number = pass.number;
    Lane::store(&published[block][number][digit], own | known | (block == 0 ? whole : 0));
    // Several at a time, since each look takes as long as a trip to memory.
    constexpr uint32_t looks = 8;
    uint32_t before = 0;
    for (uint32_t at = block; at != 0;) {
      uint32_t seen[looks];
      for (uint32_t i = 0; i < looks; ++i) {
        seen[i] = i < at ? Lane::load(&published[at - 1 - i][number][digit]) : 0;
      }
      bool all = false;
      for (uint32_t i = 0; i < looks && !all && (seen[i] & known) != 0; ++i) {
        before += seen[i] & count_of;
        all = (seen[i] & whole) != 0;
        --at;
      }
      if (all) break;
    }
    if (block != 0) Lane::store(&published[block][number][digit], (before + own) | known | whole);
    return before;
  }

  // Calls take(position, slot, row) for the rows of a warp's range, and moves the positions on.
  template <class Lane, class Take>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void place(const Lane& lane, SortPass::Range range,
                                                  uint32_t* position, Take&& take) const {
    constexpr uint32_t no_digit = ~0u;
    const uint32_t number = lane.thread() & 31;
    pass.each(range, number, [&](uint32_t slot, uint32_t row, bool taken) {
      const uint32_t digit = taken ? pass.digit(slot, pass.number) : no_digit;
      const uint32_t peers = lane.match(whole_warp, digit);
      const uint32_t rank = count_below(peers, number);
      const uint32_t base = taken ? position[digit] : 0;
      lane.sync_warp(whole_warp);
      if (taken) {
        take(base + rank, slot, row);
        if (rank == 0) position[digit] = base + count_bits(peers);
      }
      lane.sync_warp(whole_warp);
    });
  }
};

}  // namespace isotherm
