#include "net/resp/refusals.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/reason_of.h"
#include "net/resp/handlers.h"
#include "net/resp/transaction.h"
#include "net/text.h"
#include "net/unsaved.h"
#include "tree/tree.h"

namespace isotherm::net {
namespace {

std::string in_capitals(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(), to_upper);
  return upper;
}

std::string not_in_transactions(const Command& command) {
  return "ERR " + in_capitals(command.name) + " is not allowed in a transaction: it goes in steps";
}

// Whether writes that take memory would be refused.
bool is_full(const Engine& engine) {
  const uint64_t most = engine.maxmemory();
  return most != 0 && engine.policy() == EvictionPolicy::noeviction && engine.used_memory() > most;
}

}  // namespace

bool is_kept(const Command& command, const Session& session) {
  constexpr Handler at_once[] = {handlers::exec,         handlers::discard, handlers::multi,
                                 handlers::watch,        handlers::quit,    handlers::reset,
                                 handlers::close_at_once};
  return queues(session) &&
         std::find(std::begin(at_once), std::end(at_once), command.handler) == std::end(at_once);
}

bool has(const Command& command, const Session& session, uint32_t flag) {
  const bool runs_others = command.handler == handlers::exec && queues(session);
  return ((command.flags | (runs_others ? session.transaction->flags() : 0)) & flag) != 0;
}

int journal_error(const ServerState& server) {
  return server.journal != nullptr ? server.journal->error() : 0;
}

// As Redis has it, what is kept takes memory, and PING tells of a disk that fails, too.
std::string refusal(const Command& command, size_t words, const Session& session,
                    const ServerState& server) {
  const Handler handler = command.handler;
  if (!command.takes(words)) return wrong_arity(command);
  if (lacks_password(session, server) && (command.flags & command_flag::no_auth) == 0) {
    return "NOAUTH Authentication required.";
  }
  const bool kept = is_kept(command, session);
  if (kept && (command.flags & command_flag::walks) != 0) return not_in_transactions(command);
  if (kept && command.waits()) return "ERR Command not allowed inside a transaction";
  const bool takes_memory = kept || handler == handlers::multi || handler == handlers::watch ||
                            has(command, session, command_flag::denyoom);
  if (queues(session) && takes_memory && is_full(server.engine)) return std::string(over_maxmemory);
  const int error = journal_error(server);
  const bool shows = has(command, session, command_flag::write) || handler == handlers::ping;
  return error != 0 && shows ? misconf(server) : std::string();
}

bool is_held(const Command& command, Arguments words, Session& session, ServerState& server,
             int64_t now_ms) {
  if (!command.takes(words.size()) || lacks_password(session, server)) return false;
  const Pause::Holds holds = server.pause.holds(now_ms);
  const bool writes = has(command, session, command_flag::write);
  if (holds == Pause::Holds::all || (holds == Pause::Holds::writes && writes)) return true;
  return command.waits() && !queues(session) && handlers::is_awaited(words, server, session);
}

std::string unknown_command(Arguments words) {
  std::string arguments;
  for (size_t i = 1; i < words.size() && arguments.size() < 128; ++i) {
    const std::string_view word = words[i].substr(0, words[i].find('\0'));
    arguments += '\'';
    arguments += word.substr(0, 128 - (arguments.size() - 1));
    arguments += "' ";
  }
  const std::string_view name = words[0].substr(0, words[0].find('\0'));
  return "ERR unknown command '" + std::string(name.substr(0, 128)) +
         "', with args beginning with: " + arguments;
}

std::string unknown_subcommand(const Command& container, std::string_view name) {
  name = name.substr(0, name.find('\0')).substr(0, 128);
  return "ERR unknown subcommand '" + std::string(name) + "'. Try " + in_capitals(container.name) +
         " HELP.";
}

std::string wrong_arity(const Command& command) {
  return "ERR wrong number of arguments for '" + std::string(command.name) + "' command";
}

std::string too_many_arguments(std::string_view container, std::string_view subcommand) {
  return "ERR unknown subcommand or wrong number of arguments for '" + std::string(subcommand) +
         "'. Try " + std::string(container) + " HELP.";
}

std::string misconf(const ServerState& server) {
  switch (unsaved_by(server)) {
    case Unsaved::by_tree:
      return "MISCONF Errors with the files of the tree: " + server.engine.tree()->last_error();
    case Unsaved::by_gpu:
      return "MISCONF " + server.engine.tree()->last_error();
    case Unsaved::by_journal:
      break;
  }
  const int error = server.journal != nullptr ? server.journal->last_error() : 0;
  return "MISCONF Errors writing to the AOF file: " + reason_of(error);
}

std::string aborted_by(std::string_view reason) {
  constexpr std::string_view usual = "ERR ";
  if (reason.starts_with(usual)) reason.remove_prefix(usual.size());
  return "EXECABORT Transaction discarded because of: " + std::string(reason);
}

}  // namespace isotherm::net
