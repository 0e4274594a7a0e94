// The kernels of a part, as sequences of steps (gpu/platform/steps.h): which there are and in what
// order. See gpu/batch/batch_view.h for what each is for.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/batch/direct_kernels.h"
#include "gpu/batch/extend_kernel.h"
#include "gpu/batch/few_kernel.h"
#include "gpu/batch/group_kernels.h"
#include "gpu/batch/rank_kernel.h"
#include "gpu/batch/sort_kernels.h"
#include "gpu/batch/streak_kernel.h"
#include "gpu/batch/try_kernels.h"
#include "gpu/batch/update_kernels.h"
#include "gpu/kernel/settle_kernels.h"
#include "gpu/platform/steps.h"

namespace isotherm {

// What the sort of a part works in: two pairs of columns, to and fro.
struct SortColumns {
  SortCounts* counts = nullptr;
  uint32_t passes = 0;
  uint32_t bits = 0;
  uint32_t* slots[2] = {};
  uint32_t* rows[2] = {};

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE SortPass pass(const BatchView& batch,
                                                     uint32_t number) const {
    SortPass pass;
    pass.batch = batch;
    pass.counts = counts;
    pass.number = number;
    pass.bits = bits;
    pass.slots_in = slots[(number + 1) % 2];
    pass.rows_in = rows[(number + 1) % 2];
    pass.slots_out = slots[number % 2];
    pass.rows_out = rows[number % 2];
    return pass;
  }
  // Where the last pass leaves them.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t last() const { return (passes + 1) % 2; }
};

// What all sequences are about. Its columns are set in `batch`.
template <class Kind>
struct PartOfSteps {
  typename Kind::View table;
  BatchView batch;
  typename Kind::Totals totals;
  void* cleared = nullptr;
  uint64_t cleared_bytes = 0;
  SortColumns sort;
  bool has_gets = false;
  bool has_dependent = false;  // whether it may have operations other than get, put and erase

  // Writers of keys with several, and the end of the part.
  ISOTHERM_EITHER_SIDE
  template <class Steps>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void end(Steps& steps) const {
    if (steps.any(&batch.counters->failed_writes)) steps.run(ExtendKernel<Kind>{table, batch});
    if (steps.any(&batch.counters->any_grouped)) {
      // Where a step takes little, to search for where a long group begins takes as long.
      const bool at_once = !(has_dependent && steps.any(&batch.counters->any_dependent)) &&
                           !(Steps::reads_counts && steps.any(&batch.counters->too_many));
      sort_grouped(steps);
      if (at_once) {
        steps.run(GroupEndKernel<Kind, true>{table, batch});
      } else {
        steps.run(GroupBeginKernel<Kind>{table, batch});
        if (has_dependent && steps.any(&batch.counters->streaks)) steps.run(StreakKernel{batch});
        steps.run(GroupEndKernel<Kind>{table, batch});
      }
    }
    steps.run(LateKernel<typename Kind::Totals>{batch, totals});
  }

 private:
  ISOTHERM_EITHER_SIDE
  template <class Steps>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void sort_grouped(Steps& steps) const {
    if (batch.most_listed == 0) return sort_all(steps);
    const bool too_many = steps.any(&batch.counters->too_many);
    if (too_many) sort_all(steps);
    if (!too_many || !Steps::reads_counts) {
      steps.run(RankKernel{batch, sort.slots[sort.last()], sort.rows[sort.last()]});
    }
  }
  ISOTHERM_EITHER_SIDE
  template <class Steps>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void sort_all(Steps& steps) const {
    steps.run_large(DigitsKernel{sort.pass(batch, 0), sort.passes});
    for (uint32_t number = 0; number < sort.passes; ++number) {
      steps.run_large(SweepKernel{sort.pass(batch, number)});
    }
  }
};

// A kernel and another that does not wait for what the first one does.
template <class First, class Second>
struct BothKernels {
  static_assert(threads_of<First>() == threads_of<Second>());
  static constexpr uint32_t threads = First::threads;
  static constexpr uint32_t blocks_per_multiprocessor =
      std::min(First::blocks_per_multiprocessor, Second::blocks_per_multiprocessor);
  union Shared {
    typename First::Shared first;
    typename Second::Shared second;
  };

  First first;
  Second second;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    first(lane);
    // The same memory serves both, and that of blocks that are parts of one is not laid out alike.
    lane.sync_all();
    second(lane);
  }
};

template <class Kind>
struct PartSteps {
  PartOfSteps<Kind> part;

  ISOTHERM_EITHER_SIDE
  template <class Steps>
  ISOTHERM_HOST_DEVICE void operator()(Steps& steps) const {
    steps.clear(part.cleared, part.cleared_bytes);
    steps.run(MarkKernel<Kind>{part.table, part.batch});
    if (part.has_gets) {
      answer_alone(steps);
    } else {
      steps.run(UpdateKernel<Kind, true>{part.table, part.batch});
    }
    part.end(steps);
  }

 private:
  // Gets of keys that nobody writes, and writers that are alone.
  ISOTHERM_EITHER_SIDE
  template <class Steps>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void answer_alone(Steps& steps) const {
    const GetKernel<Kind> get{part.table, part.batch};
    const UpdateKernel<Kind, false> update{part.table, part.batch};
    if constexpr (requires { Kind::finds_beside_writes; }) {
      steps.run(BothKernels<GetKernel<Kind>, UpdateKernel<Kind, false>>{get, update});
    } else {
      steps.run(get);
      steps.run(update);
    }
  }
};

// Of puts, most of them of keys that are expected to be new.
template <class Kind>
struct TrySteps {
  PartOfSteps<Kind> part;

  ISOTHERM_EITHER_SIDE
  template <class Steps>
  ISOTHERM_HOST_DEVICE void operator()(Steps& steps) const {
    steps.clear(part.cleared, part.cleared_bytes);
    steps.run(TryKernel<Kind>{part.table, part.batch});
    steps.run(MarkLeftKernel<Kind>{part.table, part.batch});
    steps.run(JoinKernel<Kind>{part.table, part.batch});
    steps.run(UpdateLeftKernel<Kind>{part.table, part.batch});
    part.end(steps);
  }
};

// Of a part in which no key comes twice.
template <class Kind>
struct DistinctSteps {
  typename Kind::View table;
  BatchView batch;
  typename Kind::Totals totals;

  ISOTHERM_EITHER_SIDE
  template <class Steps>
  ISOTHERM_HOST_DEVICE void operator()(Steps& steps) const {
    steps.clear(batch.counters, sizeof(PartCounters));
    steps.run(UpdateKernel<Kind, true>{table, batch});
    if (steps.any(&batch.counters->failed_writes)) steps.run(ExtendKernel<Kind>{table, batch});
    steps.run_once(TotalsKernel<typename Kind::Totals>{totals});
  }
};

}  // namespace isotherm
