// Json: writes a JSON document piece by piece.
//
// Calls mirror the document: `begin_object`, `field`, `end`. Commas, nesting and escapes are taken
// care of; numbers that JSON cannot hold (infinite, not a number) become null.
//
// Threads. One owner.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace isotherm::bench {

class Json {
 public:
  Json& begin_object(std::string_view name = {});
  Json& begin_array(std::string_view name = {});
  Json& end();

  Json& field(std::string_view name, std::string_view value);
  Json& field(std::string_view name, const char* value) {
    return field(name, std::string_view(value));
  }
  Json& field(std::string_view name, bool value);
  Json& field(std::string_view name, double value);
  template <std::integral T>
  Json& field(std::string_view name, T value) {
    return raw(name, std::to_string(value));
  }
  template <typename T>
  Json& field(std::string_view name, const std::optional<T>& value) {
    return value ? field(name, *value) : raw(name, "null");
  }

  // The document, once every begin has its end.
  const std::string& text() const { return text_; }

 private:
  Json& raw(std::string_view name, std::string_view value);
  void start(std::string_view name);
  void quote(std::string_view text);

  struct Level {
    char close;
    bool empty;
  };
  std::string text_;
  std::vector<Level> levels_;
};

}  // namespace isotherm::bench
