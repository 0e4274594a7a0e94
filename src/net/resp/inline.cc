#include "net/resp/inline.h"

#include <cstddef>

#include "net/text.h"

namespace isotherm::net {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char unescape(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'b':
      return '\b';
    case 'a':
      return '\a';
    default:
      return c;
  }
}

// Reads one line from left to right; past the end it sees NUL.
class Splitter {
 public:
  explicit Splitter(std::string_view line) : line_(line.substr(0, line.find('\0'))) {}

  bool split(std::vector<std::string>& words) {
    while (true) {
      while (is_space(peek())) ++at_;
      if (peek() == '\0') return true;
      if (!read_word(words.emplace_back())) return false;
    }
  }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < line_.size() ? line_[at_ + ahead] : '\0';
  }

  // Fewer than what may stand between words, as in Redis.
  static bool ends_word(char c) {
    return c == '\0' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
  }
  // Plain text and quoted parts up to white space.
  bool read_word(std::string& word) {
    while (!ends_word(peek())) {
      const char c = peek();
      ++at_;
      if (c == '"' || c == '\'') {
        if (!(c == '"' ? read_double_quoted(word) : read_single_quoted(word))) return false;
        return peek() == '\0' || is_space(peek());
      }
      word.push_back(c);
    }
    return true;
  }

  bool read_double_quoted(std::string& word) {
    while (peek() != '\0') {
      if (peek() == '\\' && peek(1) == 'x' && hex_value(peek(2)) >= 0 && hex_value(peek(3)) >= 0) {
        word.push_back(static_cast<char>(hex_value(peek(2)) * 16 + hex_value(peek(3))));
        at_ += 4;
      } else if (peek() == '\\' && peek(1) != '\0') {
        word.push_back(unescape(peek(1)));
        at_ += 2;
      } else if (peek() == '"') {
        ++at_;
        return true;
      } else {
        word.push_back(peek());
        ++at_;
      }
    }
    return false;
  }

  bool read_single_quoted(std::string& word) {
    while (peek() != '\0') {
      if (peek() == '\\' && peek(1) == '\'') {
        word.push_back('\'');
        at_ += 2;
      } else if (peek() == '\'') {
        ++at_;
        return true;
      } else {
        word.push_back(peek());
        ++at_;
      }
    }
    return false;
  }

  std::string_view line_;
  size_t at_ = 0;
};

}  // namespace

bool split_inline(std::string_view line, std::vector<std::string>& words) {
  return Splitter(line).split(words);
}

}  // namespace isotherm::net
