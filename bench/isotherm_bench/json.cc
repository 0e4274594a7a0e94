#include "isotherm_bench/json.h"

#include <charconv>
#include <cmath>

namespace isotherm::bench {

void Json::quote(std::string_view text) {
  text_ += '"';
  for (char c : text) {
    if (c == '"' || c == '\\') {
      text_.append(1, '\\').append(1, c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr char digits[] = "0123456789abcdef";
      text_.append("\\u00").append(1, digits[(c >> 4) & 15]).append(1, digits[c & 15]);
    } else {
      text_ += c;
    }
  }
  text_ += '"';
}

void Json::start(std::string_view name) {
  if (!levels_.empty()) {
    if (!levels_.back().empty) text_ += ',';
    levels_.back().empty = false;
    text_.append("\n").append(2 * levels_.size(), ' ');
  }
  if (!name.empty()) {
    quote(name);
    text_ += ": ";
  }
}

Json& Json::begin_object(std::string_view name) {
  start(name);
  text_ += '{';
  levels_.push_back({'}', true});
  return *this;
}

Json& Json::begin_array(std::string_view name) {
  start(name);
  text_ += '[';
  levels_.push_back({']', true});
  return *this;
}

Json& Json::end() {
  const Level level = levels_.back();
  levels_.pop_back();
  if (!level.empty) text_.append("\n").append(2 * levels_.size(), ' ');
  text_ += level.close;
  if (levels_.empty()) text_ += '\n';
  return *this;
}

Json& Json::raw(std::string_view name, std::string_view value) {
  start(name);
  text_.append(value);
  return *this;
}

Json& Json::field(std::string_view name, std::string_view value) {
  start(name);
  quote(value);
  return *this;
}

Json& Json::field(std::string_view name, bool value) { return raw(name, value ? "true" : "false"); }

Json& Json::field(std::string_view name, double value) {
  if (!std::isfinite(value)) return raw(name, "null");
  char text[32];
  return raw(name, {text, std::to_chars(text, text + sizeof text, value).ptr});
}

}  // namespace isotherm::bench
