// Flag words: which words of a command line are flags, and which are their values.
//
// CLI11 takes whatever word stands behind a flag for its value, another flag too, and so it does
// behind `--flag=`. Here a value is a word of its own, which may be empty. Behind a flag without
// `=` it is never a flag of the same program: what lacks one is refused, before a later option is
// lost.
//
// Of programs alone: the library does without CLI11.
// Threads. One. Errors. CLI::ParseError.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace isotherm {

inline bool takes_value(const CLI::Option& option) { return option.get_items_expected_min() > 0; }

// The option that `word` names, as --name or --name=value; nullptr: none. A name without a dash is
// that of an argument, which is no word.
inline const CLI::Option* option_of(const std::string& word, const CLI::App& app) {
  return word.starts_with('-') ? app.get_option_no_throw(word.substr(0, word.find('='))) : nullptr;
}

// Calls take_flag(name, value) for the flags that take a value, and take_word(word) for all else.
template <class TakeFlag, class TakeWord>
void each_flag(const std::vector<std::string>& words, const CLI::App& app, TakeFlag&& take_flag,
               TakeWord&& take_word) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const CLI::Option* const option = option_of(word, app);
    const size_t equals = word.find('=');
    if (option == nullptr || !takes_value(*option)) {
      take_word(word);
    } else if (equals != std::string::npos) {
      take_flag(option->get_name(), word.substr(equals + 1));
    } else if (++i == words.size() || option_of(words[i], app) != nullptr) {
      throw CLI::ValidationError(word, "a value is missing");
    } else {
      take_flag(option->get_name(), words[i]);
    }
  }
}

// Has `app` read the words that stand behind a program's name, which each_flag has shown.
inline void parse_words(CLI::App& app, std::vector<std::string> words) {
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  app.parse(std::move(words));
}

inline void parse_command_line(CLI::App& app, int argc, const char* const* argv) {
  std::vector<std::string> words;
  each_flag(
      {argv + 1, argv + argc}, app,
      [&](const std::string& flag, const std::string& value) {
        words.insert(words.end(), {flag, value});
      },
      [&](const std::string& word) { words.push_back(word); });
  if (app.get_name().empty()) app.name(argv[0]);
  parse_words(app, std::move(words));
}

}  // namespace isotherm
