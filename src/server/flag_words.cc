#include "server/flag_words.h"

#include <filesystem>
#include <system_error>

#include "server/config_file.h"
#include "server/flag_values.h"

namespace isotherm {
namespace {

using Words = std::vector<std::string>;

// The words of the command line, behind those of the configuration file that it may begin with.
Words all_words(int argc, const char* const* argv, const CLI::App& app,
                net::ServerOptions& options) {
  Words words(argv + 1, argv + argc);
  if (words.empty() || words.front().starts_with('-')) return words;
  Words all = flags_of_file(words.front(), app);
  std::error_code error;  // of a working folder that is gone by now
  options.config_file = std::filesystem::absolute(words.front(), error).string();
  all.insert(all.end(), words.begin() + 1, words.end());
  return all;
}

// The option that `word` names, as --name or --name=value; nullptr: none.
const CLI::Option* option_of(const std::string& word, const CLI::App& app) {
  return app.get_option_no_throw(word.substr(0, word.find('=')));
}

// What the flag at `words[at]` is told, by the same word or the next one, on which `at` is then.
std::string take_value(const Words& words, size_t& at, const CLI::App& app) {
  const std::string& flag = words[at];
  const size_t equals = flag.find('=');
  if (equals != std::string::npos) return flag.substr(equals + 1);
  if (++at == words.size() || option_of(words[at], app) != nullptr) {
    throw CLI::ValidationError(flag, "a value is missing");
  }
  return words[at];
}

}  // namespace

Words flag_words(int argc, const char* const* argv, const CLI::App& app,
                 net::ServerOptions& options) {
  const Words words = all_words(argc, argv, app, options);
  Words kept, saves;
  for (size_t i = 0; i < words.size(); ++i) {
    const CLI::Option* const option = option_of(words[i], app);
    if (option == nullptr || !takes_value(*option)) {
      kept.push_back(words[i]);
      continue;
    }
    const std::string flag = option->get_name();
    const std::string value = take_value(words, i, app);
    // As in Redis, an empty list of save points takes back those before it.
    if (flag == "--save" && value.empty()) saves.clear();
    Words& place = flag == "--save" ? saves : kept;
    place.insert(place.end(), {flag, value});
  }
  kept.insert(kept.end(), saves.begin(), saves.end());
  return kept;
}

}  // namespace isotherm
