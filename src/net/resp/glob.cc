#include "net/resp/glob.h"

#include <cstddef>
#include <utility>

#include "net/text.h"

namespace isotherm::net {
namespace {

// Matches one pattern element (not a star) at `at` against one byte; `at` moves behind the element.
class Element {
 public:
  Element(std::string_view pattern, size_t& at, bool ignore_case)
      : pattern_(pattern), at_(at), ignore_case_(ignore_case) {}

  bool matches(char c) {
    switch (pattern_[at_]) {
      case '?':
        ++at_;
        return true;
      case '[':
        ++at_;
        return matches_set(c);
      case '\\':
        if (at_ + 1 < pattern_.size()) ++at_;
        break;
      default:
        break;
    }
    return same(pattern_[at_++], c);
  }

 private:
  char fold(char c) const { return ignore_case_ ? to_lower(c) : c; }
  bool same(char a, char b) const { return fold(a) == fold(b); }
  bool in_range(char low, char high, char c) const {
    auto a = static_cast<signed char>(fold(low));
    auto b = static_cast<signed char>(fold(high));
    if (a > b) std::swap(a, b);
    const auto x = static_cast<signed char>(fold(c));
    return a <= x && x <= b;
  }

  bool matches_set(char c) {
    const size_t size = pattern_.size();
    const bool negated = at_ < size && pattern_[at_] == '^';
    if (negated) ++at_;
    bool found = false;
    while (at_ < size && pattern_[at_] != ']') {
      if (pattern_[at_] == '\\' && at_ + 1 < size) {
        found |= same(pattern_[at_ + 1], c);
        at_ += 2;
      } else if (at_ + 2 < size && pattern_[at_ + 1] == '-') {
        found |= in_range(pattern_[at_], pattern_[at_ + 2], c);
        at_ += 3;
      } else {
        found |= same(pattern_[at_], c);
        ++at_;
      }
    }
    if (at_ < size) ++at_;  // the closing bracket
    return found != negated;
  }

  std::string_view pattern_;
  size_t& at_;
  const bool ignore_case_;
};

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view text, bool ignore_case) {
  if (text.empty()) return pattern.empty() || pattern == "*";  // not "**", as Redis has it
  size_t p = 0;
  size_t t = 0;
  size_t star_p = std::string_view::npos;  // behind the last star
  size_t star_t = 0;                       // where what it stands for ends
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star_p = ++p;
      star_t = t;
    } else if (p < pattern.size() && Element(pattern, p, ignore_case).matches(text[t])) {
      ++t;
    } else if (star_p != std::string_view::npos) {
      p = star_p;
      t = ++star_t;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace isotherm::net
