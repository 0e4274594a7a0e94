#include "server/config_file.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "base/flag_words.h"
#include "net/resp/inline.h"
#include "net/text.h"

namespace isotherm {
namespace {

constexpr size_t most_nested = 16;  // files that include each other
constexpr size_t longest_line = 1 << 20;

[[noreturn]] void cannot_read(const std::string& path, int reason) {
  throw CLI::ValidationError(
      path.empty() ? "''" : path,
      "cannot be read as a configuration file: " + std::system_category().message(reason));
}

class Reader {
 public:
  Reader(const CLI::App& app, const CheckFlag& check) : app_(app), check_(check) {}

  void read(const std::string& path, size_t depth) {
    errno = 0;
    std::ifstream file(path);
    if (!file) cannot_read(path, errno);
    const auto place_of = [&](size_t number) { return path + ":" + std::to_string(number); };
    std::string line(longest_line + 1, '\0');
    size_t number = 1;
    for (; file.getline(line.data(), std::ssize(line)); ++number) {
      const auto size = static_cast<size_t>(file.gcount()) - (file.eof() ? 0 : 1);
      take(std::string_view(line).substr(0, size), path, place_of(number), depth);
    }
    if (file.bad()) cannot_read(path, errno);
    if (!file.eof()) {
      throw CLI::ValidationError(place_of(number), "the line is longer than 1mb; shorten it");
    }
  }

  std::vector<std::string> take_flags() {
    if (!unknown_.empty()) {
      throw CLI::ValidationError(unknown_,
                                 "no such option; take it out (--help lists those that "
                                 "there are)");
    }
    return std::move(flags_);
  }

 private:
  void take(std::string_view line, const std::string& path, const std::string& place,
            size_t depth) {
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos || line[first] == '#') return;
    check_for_nul(line, place);
    std::vector<std::string> words;
    if (!net::split_inline(line, words)) {
      throw CLI::ValidationError(place, "unbalanced quotes; close them, and let a blank follow");
    }
    if (words.empty()) return;
    for (const std::string& word : words) check_for_nul(word, place);
    std::string& name = words.front();
    std::transform(name.begin(), name.end(), name.begin(), net::to_lower);
    if (name == "include") return include(words, path, place, depth);
    const CLI::Option* const option = find("--" + name);
    if (option == nullptr) {
      unknown_ += (unknown_.empty() ? "" : ", ") + place + " '" + name + "'";
      return;
    }
    check_words(words, *option, place);
    std::string& flag = flags_.emplace_back("--" + name);
    for (size_t i = 1; i < words.size(); ++i) flag += (i == 1 ? "=" : " ") + words[i];
    try {
      check_(flag);
    } catch (const CLI::ParseError& error) {
      throw CLI::ValidationError(place, error.what());
    }
  }

  // Else a line would end at it, and calls of the system would cut a path there.
  static void check_for_nul(std::string_view text, const std::string& place) {
    if (text.find('\0') == std::string_view::npos) return;
    throw CLI::ValidationError(place, "there is a NUL byte, which no option has; take it out");
  }

  const CLI::Option* find(const std::string& flag) const {
    return flag == "--help" || flag == "--version" ? nullptr : app_.get_option_no_throw(flag);
  }

  static void check_words(const std::vector<std::string>& words, const CLI::Option& option,
                          const std::string& place) {
    const bool has_value = words.size() > 1;
    if (has_value == takes_value(option)) return;
    throw CLI::ValidationError(
        place + " '" + words.front() + "'",
        has_value ? "takes no value; take '" + words[1] + "' out" : "a value is missing");
  }

  void include(const std::vector<std::string>& words, const std::string& path,
               const std::string& place, size_t depth) {
    if (words.size() != 2) throw CLI::ValidationError(place, "give one file to include");
    if (depth == most_nested) {
      throw CLI::ValidationError(place, path + " is included by " + std::to_string(most_nested) +
                                            " files, perhaps by itself; take a line out");
    }
    read(words[1], depth + 1);
  }

  const CLI::App& app_;
  const CheckFlag& check_;
  std::vector<std::string> flags_;
  std::string unknown_;
};

}  // namespace

std::vector<std::string> flags_of_file(const std::string& path, const CLI::App& app,
                                       const CheckFlag& check) {
  Reader reader(app, check);
  reader.read(path, 0);
  return reader.take_flags();
}

}  // namespace isotherm
