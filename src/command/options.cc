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

constexpr std::array<std::pair<DeviceChoice, std::string_view>, 3> choices{{
    {DeviceChoice::cpu, "cpu"},
    {DeviceChoice::cuda, "cuda"},
    {DeviceChoice::automatic, "auto"},
}};

constexpr std::array<std::pair<RouterChoice, std::string_view>, 4> routers{{
    {RouterChoice::off, "off"},
    {RouterChoice::histogram, "histogram"},
    {RouterChoice::budget, "budget"},
    {RouterChoice::chance, "chance"},
}};

constexpr std::array<std::pair<IndexChoice, std::string_view>, 3> indexes{{
    {IndexChoice::line, "line"},
    {IndexChoice::cuckoo, "cuckoo"},
    {IndexChoice::set, "set"},
}};

constexpr std::array<std::pair<Scheduling, std::string_view>, 4> schedulings{{
    {Scheduling::greedy, "greedy"},
    {Scheduling::periodic, "periodic"},
    {Scheduling::fixed_size, "fixed"},
    {Scheduling::adaptive, "adaptive"},
}};

template <class Value, size_t n>
std::string_view name_in(const std::array<std::pair<Value, std::string_view>, n>& names,
                         Value wanted) {
  for (const auto& [value, name] : names) {
    if (value == wanted) return name;
  }
  return "unknown";
}

template <class Value, size_t n>
std::optional<Value> value_in(const std::array<std::pair<Value, std::string_view>, n>& names,
                              std::string_view wanted) {
  for (const auto& [value, name] : names) {
    if (name == wanted) return value;
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(EvictionPolicy policy) { return name_in(policies, policy); }

std::optional<EvictionPolicy> parse_eviction_policy(std::string_view name) {
  return value_in(policies, name);
}

std::string_view to_string(DeviceChoice choice) { return name_in(choices, choice); }

std::optional<DeviceChoice> parse_device_choice(std::string_view name) {
  return value_in(choices, name);
}

std::string_view to_string(RouterChoice choice) { return name_in(routers, choice); }

std::optional<RouterChoice> parse_router_choice(std::string_view name) {
  return value_in(routers, name);
}

std::string_view to_string(IndexChoice choice) { return name_in(indexes, choice); }

std::optional<IndexChoice> parse_index_choice(std::string_view name) {
  return value_in(indexes, name);
}

std::string_view to_string(Scheduling policy) { return name_in(schedulings, policy); }

std::optional<Scheduling> parse_scheduling(std::string_view name) {
  return value_in(schedulings, name);
}

}  // namespace isotherm
