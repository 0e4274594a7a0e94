#include "net/client_limits.h"

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/memory_amount.h"
#include "base/words.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

constexpr std::string_view class_names[] = {"normal", "slave", "pubsub"};

std::optional<size_t> class_of(std::string_view name) {
  for (size_t i = 0; i < std::size(class_names); ++i) {
    if (equals_ignoring_case(name, class_names[i])) return i;
  }
  if (equals_ignoring_case(name, "replica")) return ClientLimits::replica;
  return std::nullopt;
}

std::string get_output(const ClientLimits& limits) {
  std::string text;
  for (size_t i = 0; i < std::size(class_names); ++i) {
    const OutputLimit& limit = limits.output[i];
    if (i != 0) text += ' ';
    text.append(class_names[i]).append(" ");
    text += std::to_string(limit.hard) + " " + std::to_string(limit.soft) + " " +
            std::to_string(limit.soft_seconds);
  }
  return text;
}

std::string set_output(ClientLimits& limits, std::string_view text, bool dry) {
  const std::vector<std::string_view> words = words_of(text, " \t\r\n");
  if (words.size() % 4 != 0) return "Wrong number of arguments in buffer limit configuration.";
  for (size_t i = 0; i < words.size(); i += 4) {
    const auto of = class_of(words[i]);
    if (!of) return "Invalid client class specified in buffer limit configuration.";
    const auto hard = parse_memory(words[i + 1]);
    const auto soft = parse_memory(words[i + 2]);
    const auto seconds = parse_integer(words[i + 3]);
    constexpr int64_t most_seconds = std::numeric_limits<int32_t>::max();
    if (!hard || !soft || !seconds || *seconds < 0 || *seconds > most_seconds) {
      return "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
    }
    if (dry) continue;
    OutputLimit& limit = limits.output[*of];
    limit.hard = *hard;
    limit.soft = *soft;
    limit.soft_seconds = *seconds;
  }
  return {};
}

std::string get_query(const ClientLimits& limits) { return std::to_string(limits.query); }

std::string set_query(ClientLimits& limits, std::string_view text, bool dry) {
  constexpr uint64_t least = 1 << 20;
  constexpr uint64_t most = std::numeric_limits<int64_t>::max();
  const auto bytes = parse_memory(text);
  if (!bytes) return "argument must be a memory value";
  if (*bytes < least || *bytes > most) {
    return "argument must be between " + std::to_string(least) + " and " + std::to_string(most) +
           " inclusive";
  }
  if (!dry) limits.query = *bytes;
  return {};
}

std::string get_clients(const ClientLimits& limits) {
  const int64_t told = limits.clients;
  return told < 0 ? std::to_string(-told) + "%" : std::to_string(told);
}

std::string set_clients(ClientLimits& limits, std::string_view text, bool dry) {
  constexpr uint64_t most_percent = 100;
  constexpr uint64_t most_bytes = std::numeric_limits<int64_t>::max();
  const bool percent = text.ends_with('%');
  const auto amount = parse_memory(text.substr(0, text.size() - (percent ? 1 : 0)));
  if (!amount || *amount > most_bytes) return "argument must be a memory or percent value";
  if (percent && *amount > most_percent) {
    return "percentage argument must be less or equal to " + std::to_string(most_percent);
  }
  const auto told = static_cast<int64_t>(*amount);
  if (!dry) limits.clients = percent ? -told : told;
  return {};
}

constexpr ClientLimitOption all_limits[] = {
    {"client-output-buffer-limit", get_output, set_output},
    {"client-query-buffer-limit", get_query, set_query},
    {"maxmemory-clients", get_clients, set_clients},
};

}  // namespace

std::span<const ClientLimitOption> client_limit_options() { return all_limits; }

const ClientLimitOption* find_client_limit(std::string_view name) {
  for (const ClientLimitOption& option : all_limits) {
    if (equals_ignoring_case(option.name, name)) return &option;
  }
  return nullptr;
}

}  // namespace isotherm::net
