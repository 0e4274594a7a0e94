#include "base/memory_amount.h"

#include <charconv>
#include <limits>
#include <map>
#include <string>
#include <system_error>

namespace isotherm {

std::optional<uint64_t> parse_memory(std::string_view text) {
  static const std::map<std::string, uint64_t> units = {
      {"", 1},          {"b", 1},        {"k", 1000},          {"kb", 1 << 10},
      {"m", 1'000'000}, {"mb", 1 << 20}, {"g", 1'000'000'000}, {"gb", 1 << 30}};
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  std::string unit(end, text.data() + text.size());
  for (char& c : unit) c = static_cast<char>(c | 0x20);  // in lower case
  const auto found = units.find(unit);
  if (found == units.end()) return std::nullopt;
  if (number > std::numeric_limits<uint64_t>::max() / found->second) return std::nullopt;
  return number * found->second;
}

}  // namespace isotherm
