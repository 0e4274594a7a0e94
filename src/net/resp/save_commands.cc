// Commands about snapshots, and about the end of the server, which writes one.
//
// SAVE and SHUTDOWN wait at the front of their connection's input until what they asked for is over
// (Session::awaited); others go on meanwhile.

#include <optional>
#include <string>

#include "net/resp/handlers.h"
#include "net/server_state.h"
#include "net/text.h"
#include "tree/tree.h"

namespace isotherm::net {
namespace {

// Why there are none; null: there are.
const char* no_snapshots(const ServerState& server) {
  if (const Tree* const tree = server.engine.tree(); tree != nullptr && tree->is_lost()) {
    return "ERR no snapshots since the GPU has failed: what it alone had would be missing";
  }
  const bool on_device = server.engine.stats().on_device;
  return on_device ? "ERR no snapshots while the index is on a GPU" : nullptr;
}
constexpr const char* in_progress = "ERR Background save already in progress";

struct ShutdownWords {
  Shutdown::Wish wish;
  bool abort = false;
};

// Of SHUTDOWN; none: the words are others.
std::optional<ShutdownWords> read_shutdown(Arguments words) {
  ShutdownWords read;
  bool any = false;
  for (const std::string_view word : words.subspan(1)) {
    const bool saves = equals_ignoring_case(word, "save");
    const bool saves_not = equals_ignoring_case(word, "nosave");
    if (saves || saves_not) {
      const auto wanted = saves ? Shutdown::Saves::yes : Shutdown::Saves::no;
      const auto before = std::exchange(read.wish.saves, wanted);
      if (before != wanted && before != Shutdown::Saves::at_points) return std::nullopt;
    } else if (equals_ignoring_case(word, "force")) {
      read.wish.force = true;
    } else if (equals_ignoring_case(word, "abort")) {
      read.abort = true;
      continue;
    } else if (!equals_ignoring_case(word, "now")) {
      return std::nullopt;
    }
    any = true;
  }
  return read.abort && any ? std::nullopt : std::optional(read);
}

}  // namespace

namespace handlers {

bool is_awaited(Arguments words, ServerState& server, Session& session) {
  if (equals_ignoring_case(words[0], "save")) {
    if (session.awaited == 0 && no_snapshots(server) == nullptr) {
      session.awaited = server.saves.ask();
    }
    return session.awaited != 0 && !server.saves.has_ended(session.awaited);
  }
  const auto read = read_shutdown(words);
  if (!read || read->abort || !server.shutdown.owner) return false;
  if (session.awaited == 0) session.awaited = server.shutdown.ask(read->wish);
  return !server.shutdown.has_failed(session.awaited);
}

void save(Call& call) {
  const SaveJob& saves = call.turn.server.saves;
  if (std::exchange(call.session.awaited, 0) != 0) {
    return saves.failed() ? call.answer_raw("-ERR\r\n") : call.ok();
  }
  const char* const why = no_snapshots(call.turn.server);
  call.error(why != nullptr ? why : in_progress);
}

// A rewrite of the journal may go on beside it, so SCHEDULE makes no difference.
void bgsave(Call& call) {
  const bool schedules = call.size() == 2 && equals_ignoring_case(call[1], "schedule");
  if (call.size() > 1 && !schedules) return call.syntax_error();
  if (const char* why = no_snapshots(call.turn.server)) return call.error(why);
  if (call.turn.server.saves.ask() == 0) return call.error(in_progress);
  call.answer_raw("+Background saving started\r\n");
}

// As in Redis, the time of the start where nothing was saved since.
void lastsave(Call& call) { call.answer(encode_integer, 0, 0, call.turn.server.saves.saved_s()); }

void shutdown(Call& call) {
  const auto read = read_shutdown(call.arguments);
  call.session.awaited = 0;
  if (!read) return call.syntax_error();
  if (read->abort) return call.error("ERR No shutdown in progress.");
  call.error("ERR Errors trying to SHUTDOWN. Check logs.");
}

}  // namespace handlers
}  // namespace isotherm::net
