// Presets: the loads of YCSB and of the five papers, by name.
//
// A preset sets mix, distribution, skew, and key and value sizes; the number of records stays the
// user's choice, since the papers' (10 to 100 million, or 32 GB) need large machines; it is told in
// the description. Flags given beside a preset win over it.
#pragma once

#include <span>
#include <string_view>

#include "isotherm_bench/workload.h"

namespace isotherm::bench {

struct Preset {
  std::string_view name;
  std::string_view description;
  Mix mix;
  Distribution distribution;
  double theta;
  uint32_t key_size;
  uint64_t value_size;
  bool hot_updates = true;
};

std::span<const Preset> presets();
// False where no preset has that name.
bool apply_preset(std::string_view name, Workload& workload);

}  // namespace isotherm::bench
