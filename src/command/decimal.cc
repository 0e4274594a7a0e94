#include "command/decimal.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace isotherm {

bool parse_decimal(std::string_view text, long double& value) {
  char terminated[longest_decimal];
  if (text.empty() || text.size() >= sizeof terminated) return false;
  // strtold would skip it.
  if (text[0] == ' ' || (text[0] >= '\t' && text[0] <= '\r')) return false;
  std::memcpy(terminated, text.data(), text.size());
  terminated[text.size()] = '\0';
  char* end = nullptr;
  errno = 0;
  value = std::strtold(terminated, &end);
  if (end != terminated + text.size() || std::isnan(value)) return false;
  return errno != ERANGE || (std::isfinite(value) && value != 0);
}

size_t format_decimal(long double value, char (&text)[longest_decimal]) {
  auto size = static_cast<size_t>(std::snprintf(text, sizeof text, "%.17Lf", value));
  while (text[size - 1] == '0') --size;
  if (text[size - 1] == '.') --size;
  if (std::string_view(text, size) != "-0") return size;
  text[0] = '0';
  return 1;
}

}  // namespace isotherm
