// SortedGetKernel: gets of a sorted tier, whose replies the host reads in place: each lane searches
// its key in run after run, the newest first, and gpu/items/direct_delivery.h writes the slots.
#pragma once

#include <cstdint>

#include "gpu/items/direct_asked.h"
#include "gpu/sorted/sorted_find.h"

namespace isotherm {

struct SortedGetKernel {
  static constexpr uint32_t threads = DirectAsked::threads;

  struct Shared {
    DirectDelivery::Warp warp[threads / 32];
  };

  SortedRuns runs;
  DirectAsked asked;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    auto* const shared = lane.template shared<Shared>();
    asked.answer(lane, shared->warp[lane.thread() / 32], [&](const DirectAsked::Row& row) {
      if (!row.mine) return DirectReply{};
      return answer({row.key.data, static_cast<uint32_t>(row.key.bytes), row.key.readable});
    });
  }

 private:
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE DirectReply answer(const AskedKey& asked_key) const {
    const SoughtKey<AskedKey> key = sought(runs.front, asked_key);
    for (uint32_t i = 0; i < runs.count; ++i) {
      const RunView& run = runs.run[i];
      const SortedBound bound = find_bound(run, key);
      if (!bound.equal) continue;
      const Pair head = run.head(bound.at);
      if ((head.second & SortedPlace::erased) != 0) return {};
      const SortedRecord record = run.record(head);
      return {record.value(), record.value_bytes,
              record.flags((head.second & SortedPlace::flagged) != 0)};
    }
    return {};
  }
};

}  // namespace isotherm
