#include "script_runner/script.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

namespace isotherm::scripts {
namespace {

struct Line {
  std::string text;
  int number;
};

std::vector<Line> split_lines(std::string_view text) {
  std::vector<Line> lines;
  std::istringstream stream{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    const bool blank = line.find_first_not_of(' ') == std::string::npos;
    const size_t start = blank ? 0 : line.find_first_not_of(' ');
    if (!blank && line[start] != '#') lines.push_back({line.substr(start), number});
  }
  return lines;
}

void replace_index(std::string& text, int index) {
  for (size_t at = text.find("${i}"); at != std::string::npos; at = text.find("${i}", at)) {
    text.replace(at, 4, std::to_string(index));
  }
}

// Blocks `repeat N {` … `}` written out, ${i} being 0 to N - 1.
std::vector<Line> unroll(const std::vector<Line>& lines) {
  std::vector<Line> result;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].text.starts_with("repeat ")) {
      result.push_back(lines[i]);
      continue;
    }
    const auto words = split_words(lines[i].text);
    if (words.size() != 3 || words[2] != "{") throw ScriptError("repeat wants: repeat 10 {");
    const auto end = std::find_if(lines.begin() + static_cast<ptrdiff_t>(i), lines.end(),
                                  [](const Line& line) { return line.text == "}"; });
    if (end == lines.end()) throw ScriptError("repeat without }");
    for (int index = 0; index < std::stoi(words[1]); ++index) {
      for (size_t j = i + 1; lines.begin() + static_cast<ptrdiff_t>(j) != end; ++j) {
        result.push_back(lines[j]);
        replace_index(result.back().text, index);
      }
    }
    i = static_cast<size_t>(end - lines.begin());
  }
  return result;
}

struct Word {
  std::string_view word;
  Action action;
};

// Longer words first where one is the beginning of another.
constexpr std::array<Word, 14> line_words{{
    {"pipeline {", Action::pipeline_begin},
    {"}", Action::pipeline_end},
    {"clock", Action::clock},
    {"let", Action::let},
    {"iterate", Action::iterate},
    {"close", Action::disconnect},
    {"< (closed)", Action::expect_closed},
    {">>", Action::send_raw},
    {">", Action::send},
    {"<<", Action::expect_raw},
    {"<*", Action::expect_any},
    {"<~", Action::expect_pattern},
    {"<$", Action::expect_bulk},
    {"<", Action::expect},
}};

// `text` less a leading `word`, which must end the text or stand before a blank.
std::optional<std::string_view> behind(std::string_view text, std::string_view word) {
  if (!text.starts_with(word)) return std::nullopt;
  text.remove_prefix(word.size());
  if (text.empty()) return text;
  if (text.front() != ' ') return std::nullopt;
  return text.substr(1);
}

class Parser {
 public:
  explicit Parser(Script& script) : script_(script) {}

  void parse(const Line& line) {
    std::string_view text = line.text;
    if (text.front() == '@') {
      const size_t blank = text.find(' ');
      const std::string name(text.substr(1, blank == text.npos ? blank : blank - 1));
      if (blank == text.npos) {
        connection_ = name;
      } else {
        parse_step(text.substr(blank + 1), name, line.number);
      }
      return;
    }
    if (parse_setting(text)) return;
    parse_step(text, connection_, line.number);
  }

 private:
  bool parse_setting(std::string_view text) {
    if (text == "peer no") {
      script_.peer = false;
      return true;
    }
    const auto flags = behind(text, "server");
    if (!flags) return false;
    for (auto& flag : split_words(*flags)) script_.server_flags.push_back(std::move(flag));
    return true;
  }

  void parse_step(std::string_view text, const std::string& connection, int number) {
    for (const auto& [word, action] : line_words) {
      if (const auto rest = behind(text, word)) {
        script_.steps.push_back({action, connection, std::string(*rest), number});
        return;
      }
    }
    throw ScriptError("line " + std::to_string(number) + ": unknown: " + std::string(text));
  }

  Script& script_;
  std::string connection_ = "1";
};

}  // namespace

Dialect Script::dialect_of(std::string_view connection) const {
  if (connection.starts_with("resp")) return Dialect::resp;
  if (connection.starts_with("memcached") || connection.starts_with("udp")) {
    return Dialect::memcached;
  }
  return dialect;
}

Script parse_script(std::string name, std::string_view text) {
  Script script;
  script.dialect = name.starts_with("memcached") ? Dialect::memcached : Dialect::resp;
  script.name = std::move(name);
  Parser parser(script);
  for (const auto& line : unroll(split_lines(text))) parser.parse(line);
  return script;
}

Script load_script(const std::filesystem::path& root, const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) throw ScriptError("cannot read " + file.string());
  return parse_script(file.lexically_relative(root).replace_extension().string(), text.str());
}

std::vector<std::filesystem::path> find_scripts(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace isotherm::scripts
