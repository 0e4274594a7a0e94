// How answers to memcached commands are put together, in room that is large enough.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace isotherm::net {

inline char* put_text(char* to, std::string_view text) {
  if (!text.empty()) std::memcpy(to, text.data(), text.size());
  return to + text.size();
}

// Puts a number behind a space.
inline char* put_number(char* to, uint64_t value) {
  *to++ = ' ';
  return std::to_chars(to, to + 20, value).ptr;
}

}  // namespace isotherm::net
