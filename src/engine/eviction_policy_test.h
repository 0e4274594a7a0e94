// EvictionPolicyTest: what tests of eviction have in common: a store with a cap, the names of its
// keys, and the policies that evict.
//
// Some of the policies never evict a key without an expiry, so tests that cover all policies give
// every key one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "engine/engine.h"

namespace isotherm {

class EvictionPolicyTest : public ::testing::TestWithParam<EvictionPolicy> {
 protected:
  static Options options(EvictionPolicy policy, uint64_t maxmemory) {
    Options options;
    options.maxmemory = maxmemory;
    options.maxmemory_policy = policy;
    return options;
  }
  static std::string key(uint64_t number) { return "key:" + std::to_string(number); }

  ManualClock clock{1000};
};

inline auto policies_that_evict() {
  return ::testing::Values(EvictionPolicy::allkeys_lru, EvictionPolicy::allkeys_random,
                           EvictionPolicy::volatile_lru, EvictionPolicy::volatile_ttl);
}

inline std::string policy_name(const ::testing::TestParamInfo<EvictionPolicy>& policy) {
  std::string name(to_string(policy.param));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace isotherm
