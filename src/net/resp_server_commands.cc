#include <algorithm>
#include <string>
#include <vector>

#include "net/glob.h"
#include "net/resp_handlers.h"
#include "net/server_state.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::verbose:
      return "verbose";
    case LogLevel::notice:
      return "notice";
    case LogLevel::warning:
      break;
  }
  return "warning";
}

std::string join(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += word;
  }
  return line;
}

// A port that is off is written as 0, the way redis.conf says it.
std::string port_text(int32_t configured, uint16_t bound) {
  return std::to_string(configured < 0 ? 0 : bound != 0 ? bound : configured);
}

void encode_config(const Answer& answer, const AnswerSource&, RespWriter& writer) {
  // The text holds "name\0value\0" for each entry.
  writer.map(static_cast<size_t>(answer.number));
  std::string_view rest = answer.text;
  while (!rest.empty()) {
    const size_t end = rest.find('\0');
    writer.bulk(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
}

void encode_time(const Answer& answer, const AnswerSource&, RespWriter& writer) {
  writer.array(2);
  writer.bulk_integer(answer.number / 1'000'000);
  writer.bulk_integer(answer.number % 1'000'000);
}

void run_info(Alone& alone) {
  const Arguments sections = alone.arguments.subspan(1);
  alone.writer.verbatim("txt", info_text(alone.turn.server, sections));
}

// The error, or nothing.
std::string set_option(ServerState& server, std::string_view word, std::string_view text,
                       bool dry) {
  const std::string name(word.substr(0, word.find('\0')));
  std::string wrong = "can't set immutable config";
  if (const ClientLimitOption* option = find_client_limit(word); option != nullptr) {
    wrong = option->set(server.limits, text, dry);
  } else {
    const auto entries = config_entries(server);
    const bool known = std::any_of(entries.begin(), entries.end(), [&](const ConfigEntry& entry) {
      return equals_ignoring_case(entry.name, word);
    });
    if (!known) return "ERR Unknown option or number of arguments for CONFIG SET - '" + name + "'";
  }
  if (wrong.empty()) return {};
  return "ERR CONFIG SET failed (possibly related to argument '" + name + "') - " + wrong;
}

}  // namespace

std::vector<ConfigEntry> config_entries(const ServerState& server) {
  const ServerOptions& options = server.options;
  std::vector<ConfigEntry> entries = {
      {"port", port_text(options.port, server.resp_port)},
      {"memcached-port", port_text(options.memcached_port, server.memcached_port)},
      {"bind", join(options.bind)},
      {"threads", std::to_string(server.loops.size())},
      {"databases", std::to_string(options.store.databases)},
      {"maxmemory", std::to_string(options.store.maxmemory)},
      {"maxmemory-policy", std::string(to_string(options.store.maxmemory_policy))},
      {"maxclients", std::to_string(options.maxclients)},
      {"proto-max-bulk-len", std::to_string(options.proto_max_bulk_len)},
      {"loglevel", std::string(level_name(options.loglevel))},
      // Tools ask for these two; nothing is kept on disk.
      {"save", ""},
      {"appendonly", "no"},
  };
  for (const ClientLimitOption& option : client_limit_options()) {
    entries.push_back({option.name, option.get(server.limits)});
  }
  return entries;
}

namespace handlers {

void info(Call& call) { call.run_alone(run_info); }

void config_get(Call& call) {
  std::string text;
  int64_t found = 0;
  for (const ConfigEntry& entry : config_entries(call.turn.server)) {
    const Arguments patterns = call.arguments.subspan(2);
    const auto wanted = std::find_if(
        patterns.begin(), patterns.end(),
        [&](std::string_view pattern) { return glob_matches(pattern, entry.name, true); });
    if (wanted == patterns.end()) continue;
    // Like Redis, a plain name comes back as the client wrote it.
    text.append(equals_ignoring_case(*wanted, entry.name) ? *wanted : entry.name).push_back('\0');
    text.append(entry.value).push_back('\0');
    ++found;
  }
  call.answer_owned(encode_config, std::move(text), found);
}

// Most options are fixed when the server starts. All values are checked before any is taken.
void config_set(Call& call) {
  if (call.size() % 2 != 0) return call.syntax_error();
  for (const bool dry : {true, false}) {
    for (size_t i = 2; i < call.size(); i += 2) {
      std::string wrong = set_option(call.turn.server, call[i], call[i + 1], dry);
      if (!wrong.empty()) return call.error(std::move(wrong));
    }
  }
  call.ok();
}

void config_resetstat(Call& call) {
  call.turn.server.reset_statistics();
  call.ok();
}

void time(Call& call) { call.answer(encode_time, 0, 0, call.turn.server.clock.now_us()); }

}  // namespace handlers
}  // namespace isotherm::net
