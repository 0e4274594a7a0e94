#include "net/memcached/line.h"

#include <cstdint>
#include <cstring>
#include <limits>

#include "isotherm/batch.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

constexpr int64_t relative_seconds_max = 60 * 60 * 24 * 30;
// libmemcached sends a negative time as an unsigned number of 32 bits. The last 30 days that these
// can tell are taken for such times.
constexpr int64_t most_of_32_bits = std::numeric_limits<uint32_t>::max();
constexpr int64_t first_negative = most_of_32_bits + 1 - relative_seconds_max;
// An expiry that every clock has passed; 0 would mean none.
constexpr int64_t long_ago_ms = 1;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Decimal {
  uint64_t magnitude = 0;
  bool negative = false;
};

// The sign and digits of a word; false when there are none, too many, or something behind them.
bool parse_decimal(std::string_view word, Decimal& decimal) {
  size_t i = 0;
  while (i < word.size() && is_space(word[i])) ++i;
  if (i < word.size() && (word[i] == '-' || word[i] == '+')) decimal.negative = word[i++] == '-';
  const size_t first_digit = i;
  for (; i < word.size() && is_digit(word[i]); ++i) {
    const auto digit = static_cast<uint64_t>(word[i] - '0');
    if (__builtin_mul_overflow(decimal.magnitude, uint64_t{10}, &decimal.magnitude) ||
        __builtin_add_overflow(decimal.magnitude, digit, &decimal.magnitude)) {
      return false;
    }
  }
  return i > first_digit && (i == word.size() || is_space(word[i]));
}

}  // namespace

std::string_view take_word(std::string_view& text) {
  size_t start = 0;
  while (start < text.size() && text[start] == ' ') ++start;
  text.remove_prefix(start);
  const void* space = text.empty() ? nullptr : std::memchr(text.data(), ' ', text.size());
  const size_t length = space != nullptr
                            ? static_cast<size_t>(static_cast<const char*>(space) - text.data())
                            : text.size();
  const std::string_view word = text.substr(0, length);
  text.remove_prefix(length);
  return word;
}

Words split_words(std::string_view text) {
  Words words;
  while (words.count < Words::capacity) {
    const std::string_view word = take_word(text);
    if (word.empty()) break;
    words.word[words.count++] = word;
  }
  return words;
}

bool parse_unsigned(std::string_view word, uint64_t& value) {
  Decimal decimal;
  if (!parse_decimal(word, decimal)) return false;
  value = decimal.negative ? -decimal.magnitude : decimal.magnitude;
  const bool upper_half = static_cast<int64_t>(value) < 0;
  return !(upper_half && word.find('-') != std::string_view::npos);
}

bool parse_signed(std::string_view word, int64_t& value) {
  Decimal decimal;
  if (!parse_decimal(word, decimal)) return false;
  constexpr auto largest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (decimal.magnitude > largest + (decimal.negative ? 1 : 0)) return false;
  value = static_cast<int64_t>(decimal.negative ? -decimal.magnitude : decimal.magnitude);
  return true;
}

bool parse_flags(std::string_view word, uint32_t& value) {
  uint64_t wide = 0;
  if (!parse_unsigned(word, wide)) return false;
  value = static_cast<uint32_t>(wide);
  return true;
}

bool parse_expiry(std::string_view word, int64_t now_ms, int64_t& expiry_ms) {
  int64_t seconds = 0;
  if (!parse_signed(word, seconds)) return false;
  constexpr int64_t largest_seconds = std::numeric_limits<int64_t>::max() / 1000;
  if (seconds == 0) {
    expiry_ms = no_expiry;
  } else if (seconds < 0 || (seconds >= first_negative && seconds <= most_of_32_bits)) {
    expiry_ms = long_ago_ms;
  } else if (seconds <= relative_seconds_max) {
    expiry_ms = now_ms + seconds * 1000;
  } else {
    expiry_ms = seconds < largest_seconds ? seconds * 1000 : largest_seconds * 1000;
  }
  return true;
}

}  // namespace isotherm::net
