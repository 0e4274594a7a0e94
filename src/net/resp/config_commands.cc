// CONFIG: the options, shown and changed.

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
std::vector<const ConfigOption*> find_options(Call& call) {
  std::vector<const ConfigOption*> found;
  for (size_t i = 2; i < call.size(); i += 2) {
    const ConfigOption* option = find_config_option(call[i]);
    if (option == nullptr) {
      call.error("ERR Unknown option or number of arguments for CONFIG SET - '" +
                 std::string(call[i].substr(0, call[i].find('\0'))) + "'");
      return {};
    }
    if (option->set == nullptr) {
      call.error(failure(call[i], "can't set immutable config"));
      return {};
    }
    if (std::find(found.begin(), found.end(), option) != found.end()) {
      call.error(failure(call[i], "duplicate parameter"));
      return {};
    }
    found.push_back(option);
  }
  return found;
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
  const std::vector<const ConfigOption*> options = find_options(call);
  for (const bool dry : {true, false}) {
    for (size_t i = 0; i < options.size(); ++i) {
      const std::string_view name = call[2 + 2 * i];
      const std::string wrong = options[i]->set(call.turn.server, call[3 + 2 * i], dry);
      if (!wrong.empty()) return call.error(failure(name, wrong));
    }
  }
  if (!options.empty()) call.ok();
}

void config_resetstat(Call& call) {
  call.turn.server.reset_statistics();
  call.ok();
}

void config_rewrite(Call& call) { call.error("ERR The server is running without a config file"); }

}  // namespace handlers
}  // namespace isotherm::net
