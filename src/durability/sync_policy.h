// SyncPolicy: when the journal is synced to disk, by Redis's names; journal.h says what each means.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace isotherm {

enum class SyncPolicy : uint8_t { always, everysec, no };
inline constexpr std::string_view sync_policy_names[] = {"always", "everysec", "no"};

constexpr std::string_view to_string(SyncPolicy policy) {
  return sync_policy_names[static_cast<size_t>(policy)];
}
constexpr std::optional<SyncPolicy> parse_sync_policy(std::string_view text) {
  for (size_t i = 0; i < std::size(sync_policy_names); ++i) {
    if (sync_policy_names[i] == text) return static_cast<SyncPolicy>(i);
  }
  return std::nullopt;
}

}  // namespace isotherm
