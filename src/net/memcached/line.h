// The command line of the memcached text protocol: its words and the numbers in them.
//
// A line ends at "\n"; one "\r" before it belongs to the end. Words are separated by spaces only,
// so a tab or a control character is part of a word (and of a key). A NUL ends the line early: what
// follows it up to the "\n" is ignored.
//
// Numbers are read as C's strtol family reads them: white space and a sign may lead, and white
// space (not a space, which would end the word) may follow with anything behind it. A negative
// number is accepted where an unsigned one is asked for if it wraps into the lower half of the
// range, e.g. "-0".
//
// Threads. Pure functions.
// Limits. A line is split into at most `Words::capacity` words; more are only noticed as "at least
// that many", because no command with a fixed form has as many.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace isotherm::net {

// The words of a line, borrowed from it.
struct Words {
  static constexpr size_t capacity = 8;

  std::array<std::string_view, capacity> word;
  size_t count = 0;  // `capacity`: that many or more

  std::string_view operator[](size_t i) const { return word[i]; }
  std::string_view last() const { return word[count - 1]; }
  bool end_in_noreply() const { return last() == "noreply"; }
  // The line from a word on, as far as words are held; empty where there is none.
  std::string_view from(size_t i) const {
    if (i >= count) return {};
    const char* end = last().data() + last().size();
    return {word[i].data(), static_cast<size_t>(end - word[i].data())};
  }
};

// Takes the next word from the front of `text`; empty when there is none.
std::string_view take_word(std::string_view& text);

Words split_words(std::string_view text);

bool parse_unsigned(std::string_view word, uint64_t& value);
bool parse_signed(std::string_view word, int64_t& value);
// Client flags: 32 bits; the bits above them are cut off.
bool parse_flags(std::string_view word, uint32_t& value);

// memcached's expiry time as an absolute time in milliseconds: 0 never expires, a negative time has
// expired already, as an unsigned number of 32 bits, too; up to 30 days is counted in seconds from
// now, and more is Unix time in seconds.
bool parse_expiry(std::string_view word, int64_t now_ms, int64_t& expiry_ms);

}  // namespace isotherm::net
