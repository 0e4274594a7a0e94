// HotStats: what there is to tell of a store's hot side (router/hot_side.h), for those who only
// show it.
#pragma once

#include <array>
#include <cstdint>

namespace isotherm {

struct HotStats {
  uint64_t bytes = 0;  // of bins and table
  uint64_t table_bytes = 0;
  std::array<uint64_t, 4> bins{};  // cold, warming, hot, cooling
  uint64_t warmed = 0;             // bins
  uint64_t cooled = 0;
  uint64_t trainings = 0;
  uint64_t changes = 0;   // of the model's choice
  double share_hot = 0;   // of the requests sampled last
  uint64_t resizes = 0;   // of the table
  uint64_t failures = 0;  // of the thread, without memory or an epoch slot
};

}  // namespace isotherm
