// Item reply kernels: where each value of a reply goes, and the copies.
//
// Lengths were summed up by 32 rows (gpu/items/item_find_kernels.h). SumItemsKernel, one block,
// turns these sums into where each 32 rows begin; OffsetsKernel adds the lengths within. Then
// values are copied by CopyItemsKernel<ReplyJob> into a window of the reply: the whole of it, or
// one buffer's share at a time.
#pragma once

#include <cstdint>

#include "gpu/items/item_part.h"
#include "gpu/items/warp_copy.h"
#include "gpu/kernel/block_sum.h"

namespace isotherm {

// Sums of 32 rows → the sums of all rows before them; the total; `carry`, if not null, is the bytes
// of the call's parts before, and gets this part's added.
struct SumItemsKernel {
  static constexpr uint32_t threads = 512;

  using Shared = BlockSums<uint64_t, threads>;

  ItemPart part;
  uint64_t* carry = nullptr;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    Shared& sums = *lane.template shared<Shared>();
    const uint32_t number = lane.thread();
    const uint32_t count = (part.rows + 31) / 32;
    const uint32_t each = (count + threads - 1) / threads;
    const uint32_t begin = number * each < count ? number * each : count;
    const uint32_t end = count - begin < each ? count : begin + each;
    uint64_t mine = 0;
    for (uint32_t i = begin; i < end; ++i) mine += part.sums[i];
    const uint64_t upto = sum_upto(lane, sums, mine);
    if (number == threads - 1) {
      part.counts->total = upto;
      if (carry != nullptr) {
        part.counts->base = *carry;
        *carry += upto;
      }
    }
    uint64_t before = upto - mine;
    for (uint32_t i = begin; i < end; ++i) {
      const uint64_t own = part.sums[i];
      part.sums[i] = before;
      before += own;
    }
  }
};

// The offsets of a part whose reply begins at `base` and what its counts say.
struct OffsetsKernel {
  ItemPart part;
  uint64_t base = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint64_t begin = base + part.counts->base;
    warp_rows(lane, part.rows, [&](uint32_t row, bool mine) {
      const uint32_t number = lane.thread() & 31;
      const uint64_t length = mine ? part.lengths[row] : 0;
      uint64_t upto = length;
      for (uint32_t step = 1; step < 32; step *= 2) {
        const uint64_t other = lane.shuffle(whole_warp, upto, number >= step ? number - step : 0);
        if (number >= step) upto += other;
      }
      if (!mine) return;
      upto += begin + part.sums[row / 32];
      part.offsets[row] = static_cast<int64_t>(upto - length);
      if (row == part.rows - 1) part.offsets[part.rows] = static_cast<int64_t>(upto);
    });
  }
};

// Values of the bytes from `begin` to `end` of the reply go to `to`; none where the part's end lies
// beyond `capacity`.
struct ReplyJob {
  static constexpr bool pads = false;

  char* to = nullptr;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t capacity = 0;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Copy copy(const ItemPart& part, uint32_t row) const {
    const uint64_t location = part.before[row];
    if (location == 0 || static_cast<uint64_t>(part.offsets[part.rows]) > capacity) return {};
    const auto first = static_cast<uint64_t>(part.offsets[row]);
    const uint64_t last = first + part.lengths[row];
    const uint64_t from = first < begin ? begin : first;
    const uint64_t upto = last < end ? last : end;
    if (from >= upto) return {};
    return {to + (from - begin), ItemHead::of(location).value() + (from - first),
            static_cast<uint32_t>(upto - from)};
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static ByteRange readable(const ItemPart& /*part*/) {
    return ByteRange::of_items();
  }
};

}  // namespace isotherm
