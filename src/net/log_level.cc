#include "net/log_level.h"

#include <spdlog/spdlog.h>

#include <array>

#include "net/text.h"

namespace isotherm::net {
namespace {

struct LevelName {
  LogLevel level;
  std::string_view name;
  spdlog::level::level_enum takes;
};

constexpr std::array<LevelName, 4> level_names{{
    {LogLevel::debug, "debug", spdlog::level::trace},
    {LogLevel::verbose, "verbose", spdlog::level::debug},
    {LogLevel::notice, "notice", spdlog::level::info},
    {LogLevel::warning, "warning", spdlog::level::warn},
}};

}  // namespace

std::string_view to_string(LogLevel level) { return level_names[static_cast<size_t>(level)].name; }

std::optional<LogLevel> parse_log_level(std::string_view name) {
  for (const LevelName& known : level_names) {
    if (equals_ignoring_case(known.name, name)) return known.level;
  }
  return std::nullopt;
}

void use_log_level(LogLevel level) {
  spdlog::set_level(level_names[static_cast<size_t>(level)].takes);
}

}  // namespace isotherm::net
