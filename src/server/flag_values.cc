#include "server/flag_values.h"

#include "net/memory_amount.h"

namespace isotherm {

void take_memory(const std::string& text, uint64_t least, uint64_t most, uint64_t& field) {
  const auto bytes = net::parse_memory(text);
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

void add_memory_option(CLI::App& app, const std::string& flag, const std::string& help,
                       uint64_t& field, uint64_t least, uint64_t most) {
  add_text_option(app, flag, help, [least, most, &field](const std::string& text) {
    take_memory(text, least, most, field);
  });
}

}  // namespace isotherm
