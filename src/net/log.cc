#include "net/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <memory>

#include "net/text.h"

namespace isotherm::net {
namespace {

struct LevelName {
  LogLevel level;
  std::string_view name;
  spdlog::level::level_enum severity;
};

constexpr std::array<LevelName, 4> level_names{{
    {LogLevel::debug, "debug", spdlog::level::trace},
    {LogLevel::verbose, "verbose", spdlog::level::debug},
    {LogLevel::notice, "notice", spdlog::level::info},
    {LogLevel::warning, "warning", spdlog::level::warn},
}};

spdlog::level::level_enum severity_of(LogLevel level) {
  return level_names[static_cast<size_t>(level)].severity;
}

std::shared_ptr<spdlog::logger> opened;

}  // namespace

std::string_view to_string(LogLevel level) { return level_names[static_cast<size_t>(level)].name; }

std::optional<LogLevel> parse_log_level(std::string_view name) {
  for (const LevelName& known : level_names) {
    if (equals_ignoring_case(known.name, name)) return known.level;
  }
  return std::nullopt;
}

void open_log(LogLevel level) {
  opened = spdlog::stdout_logger_mt("isotherm");
  opened->set_pattern("%Y-%m-%d %H:%M:%S.%e %L %v");
  opened->flush_on(spdlog::level::info);
  use_log_level(level);
}

void use_log_level(LogLevel level) {
  if (opened) opened->set_level(severity_of(level));
}

void log(LogLevel level, std::string_view line) {
  if (opened) opened->log(severity_of(level), "{}", line);
}

}  // namespace isotherm::net
