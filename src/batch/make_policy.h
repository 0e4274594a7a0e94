// make_policy: the scheduling policy that the options name, with that policy's own options.
#pragma once

#include <memory>
#include <stdexcept>

#include "batch/adaptive_policy.h"
#include "batch/fixed_size_policy.h"
#include "batch/greedy_policy.h"
#include "batch/periodic_policy.h"

namespace isotherm {

// Throws std::invalid_argument for options that cannot work.
inline std::unique_ptr<SchedulingPolicy> make_policy(const SchedulingOptions& options) {
  switch (options.policy) {
    case Scheduling::greedy:
      return std::make_unique<GreedyPolicy>(options.greedy);
    case Scheduling::periodic:
      return std::make_unique<PeriodicPolicy>(options.periodic);
    case Scheduling::fixed_size:
      return std::make_unique<FixedSizePolicy>(options.fixed_size);
    case Scheduling::adaptive:
      return std::make_unique<AdaptivePolicy>(options.adaptive);
  }
  throw std::invalid_argument("policy must be greedy, periodic, fixed or adaptive");
}

}  // namespace isotherm
