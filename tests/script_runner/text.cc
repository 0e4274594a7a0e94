#include "script_runner/text.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

namespace isotherm::scripts {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  throw ScriptError("bad hexadecimal digit in an escape");
}

// The byte of the escape whose backslash is at `at`; moves `at` to its last character.
char read_escape(std::string_view text, size_t& at) {
  if (++at >= text.size()) throw ScriptError("a backslash ends the line");
  switch (text[at]) {
    case 'r':
      return '\r';
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case '\\':
    case '"':
      return text[at];
    case 'x': {
      if (at + 2 >= text.size()) throw ScriptError("\\x wants two digits");
      const int value = hex_digit(text[at + 1]) * 16 + hex_digit(text[at + 2]);
      at += 2;
      return static_cast<char>(value);
    }
    default:
      throw ScriptError(std::string("unknown escape \\") + text[at]);
  }
}

// Appends what stands from `at` to the first `stop` that is not escaped, or to the end, and moves
// `at` there. Whole runs are copied at once: values are megabytes long.
void unescape_until(std::optional<char> stop, std::string_view text, size_t& at,
                    std::string& result) {
  const auto find_end = [&] {
    return stop ? std::min(text.find(*stop, at), text.size()) : text.size();
  };
  for (size_t end = find_end(); at < end;) {
    const size_t run = std::min(text.find('\\', at), end);
    result += text.substr(at, run - at);
    at = run;
    if (at == end) return;
    result += read_escape(text, at);
    if (++at > end) end = find_end();
  }
}

void expand_one(std::string_view body, const Variables& variables, std::string& result) {
  const size_t star = body.rfind('*');
  if (star == std::string_view::npos) {
    const auto found = variables.find(body);
    if (found == variables.end()) throw ScriptError("unknown variable " + std::string(body));
    result += found->second;
    return;
  }
  size_t count = 0;
  const auto digits = body.substr(star + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (error != std::errc{} || end != digits.data() + digits.size()) {
    throw ScriptError("bad count in ${" + std::string(body) + "}");
  }
  const std::string_view text = body.substr(0, star);
  if (text.size() == 1) {
    result.append(count, text.front());
    return;
  }
  result.reserve(result.size() + star * count);
  for (size_t i = 0; i < count; ++i) result += text;
}

void append_bulk(std::string_view bytes, std::string& result) {
  result += "$" + std::to_string(bytes.size()) + "\r\n";
  result += bytes;
  result += "\r\n";
}

}  // namespace

std::string expand(std::string_view text, const Variables& variables) {
  std::string result;
  size_t at = 0;
  while (true) {
    const size_t open = text.find("${", at);
    result += text.substr(at, open == std::string_view::npos ? open : open - at);
    if (open == std::string_view::npos) return result;
    const size_t close = text.find('}', open);
    if (close == std::string_view::npos) throw ScriptError("${ without }");
    expand_one(text.substr(open + 2, close - open - 2), variables, result);
    at = close + 1;
  }
}

std::string unescape(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  size_t at = 0;
  unescape_until({}, text, at, result);
  return result;
}

std::string printable(std::string_view bytes, size_t limit) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string result;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes.size() > limit && i == limit / 2) {
      i = bytes.size() - limit / 2;
      result += " … " + std::to_string(bytes.size() - limit) + " bytes … ";
    }
    const auto c = static_cast<unsigned char>(bytes[i]);
    if (c == '\r') {
      result += "\\r";
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\\') {
      result += "\\\\";
    } else if (c < 0x20 || c >= 0x7f) {
      result += {'\\', 'x', digits[c >> 4], digits[c & 15]};
    } else {
      result += static_cast<char>(c);
    }
  }
  return result;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  size_t i = 0;
  while (true) {
    while (i < text.size() && text[i] == ' ') ++i;
    if (i == text.size()) return words;
    std::string word;
    const bool quoted = text[i] == '"';
    if (quoted) ++i;
    unescape_until(quoted ? '"' : ' ', text, i, word);
    if (quoted) {
      if (i == text.size()) throw ScriptError("a quote is not closed");
      ++i;
    }
    words.push_back(std::move(word));
  }
}

std::string encode_command(const std::vector<std::string>& words) {
  std::string result = "*" + std::to_string(words.size()) + "\r\n";
  for (const auto& word : words) append_bulk(word, result);
  return result;
}

std::string encode_request(Dialect dialect, std::string_view text) {
  if (dialect == Dialect::memcached) return unescape(text) + "\r\n";
  return encode_command(split_words(text));
}

std::string encode_reply(Dialect dialect, std::string_view text) {
  if (dialect == Dialect::memcached) return unescape(text) + "\r\n";
  if (text == "(nil)") return "$-1\r\n";
  if (text == "(nil array)") return "*-1\r\n";
  if (!text.empty() && text.front() == '"') {
    const auto words = split_words(text);
    if (words.size() != 1) throw ScriptError("text behind a quoted reply");
    std::string result;
    append_bulk(words.front(), result);
    return result;
  }
  return unescape(text) + "\r\n";
}

}  // namespace isotherm::scripts
