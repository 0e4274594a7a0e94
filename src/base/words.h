// words_of: the words of a text, such as the value of an option that has several parts. Views of
// it.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

namespace isotherm {

// What lies between any of the separators, of which there may be several in a row.
inline std::vector<std::string_view> words_of(std::string_view text,
                                              std::string_view separators = " ") {
  std::vector<std::string_view> words;
  while (true) {
    const size_t begin = text.find_first_not_of(separators);
    if (begin == std::string_view::npos) return words;
    const size_t end = std::min(text.find_first_of(separators, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
}

}  // namespace isotherm
