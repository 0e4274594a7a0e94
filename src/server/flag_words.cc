#include "server/flag_words.h"

#include <filesystem>
#include <system_error>

#include "base/flag_words.h"

namespace isotherm {

using Words = std::vector<std::string>;

Words flag_words(int argc, const char* const* argv, const CLI::App& app, const CheckFlag& check,
                 net::ServerOptions& options) {
  const Words words(argv + 1, argv + argc);
  if (words.empty() || words.front().starts_with('-')) return flag_words(words, app);
  Words all = flags_of_file(words.front(), app, check);
  std::error_code error;  // of a working folder that is gone by now
  options.config_file = std::filesystem::absolute(words.front(), error).string();
  all.insert(all.end(), words.begin() + 1, words.end());
  return flag_words(all, app);
}

Words flag_words(const Words& words, const CLI::App& app) {
  Words kept, saves;
  const auto take_flag = [&](const std::string& flag, const std::string& value) {
    // As in Redis, an empty list of save points takes back those before it.
    if (flag == "--save" && value.empty()) saves.clear();
    Words& place = flag == "--save" ? saves : kept;
    place.insert(place.end(), {flag, value});
  };
  each_flag(words, app, take_flag, [&](const std::string& word) { kept.push_back(word); });
  kept.insert(kept.end(), saves.begin(), saves.end());
  return kept;
}

}  // namespace isotherm
