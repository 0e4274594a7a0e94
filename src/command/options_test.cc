#include "isotherm/options.h"

#include <gtest/gtest.h>

#include <utility>

#include "isotherm/status.h"

namespace isotherm::options_test {
namespace {

TEST(EvictionPolicy, NamesAreThoseOfRedis) {
  const std::pair<EvictionPolicy, std::string_view> names[] = {
      {EvictionPolicy::noeviction, "noeviction"},
      {EvictionPolicy::allkeys_lru, "allkeys-lru"},
      {EvictionPolicy::allkeys_random, "allkeys-random"},
      {EvictionPolicy::volatile_lru, "volatile-lru"},
      {EvictionPolicy::volatile_ttl, "volatile-ttl"}};
  for (const auto& [policy, name] : names) {
    EXPECT_EQ(to_string(policy), name);
    EXPECT_EQ(parse_eviction_policy(name), policy);
  }
  for (const std::string_view unknown :
       {"", "lru", "allkeys_lru", "ALLKEYS-LRU", "volatile-random"}) {
    EXPECT_EQ(parse_eviction_policy(unknown), std::nullopt);
  }
}

TEST(Status, EveryStatusHasAName) {
  for (uint8_t i = 0; i <= static_cast<uint8_t>(Status::invalid); ++i) {
    EXPECT_NE(to_string(static_cast<Status>(i)), "unknown");
  }
  EXPECT_EQ(to_string(static_cast<Status>(200)), "unknown");
}

}  // namespace
}  // namespace isotherm::options_test
