// CONFIG: the options, shown and changed.
//
// What changes the server runs alone: requests before it in its pipeline take effect before it.

#include <algorithm>
#include <string>
#include <vector>

#include "net/resp/config_options.h"
#include "net/resp/glob.h"
#include "net/resp/handlers.h"
#include "net/server_state.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

void encode_config(const Answer& answer, const AnswerSource&, RespWriter& writer) {
  // The text is "name\0value\0" for each entry.
  writer.map(static_cast<size_t>(answer.number));
  std::string_view rest = answer.text;
  while (!rest.empty()) {
    const size_t end = rest.find('\0');
    writer.bulk(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
}

std::string failure(std::string_view name, std::string_view wrong) {
  return "ERR CONFIG SET failed (possibly related to argument '" +
         std::string(name.substr(0, name.find('\0'))) + "') - " + std::string(wrong);
}

// The options that the words name; none where this has answered with an error.
std::vector<const ConfigOption*> find_options(Alone& alone) {
  const Arguments words = alone.arguments;
  std::vector<const ConfigOption*> found;
  for (size_t i = 2; i < words.size(); i += 2) {
    const ConfigOption* option = find_config_option(words[i]);
    if (option == nullptr) {
      alone.writer.error("ERR Unknown option or number of arguments for CONFIG SET - '" +
                         std::string(words[i].substr(0, words[i].find('\0'))) + "'");
      return {};
    }
    if (option->set == nullptr) {
      alone.writer.error(failure(words[i], "can't set immutable config"));
      return {};
    }
    if (std::find(found.begin(), found.end(), option) != found.end()) {
      alone.writer.error(failure(words[i], "duplicate parameter"));
      return {};
    }
    found.push_back(option);
  }
  return found;
}

void run_config_set(Alone& alone) {
  const Arguments words = alone.arguments;
  const std::vector<const ConfigOption*> options = find_options(alone);
  for (const bool dry : {true, false}) {
    for (size_t i = 0; i < options.size(); ++i) {
      const std::string wrong = options[i]->set(alone.turn.server, words[3 + 2 * i], dry);
      if (!wrong.empty()) return alone.writer.error(failure(words[2 + 2 * i], wrong));
    }
  }
  if (!options.empty()) alone.writer.ok();
}

void run_config_resetstat(Alone& alone) {
  alone.turn.server.reset_statistics();
  alone.writer.ok();
}

}  // namespace

namespace handlers {

void config_get(Call& call) {
  const ServerState& server = call.turn.server;
  const Arguments patterns = call.arguments.subspan(2);
  std::string text;
  int64_t found = 0;
  for (const ConfigOption& option : config_options()) {
    const auto wanted = std::find_if(
        patterns.begin(), patterns.end(),
        [&](std::string_view pattern) { return glob_matches(pattern, option.name, true); });
    if (wanted == patterns.end()) continue;
    // Like Redis, a plain name comes back as the client wrote it.
    text.append(equals_ignoring_case(*wanted, option.name) ? *wanted : option.name).push_back('\0');
    text.append(option.get(server)).push_back('\0');
    ++found;
  }
  call.answer_owned(encode_config, std::move(text), found);
}

void config_set(Call& call) {
  if (call.size() % 2 != 0) return call.syntax_error();
  call.run_alone(run_config_set);
}

void config_resetstat(Call& call) { call.run_alone(run_config_resetstat); }

void config_rewrite(Call& call) {
  if (call.turn.server.options.config_file.empty()) {
    return call.error("ERR The server is running without a config file");
  }
  call.error("ERR Rewriting config file: not supported, the file is only read");
}

}  // namespace handlers
}  // namespace isotherm::net
