// InfoLines: the text of INFO as it is written: "# Section" and "name:value" lines.
//
// Threads. Belongs to whoever writes the text.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace isotherm::net {

class InfoLines {
 public:
  explicit InfoLines(std::string& text) : text_(text) {}

  void section(std::string_view name) {
    if (!text_.empty()) text_ += "\r\n";
    text_.append("# ").append(name).append("\r\n");
  }
  void line(std::string_view name, std::string_view value) {
    text_.append(name).append(":").append(value).append("\r\n");
  }
  void line(std::string_view name, uint64_t value) { line(name, std::to_string(value)); }
  void line(std::string_view name, double value) { line(name, two_digits(value)); }
  // A count of something that does not exist here.
  void zero(std::string_view name) { line(name, "0"); }
  void percent(std::string_view name, uint64_t part, uint64_t whole) {
    line(name, two_digits(100 * ratio(part, whole)) + "%");
  }
  // The bytes, and once more as "name_human" for people.
  void bytes(std::string_view name, uint64_t value) {
    line(name, value);
    line(std::string(name) + "_human", human(value));
  }

  static double ratio(uint64_t part, uint64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  }

 private:
  static std::string two_digits(double value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.2f", value);
    return digits;
  }

  static std::string human(uint64_t bytes) {
    constexpr std::array<char, 5> units = {'B', 'K', 'M', 'G', 'T'};
    double value = static_cast<double>(bytes);
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < units.size()) {
      value /= 1024;
      ++unit;
    }
    char text[32];
    std::snprintf(text, sizeof text, unit == 0 ? "%.0f%c" : "%.2f%c", value, units[unit]);
    return text;
  }

  std::string& text_;
};

}  // namespace isotherm::net
