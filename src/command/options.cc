#include "isotherm/options.h"

#include <array>
#include <utility>

namespace isotherm {
namespace {

constexpr std::array<std::pair<EvictionPolicy, std::string_view>, 5> policies{{
    {EvictionPolicy::noeviction, "noeviction"},
    {EvictionPolicy::allkeys_lru, "allkeys-lru"},
    {EvictionPolicy::allkeys_random, "allkeys-random"},
    {EvictionPolicy::volatile_lru, "volatile-lru"},
    {EvictionPolicy::volatile_ttl, "volatile-ttl"},
}};

}  // namespace

std::string_view to_string(EvictionPolicy policy) {
  for (const auto& [value, name] : policies) {
    if (value == policy) return name;
  }
  return "unknown";
}

std::optional<EvictionPolicy> parse_eviction_policy(std::string_view name) {
  for (const auto& [value, known] : policies) {
    if (known == name) return value;
  }
  return std::nullopt;
}

}  // namespace isotherm
