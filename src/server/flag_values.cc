#include "server/flag_values.h"

#include <algorithm>
#include <string_view>

#include "base/memory_amount.h"

namespace isotherm {
namespace {

bool are_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char byte) { return byte >= '0' && byte <= '9'; });
}

bool is_decimal(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return are_digits(text) && (text == "0" || text.front() != '0');
}

// With a point or an exponent what is behind it does not matter here.
bool begins_as_decimal(std::string_view text) {
  const std::string_view before = text.substr(0, text.find_first_of(".eE"));
  return before.empty() ? text.starts_with('.') : is_decimal(before);
}

}  // namespace

void take_memory(const std::string& text, uint64_t least, uint64_t most, uint64_t& field) {
  const auto bytes = parse_memory(text);
  if (!bytes)
    throw CLI::ValidationError("'" + text +
                               "' is not an amount of memory; write bytes, or e.g. 100mb");
  if (*bytes < least || *bytes > most)
    throw CLI::ValidationError("'" + text + "' is out of range, from " + std::to_string(least) +
                               " to " + std::to_string(most) + " bytes");
  field = *bytes;
}

void add_text_option(CLI::App& app, const std::string& flag, const std::string& help,
                     const std::function<void(const std::string&)>& take) {
  app.add_option_function<std::string>(
      flag,
      [flag, take](const std::string& text) {
        try {
          take(text);
        } catch (const CLI::ValidationError& error) {
          throw CLI::ValidationError(flag, error.what());
        }
      },
      help);
}

void take_only_decimal(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    const bool fractions = type.starts_with("FLOAT");
    if (!fractions && !type.starts_with("UINT") && !type.starts_with("INT")) continue;
    // A transformation, since these come before the checks of ranges.
    option->transform(CLI::Validator(
        [fractions](const std::string& text) -> std::string {
          if (fractions ? begins_as_decimal(text) : is_decimal(text)) return {};
          return "'" + text + "' is not a number in decimal; write e.g. " +
                 (fractions ? "0.01" : "16") + ", without spaces";
        },
        ""));
  }
}

void add_memory_option(CLI::App& app, const std::string& flag, const std::string& help,
                       uint64_t& field, uint64_t least, uint64_t most) {
  add_text_option(app, flag, help, [least, most, &field](const std::string& text) {
    take_memory(text, least, most, field);
  });
}

}  // namespace isotherm
