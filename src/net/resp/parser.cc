#include "net/resp/parser.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

#include "net/resp/inline.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

constexpr size_t kept_inline = 16;
constexpr size_t most_quick_arguments = 4096;

constexpr uint32_t line_of(char a, char b, char c, char d) {
  return std::bit_cast<uint32_t>(std::array<char, 4>{a, b, c, d});
}

// Reads "<type><digits>\r\n" at `at`, one to nine digits without a leading zero ("0" itself is
// taken), and moves `at` behind it. False: something else, or not all there.
inline bool read_plain_length(const char*& at, const char* end, char type, size_t* length) {
  if (end - at < 5) return false;
  // Most have one digit or two, so these are told from the first four bytes, taken together.
  uint32_t line = 0;
  std::memcpy(&line, at, sizeof line);
  const uint32_t one = line - line_of(type, '0', '\r', '\n');
  if ((one & 0xFFFF'00FF) == 0 && one >> 8 <= 9) {
    *length = one >> 8;
    at += 4;
    return true;
  }
  const uint32_t two = line - line_of(type, '0', '0', '\r');
  const uint32_t tens = two >> 8 & 0xFF;
  if ((two & 0xFF00'00FF) == 0 && tens - 1 < 9 && two >> 16 <= 9) {
    *length = tens * 10 + (two >> 16);
    at += 5;
    return true;
  }
  if (at[0] != type) return false;
  const auto digit = [](char c) { return static_cast<uint8_t>(c - '0'); };  // above 9: it is none
  size_t value = digit(at[1]);
  if (value > 9) return false;
  const char* p = at + 2;
  const char* const last = std::min(end - 2, at + 10);  // where the line ends at the latest
  for (; *p != '\r'; ++p) {
    if (digit(*p) > 9 || value == 0 || p == last) return false;
    value = value * 10 + digit(*p);
  }
  *length = value;
  at = p + 2;
  return true;
}

}  // namespace

RespParser::Outcome RespParser::parse_carefully(std::string_view input) {
  head_.bytes = 0;
  repeats_ = false;
  if (bulks_left_ < 0) {
    if (position_ == 0 && input[0] != '*') return parse_inline(input);
    const Outcome outcome = parse_count(input);
    if (outcome != Outcome::request) return outcome;
  }
  return parse_bulks(input);
}

// Reads count and first word, which differ from those before; false: not plain, or not all there.
bool RespParser::read_head(const char*& at, const char* end) {
  const char* const begin = at;
  head_.bytes = 0;
  size_t words = 0;
  size_t bytes = 0;
  if (!read_plain_length(at, end, '*', &words) ||
      words > (before_password_ ? most_words_before : most_quick_arguments)) {
    return false;
  }
  arguments_.resize(words);
  if (words == 0) return true;
  if (!read_plain_length(at, end, '$', &bytes) || !takes_bulk(bytes) ||
      static_cast<size_t>(end - at) < bytes + 2) {
    return false;
  }
  arguments_[0] = {at, bytes};
  at += bytes + 2;
  const auto size = static_cast<size_t>(at - begin);
  if (size > Head::longest || size < sizeof(uint64_t)) return true;
  std::memcpy(head_.text.data(), begin, size);
  head_.words = words;
  head_.first_word = bytes;
  head_.bytes = size;
  return true;
}

// Reads a word whose length differs from that before; false as above.
bool RespParser::read_word(const char*& at, const char* end, Length& length,
                           std::string_view& word) const {
  const char* const begin = at;
  size_t bytes = 0;
  length = {};
  if (!read_plain_length(at, end, '$', &bytes) || !takes_bulk(bytes) ||
      static_cast<size_t>(end - at) < bytes + 2) {
    return false;
  }
  word = {at, bytes};
  const auto line_bytes = static_cast<size_t>(at - begin);
  at += bytes + 2;
  const auto all = static_cast<size_t>(at - begin);
  if (line_bytes >= sizeof length.line || all < sizeof length.line) return true;
  length.mask = (uint64_t{1} << 8 * line_bytes) - 1;
  std::memcpy(&length.line, begin, sizeof length.line);
  length.line &= length.mask;
  length.line_bytes = line_bytes;
  length.bytes = bytes;
  length.all = all;
  return true;
}

// A request that begins otherwise than the one before.
bool RespParser::parse_anew(std::string_view input) {
  repeats_ = false;
  const char* at = input.data();
  return read_head(at, at + input.size()) && parse_words(input, at, 1);
}

// The words from `first` on, which begin at `at`.
bool RespParser::parse_words(std::string_view input, const char* at, size_t first) {
  const char* const end = input.data() + input.size();
  for (size_t i = first; i < arguments_.size(); ++i) {
    Length& length = lengths_[i % 2];
    if (length.repeats_at(at, end)) {
      arguments_[i] = length.take(at);
    } else if (!read_word(at, end, length, arguments_[i])) {
      return false;
    }
  }
  consumed_ = static_cast<size_t>(at - input.data());
  return true;
}

// What repeats is read here, without a call; the rest is left to those above.
bool RespParser::parse_quickly(std::string_view input) {
  const char* at = input.data();
  const char* const end = at + input.size();
  const size_t head = std::min(head_.bytes, Head::longest);  // as it is
  const bool same = head != 0 && input.size() >= head && equal_bytes(at, head_.text.data(), head);
  std::string_view* const words = arguments_.data();
  const size_t count = arguments_.size();
  if (!same || count != head_.words) [[unlikely]]
    return parse_anew(input);
  repeats_ = true;
  at += head;
  words[0] = {at - 2 - head_.first_word, head_.first_word};
  const Length& odd = lengths_[1];
  const Length& even = lengths_[0];
  for (size_t i = 1; i < count; ++i) {
    if (!odd.repeats_at(at, end)) [[unlikely]]
      return parse_words(input, at, i);
    words[i] = odd.take(at);
    if (++i == count) break;
    if (!even.repeats_at(at, end)) [[unlikely]]
      return parse_words(input, at, i);
    words[i] = even.take(at);
  }
  consumed_ = static_cast<size_t>(at - input.data());
  return true;
}

RespParser::Line RespParser::find_line(std::string_view input, char terminator, size_t* end) {
  size_t at = std::max(scanned_, position_);
  while (at < input.size() && input[at] != terminator && input[at] != '\0') ++at;
  scanned_ = at;
  if (at == input.size() || input[at] == '\0') {
    return input.size() - position_ > max_line_bytes ? Line::too_long : Line::incomplete;
  }
  *end = at;
  return Line::complete;
}

RespParser::Outcome RespParser::parse_inline(std::string_view input) {
  size_t end = 0;
  switch (find_line(input, '\n', &end)) {
    case Line::incomplete:
      return Outcome::incomplete;
    case Line::too_long:
      return fail("Protocol error: too big inline request");
    case Line::complete:
      break;
  }
  const size_t behind = end + 1;
  if (end > 0 && input[end - 1] == '\r') --end;
  std::vector<std::string>& words = inline_words_.emplace_back();
  if (!split_inline(input.substr(0, end), words)) {
    return fail("Protocol error: unbalanced quotes in request");
  }
  position_ = behind;
  words_ = 0;
  finish(input);
  arguments_.assign(words.begin(), words.end());
  return Outcome::request;
}

// Reads "*<count>\r\n"; `request` means that the bulks follow (maybe none).
RespParser::Outcome RespParser::parse_count(std::string_view input) {
  size_t end = 0;
  switch (find_line(input, '\r', &end)) {
    case Line::incomplete:
      return Outcome::incomplete;
    case Line::too_long:
      return fail("Protocol error: too big mbulk count string");
    case Line::complete:
      break;
  }
  if (end + 2 > input.size()) return Outcome::incomplete;
  const std::optional<int64_t> count = parse_integer(input.substr(1, end - 1));
  if (!count || *count > std::numeric_limits<int32_t>::max()) {
    return fail("Protocol error: invalid multibulk length");
  }
  if (before_password_ && *count > static_cast<int64_t>(most_words_before)) {
    return fail("Protocol error: unauthenticated multibulk length");
  }
  position_ = scanned_ = first_word_ = end + 2;
  bulks_left_ = std::max<int64_t>(*count, 0);
  return Outcome::request;
}

RespParser::Outcome RespParser::parse_bulks(std::string_view input) {
  while (bulks_left_ > 0) {
    if (bulk_bytes_ < 0) {
      size_t end = 0;
      switch (find_line(input, '\r', &end)) {
        case Line::incomplete:
          return Outcome::incomplete;
        case Line::too_long:
          return fail("Protocol error: too big bulk count string");
        case Line::complete:
          break;
      }
      if (end + 2 > input.size()) return Outcome::incomplete;
      if (input[position_] != '$') {
        std::string error = "Protocol error: expected '$', got '";
        error.push_back(input[position_]);
        return fail(error + '\'');
      }
      const auto length = parse_integer(input.substr(position_ + 1, end - position_ - 1));
      if (!length || *length < 0 || static_cast<uint64_t>(*length) > max_bulk_bytes_) {
        return fail("Protocol error: invalid bulk length");
      }
      if (!takes_bulk(static_cast<uint64_t>(*length))) {
        return fail("Protocol error: unauthenticated bulk length");
      }
      position_ = end + 2;
      bulk_bytes_ = is_diverted(words_) ? 0 : *length;
    }
    const size_t bytes = static_cast<size_t>(bulk_bytes_);
    wanted_ = position_ + bytes + 2;
    if (input.size() < wanted_) return Outcome::incomplete;
    ++words_;
    position_ = scanned_ = wanted_;
    bulk_bytes_ = -1;
    wanted_ = 0;
    --bulks_left_;
  }
  return finish(input);
}

// Reads the word whose line, which was read before, begins at `at`, and moves that behind it.
std::string_view RespParser::take_word(std::string_view input, size_t i, size_t& at) const {
  const size_t end = input.find('\r', at);
  const size_t bytes =
      is_diverted(i) ? 0 : static_cast<size_t>(*parse_integer(input.substr(at + 1, end - at - 1)));
  const std::string_view word = input.substr(end + 2, bytes);
  at = end + 2 + bytes + 2;
  return word;
}

RespParser::Outcome RespParser::finish(std::string_view input) {
  clear_arguments();
  arguments_.resize(words_);
  size_t at = first_word_;
  for (size_t i = 0; i < words_; ++i) arguments_[i] = take_word(input, i, at);
  if (diverted_index_ != 0) arguments_[diverted_index_] = diverted_;
  words_ = 0;
  consumed_ = position_;
  position_ = scanned_ = 0;
  bulks_left_ = -1;
  return Outcome::request;
}

void RespParser::clear_arguments() {
  arguments_.clear();
  if (arguments_.capacity() > kept_arguments) std::vector<std::string_view>().swap(arguments_);
}

void RespParser::release_lists() {
  clear_arguments();
  inline_words_.clear();
  if (inline_words_.capacity() > kept_inline) inline_words_.shrink_to_fit();
}

void RespParser::restart() {
  position_ = scanned_ = wanted_ = words_ = 0;
  bulks_left_ = bulk_bytes_ = -1;
}

RespParser::Outcome RespParser::fail(std::string error) {
  arguments_.clear();
  error_ = std::move(error);
  return Outcome::error;
}

}  // namespace isotherm::net
