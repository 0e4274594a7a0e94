// RangeMerge: the pairs of one range of keys, of all runs of a tier together, in the order of keys,
// for one warp, which takes them by up to 32.
//
// Lane r holds what is left of run r. In each step the 32 lanes are shared out among the runs that
// have some left, first by how much that is, then by how many entries each of them gave in the step
// before; each lane loads one entry, so every run shows a window. What
// comes behind the end of a window that is not its run's last has to wait, since its run may have
// earlier ones; so all entries up to the first such end are known, and every lane compares its own
// with those of the others: which are before it, and whether a newer run hides it. Where one run
// is left nothing is compared.
//
// Threads. All lanes of a warp construct one, and call. Limits. SortedRuns::most runs, so each has
// a lane.
#pragma once

#include <cstdint>

#include "gpu/kernel/warp_deal.h"
#include "gpu/sorted/sorted_find.h"

namespace isotherm {

struct RangeMergeWarp {
  WarpDeal deal;
  uint32_t bound[2 * SortedRuns::most];
  uint64_t prefix[32];
  const uint64_t* record[32];
  uint32_t run[32];
  uint64_t found[32];  // the answer of a step: records' addresses, the lowest bit: has flags
};

template <class Lane>
class RangeMerge {
 public:
  ISOTHERM_HOST_DEVICE RangeMerge(const Lane& lane, RangeMergeWarp& warp, const SortedRuns& runs,
                                  const AskedKey& first, const AskedKey& end)
      : lane_(lane), warp_(warp), runs_(runs), number_(lane.thread() & 31) {
    for (uint32_t job = number_; job < 2 * runs.count; job += 32) {
      AskedKey key = first;
      if ((job & 1) != 0) key = end;
      warp.bound[job] = find_bound(runs.run[job / 2], sought(runs.front, key)).at;
    }
    lane.sync_warp(whole_warp);
    if (number_ < runs.count) {
      begin_ = warp.bound[2 * number_];
      end_ = warp.bound[2 * number_ + 1];
      if (end_ < begin_) end_ = begin_;
    }
    lane.sync_warp(whole_warp);
    restart();
  }

  ISOTHERM_HOST_DEVICE void restart() {
    at_ = begin_;
    weight_ = end_ - begin_;
    left_ = lane_.shuffle(whole_warp, warp_sum_upto(lane_, uint64_t{end_ - begin_}), 31);
  }
  // Whether there are entries that no step has taken.
  ISOTHERM_HOST_DEVICE bool more() const { return left_ != 0; }

  // The next pairs go to `found`, as many as are returned: none where all that was looked at is
  // hidden or erased. Readers of `found` meet before the next step.
  ISOTHERM_HOST_DEVICE uint32_t step() {
    const uint32_t rest = end_ - at_;
    const uint32_t active = lane_.ballot(whole_warp, rest != 0);
    const uint32_t share = share_of(rest, count_bits(active));
    const uint32_t all = warp_.deal.deal(lane_, share);
    const bool mine = number_ < all;
    const uint32_t of = mine ? warp_.deal.owner_of(number_) : 0;
    const uint32_t nth = number_ - warp_.deal.begin[of];
    const uint32_t entry = lane_.shuffle(whole_warp, at_, of) + nth;
    const bool ends = lane_.shuffle(whole_warp, share, of) == nth + 1;
    const bool whole = lane_.shuffle(whole_warp, uint32_t{share == rest}, of) != 0;
    Pair head{0, 0};
    const uint64_t* record = nullptr;
    if (mine) {
      head = runs_.run[of].head(entry);
      record = runs_.run[of].words + (head.second >> SortedPlace::word_at);
    }
    Order order{(1u << number_) - 1, false};
    if (count_bits(active) > 1) order = compare(mine, all, of, head.first, record);
    const uint32_t window_ends = lane_.ballot(whole_warp, mine && ends && !whole);
    const bool known = mine && (order.before & window_ends) == 0;
    const uint32_t taken = lane_.ballot(whole_warp, known);
    const bool shown = known && !order.hidden && (head.second & SortedPlace::erased) == 0;
    const uint32_t shows = lane_.ballot(whole_warp, shown);
    if (shown) {
      const uint64_t flagged = (head.second & SortedPlace::flagged) != 0 ? 1 : 0;
      warp_.found[count_bits(order.before & shows)] = reinterpret_cast<uint64_t>(record) | flagged;
    }
    uint32_t gave = 0;
    if (share != 0) {
      gave = count_bits(taken & (~0u >> (32 - share)) << warp_.deal.begin[number_]);
    }
    at_ += gave;
    weight_ = rest != gave ? gave + 1 : 0;
    left_ -= count_bits(taken);
    lane_.sync_warp(whole_warp);
    return count_bits(shows);
  }

 private:
  struct Order {
    uint32_t before = 0;  // the lanes whose entries come before this one's, a bit each
    bool hidden = false;  // by a newer run
  };

  // Of the 32 lanes. One for each run that has entries left, the others by the weights of runs.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t share_of(uint32_t rest, uint32_t active) const {
    if (left_ <= 32) return rest;
    const uint64_t all = lane_.shuffle(whole_warp, warp_sum_upto(lane_, uint64_t{weight_}), 31);
    if (rest == 0) return 0;
    const uint64_t share = 1 + (32 - active) * uint64_t{weight_} / all;
    return share < rest ? static_cast<uint32_t>(share) : rest;
  }

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Order compare(bool mine, uint32_t all, uint32_t run,
                                                     uint64_t prefix,
                                                     const uint64_t* record) const {
    warp_.prefix[number_] = prefix;
    warp_.record[number_] = record;
    warp_.run[number_] = run;
    lane_.sync_warp(whole_warp);
    Order order;
    ISOTHERM_KEEP_ROLLED
    for (uint32_t other = 0; mine && other < all; ++other) {
      if (warp_.run[other] == run) {
        order.before |= other < number_ ? 1u << other : 0;
        continue;
      }
      int its = warp_.prefix[other] < prefix ? -1 : 1;
      if (warp_.prefix[other] == prefix) {
        its = compare_keys(SortedRecord::of(warp_.record[other]).key(),
                           SortedRecord::of(record).key());
      }
      if (its < 0) order.before |= 1u << other;
      if (its == 0 && warp_.run[other] < run) order.hidden = true;
    }
    return order;
  }

  const Lane& lane_;
  RangeMergeWarp& warp_;
  const SortedRuns& runs_;
  const uint32_t number_;
  // Of run `number_`.
  uint32_t begin_ = 0;
  uint32_t end_ = 0;
  uint32_t at_ = 0;
  uint32_t weight_ = 0;  // 0 where nothing is left
  uint64_t left_ = 0;    // of all runs
};

}  // namespace isotherm
