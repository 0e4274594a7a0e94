// How the values of counters are read, as items/change.h says.
#include <charconv>
#include <limits>
#include <system_error>

#include "items/change.h"

namespace isotherm {
namespace {

// As C's isspace, which memcached's parsing of numbers follows.
bool is_space(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

}  // namespace

bool parse_integer(std::string_view text, int64_t& value) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || (digits[0] == '0' && text.size() > 1)) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_counter(std::string_view text, uint64_t& value) {
  text = text.substr(0, text.find('\0'));
  const std::string_view whole = text;
  while (!text.empty() && is_space(text[0])) text.remove_prefix(1);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const char* stop = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), stop, value);
  if (error != std::errc{} || (end != stop && !is_space(*end))) return false;
  if (negative) value = -value;
  // memcached takes a minus anywhere for the sign of a number in the upper half.
  return static_cast<int64_t>(value) >= 0 || whole.find('-') == std::string_view::npos;
}

}  // namespace isotherm
