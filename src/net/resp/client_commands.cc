// CLIENT: a client about itself, and about the others.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>

#include "net/loop_control.h"
#include "net/resp/handlers.h"
#include "net/resp/refusals.h"
#include "net/server_state.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;

// Names stand in the lines of CLIENT LIST, so they may hold nothing that splits one.
bool is_word(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](char c) { return c >= '!' && c <= '~'; });
}

std::string up_to_nul(std::string_view word) {
  return std::string(word.substr(0, word.find('\0')));
}

std::string letters(const Client& client) {
  std::string flags;
  if (client.queued.load(relaxed) >= 0) flags += 'x';
  if (client.held.load(relaxed)) flags += 'b';
  if (client.no_evict.load(relaxed)) flags += 'e';
  if (client.no_touch.load(relaxed)) flags += 'T';
  if (client.by_path) flags += 'U';
  return flags.empty() ? "N" : flags;
}

// A line of CLIENT LIST. `argument_bytes`: of the command that the client runs now.
std::string describe(const Client& client, const Command* command, size_t argument_bytes,
                     int64_t now_ms) {
  const auto field = [](std::string_view name, const auto& value) {
    std::string text(name);
    if constexpr (std::is_integral_v<std::decay_t<decltype(value)>>) {
      return text + std::to_string(value);
    } else {
      return text.append(value);
    }
  };
  const auto seconds_since = [&](int64_t ms) { return std::max<int64_t>(now_ms - ms, 0) / 1000; };
  const size_t input = client.input_bytes.load(relaxed);
  const size_t input_room = client.input_room.load(relaxed);
  const size_t output = client.output_bytes.load(relaxed);
  const size_t output_memory = client.output_memory.load(relaxed);
  const size_t transaction = client.transaction_bytes.load(relaxed);
  return field("id=", client.id) + field(" addr=", client.peer_address) +
         field(" laddr=", client.local_address) + field(" fd=", client.descriptor) +
         field(" name=", client.name) + field(" age=", seconds_since(client.connected_ms)) +
         field(" idle=", seconds_since(client.last_ms.load(relaxed))) +
         field(" flags=", letters(client)) + field(" db=", client.database.load(relaxed)) +
         " sub=0 psub=0 ssub=0" + field(" multi=", client.queued.load(relaxed)) +
         field(" qbuf=", input) + field(" qbuf-free=", input_room) +
         field(" argv-mem=", argument_bytes) + field(" multi-mem=", transaction) +
         field(" obl=", output) + field(" oll=", client.output_pieces.load(relaxed)) +
         field(" omem=", output_memory) +
         field(" tot-mem=", sizeof(Client) + input + input_room + output_memory + transaction) +
         field(" events=", output == 0 ? "r" : "rw") +
         field(" cmd=", command == nullptr ? "NULL" : command->name) + " user=default redir=-1" +
         field(" resp=", client.version.load(relaxed)) +
         field(" watch=", client.watched.load(relaxed)) + field(" lib-name=", client.library_name) +
         field(" lib-ver=", client.library_version) + "\n";
}

size_t bytes_of(Arguments words) {
  size_t bytes = 0;
  for (const std::string_view word : words) bytes += word.size();
  return bytes;
}

std::string describe_for(const Call& call, const Client& client) {
  const bool itself = &client == &call.session.client;
  return itself ? describe(client, &call.command, bytes_of(call.arguments), call.turn.now_ms())
                : describe(client, client.command.load(relaxed), 0, call.turn.now_ms());
}

void encode_name(const Answer& answer, const AnswerSource&, RespWriter& writer) {
  answer.text.empty() ? writer.null() : writer.bulk(answer.text);
}

void encode_tracking(const Answer&, const AnswerSource&, RespWriter& writer) {
  writer.map(3);
  writer.bulk("flags");
  writer.set(1);
  writer.bulk("off");
  writer.bulk("redirect");
  writer.integer(-1);
  writer.bulk("prefixes");
  writer.array(0);
}

// ON or OFF in the last word; otherwise answers with the error.
std::optional<bool> on_or_off(Call& call) {
  const std::string_view word = call[call.size() - 1];
  if (equals_ignoring_case(word, "on")) return true;
  if (equals_ignoring_case(word, "off")) return false;
  call.syntax_error();
  return std::nullopt;
}

// Only clients of one type exist here. Answers with the error if the word is no type at all.
bool parse_type(Call& call, std::string_view word, bool* normal) {
  *normal = equals_ignoring_case(word, "normal");
  for (const std::string_view other : {"master", "replica", "slave", "pubsub"}) {
    if (equals_ignoring_case(word, other)) return true;
  }
  if (!*normal) call.error("ERR Unknown client type '" + up_to_nul(word) + "'");
  return *normal;
}

// Which clients CLIENT KILL names.
struct Filter {
  std::optional<uint64_t> id;
  std::optional<std::string_view> peer_address, local_address;
  bool normal = true;
  bool skip_me = true;

  bool takes(const Client& client, const Client& me) const {
    return client.speaks == Speaks::resp && normal && !(skip_me && &client == &me) &&
           id.value_or(client.id) == client.id &&
           peer_address.value_or(client.peer_address) == client.peer_address &&
           local_address.value_or(client.local_address) == client.local_address;
  }
};

bool parse_filter(Call& call, Filter* filter) {
  for (size_t i = 2; i < call.size(); i += 2) {
    if (i + 1 == call.size()) return call.syntax_error(), false;
    const std::string_view value = call[i + 1];
    if (equals_ignoring_case(call[i], "id")) {
      const auto id = parse_integer(value);
      if (!id || *id < 1) return call.error("ERR client-id should be greater than 0"), false;
      filter->id = static_cast<uint64_t>(*id);
    } else if (equals_ignoring_case(call[i], "type")) {
      if (!parse_type(call, value, &filter->normal)) return false;
    } else if (equals_ignoring_case(call[i], "addr")) {
      filter->peer_address = value;
    } else if (equals_ignoring_case(call[i], "laddr")) {
      filter->local_address = value;
    } else if (equals_ignoring_case(call[i], "user")) {
      if (value != "default")
        return call.error("ERR No such user '" + up_to_nul(value) + "'"), false;
    } else if (equals_ignoring_case(call[i], "skipme")) {
      filter->skip_me = equals_ignoring_case(value, "yes");
      if (!filter->skip_me && !equals_ignoring_case(value, "no")) {
        return call.syntax_error(), false;
      }
    } else {
      return call.syntax_error(), false;
    }
  }
  return true;
}

// Kills whom the filter takes, up to `most`; returns how many. The client that asks gets its answer
// first.
int64_t kill(Call& call, const Filter& filter, int64_t most) {
  const Client& me = call.session.client;
  int64_t killed = 0;
  std::set<LoopControl*> loops;
  call.turn.server.clients.for_each([&](Client& client) {
    if (killed == most || !filter.takes(client, me)) return;
    ++killed;
    if (&client == &me) return call.close();
    client.killed.store(true, relaxed);
    loops.insert(client.loop);
  });
  for (LoopControl* loop : loops) loop->close_killed();
  return killed;
}

struct Tracking {
  bool optin = false, optout = false, bcast = false, prefix = false;
};

bool parse_tracking(Call& call, Tracking* tracking) {
  for (size_t i = 3; i < call.size(); ++i) {
    const bool more = i + 1 < call.size();
    if (equals_ignoring_case(call[i], "redirect") && more) {
      int64_t id = 0;
      if (!call.integer(++i, &id)) return false;
      bool there = false;
      call.turn.server.clients.with(static_cast<uint64_t>(id), [&](Client&) { there = true; });
      if (!there) {
        return call.error("ERR The client ID you want redirect to does not exist"), false;
      }
    } else if (equals_ignoring_case(call[i], "bcast")) {
      tracking->bcast = true;
    } else if (equals_ignoring_case(call[i], "optin")) {
      tracking->optin = true;
    } else if (equals_ignoring_case(call[i], "optout")) {
      tracking->optout = true;
    } else if (equals_ignoring_case(call[i], "prefix") && more) {
      tracking->prefix = true;
      ++i;
    } else if (!equals_ignoring_case(call[i], "noloop")) {
      return call.syntax_error(), false;
    }
  }
  return true;
}

}  // namespace

bool check_client_name(Call& call, std::string_view name) {
  if (is_word(name)) return true;
  call.error("ERR Client names cannot contain spaces, newlines or special characters.");
  return false;
}

void rename_client(Call& call, std::string_view name) {
  call.turn.server.clients.edit([&] { call.session.client.name = name; });
}

bool parse_wait_ms(Call& call, size_t i, int64_t* wait_ms) {
  const auto parsed = parse_integer(call[i]);
  if (!parsed) return call.error("ERR timeout is not an integer or out of range"), false;
  if (*parsed < 0) return call.error("ERR timeout is negative"), false;
  *wait_ms = *parsed;
  return true;
}

namespace handlers {

// Nobody tracks keys.
void client_caching(Call& call) {
  call.error(
      "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or "
      "OPTOUT mode enabled");
}

// The name may change before the answer is written, so the answer takes a copy.
void client_getname(Call& call) { call.answer_owned(encode_name, call.session.client.name); }

void client_getredir(Call& call) { call.answer(encode_integer, 0, 0, -1); }

void client_id(Call& call) {
  call.answer(encode_integer, 0, 0, static_cast<int64_t>(call.session.client.id));
}

void client_info(Call& call) {
  call.answer_owned(encode_verbatim, describe_for(call, call.session.client));
}

void client_kill(Call& call) {
  Filter filter;
  if (call.size() == 3) {
    filter.peer_address = call[2];
    filter.skip_me = false;
    if (kill(call, filter, 1) == 0) return call.error("ERR No such client");
    return call.ok();
  }
  if (!parse_filter(call, &filter)) return;
  const int64_t killed = kill(call, filter, std::numeric_limits<int64_t>::max());
  call.answer(encode_integer, 0, 0, killed);
}

void client_list(Call& call) {
  const ClientList& clients = call.turn.server.clients;
  std::string text;
  const auto show = [&](const Client& client) {
    if (client.speaks == Speaks::resp) text += describe_for(call, client);
  };
  if (call.size() == 2) {
    clients.for_each(show);
  } else if (call.size() == 4 && equals_ignoring_case(call[2], "type")) {
    bool normal = false;
    if (!parse_type(call, call[3], &normal)) return;
    if (normal) clients.for_each(show);
  } else if (call.size() > 3 && equals_ignoring_case(call[2], "id")) {
    for (const std::string_view word : call.arguments.subspan(3)) {
      const auto id = parse_integer(word);
      if (!id) return call.error("ERR Invalid client ID");
      clients.with(static_cast<uint64_t>(*id), show);
    }
  } else {
    return call.syntax_error();
  }
  call.answer_owned(encode_verbatim, std::move(text));
}

// Spares the client where others are closed to free memory (`Loop::bound_memory`).
void client_no_evict(Call& call) {
  const auto on = on_or_off(call);
  if (!on) return;
  call.session.client.no_evict.store(*on, relaxed);
  call.ok();
}

void client_no_touch(Call& call) {
  const auto on = on_or_off(call);
  if (!on) return;
  call.session.no_touch = *on;
  call.session.client.no_touch.store(*on, relaxed);
  call.ok();
}

void client_pause(Call& call) {
  using Holds = Pause::Holds;
  if (call.size() > 4) return call.error(too_many_arguments("CLIENT", call[1]));
  Holds holds = Holds::all;
  if (call.size() == 4 && equals_ignoring_case(call[3], "write")) {
    holds = Holds::writes;
  } else if (call.size() == 4 && !equals_ignoring_case(call[3], "all")) {
    return call.error("ERR CLIENT PAUSE mode must be WRITE or ALL");
  }
  int64_t wait_ms = 0;
  if (!parse_wait_ms(call, 2, &wait_ms)) return;
  const int64_t now_ms = call.turn.now_ms();
  // Like Redis, a time too far away to be named is over at once: nobody could end such a pause.
  const bool too_long = wait_ms > std::numeric_limits<int64_t>::max() - now_ms;
  call.turn.server.pause.start(holds, too_long ? now_ms : now_ms + wait_ms, now_ms);
  call.ok();
}

void client_reply(Call& call) {
  Session& session = call.session;
  if (equals_ignoring_case(call[2], "on")) {
    session.replies = Replies::on;
    call.mute(false);
    return call.ok();
  }
  if (equals_ignoring_case(call[2], "off")) {
    session.replies = Replies::off;
  } else if (!equals_ignoring_case(call[2], "skip")) {
    return call.syntax_error();
  } else if (session.replies != Replies::off) {
    session.replies = Replies::skip;
  }
  call.mute(true);
  call.ok();
}

void client_setinfo(Call& call) {
  const bool is_name = equals_ignoring_case(call[2], "lib-name");
  if (!is_name && !equals_ignoring_case(call[2], "lib-ver")) {
    return call.error("ERR Unrecognized option '" + std::string(call[2]) + "'");
  }
  if (!is_word(call[3])) {
    return call.error("ERR " + std::string(is_name ? "lib-name" : "lib-ver") +
                      " cannot contain spaces, newlines or special characters.");
  }
  Client& client = call.session.client;
  call.turn.server.clients.edit(
      [&] { (is_name ? client.library_name : client.library_version) = call[3]; });
  call.ok();
}

void client_setname(Call& call) {
  if (!check_client_name(call, call[2])) return;
  rename_client(call, call[2]);
  call.ok();
}

// Its errors are those of Redis, up to the one that says that it is not there.
void client_tracking(Call& call) {
  Tracking tracking;
  if (!parse_tracking(call, &tracking)) return;
  if (equals_ignoring_case(call[2], "off")) return call.ok();
  if (!equals_ignoring_case(call[2], "on")) return call.syntax_error();
  if (tracking.prefix && !tracking.bcast) {
    return call.error("ERR PREFIX option requires BCAST mode to be enabled");
  }
  if (tracking.bcast && (tracking.optin || tracking.optout)) {
    return call.error("ERR OPTIN and OPTOUT are not compatible with BCAST");
  }
  if (tracking.optin && tracking.optout) {
    return call.error("ERR You can't specify both OPTIN mode and OPTOUT mode");
  }
  call.error("ERR client tracking is not available: this server sends no invalidation messages");
}

void client_trackinginfo(Call& call) { call.answer(encode_tracking, 0, 0); }

// No command blocks its client.
void client_unblock(Call& call) {
  if (call.size() > 4) return call.error(too_many_arguments("CLIENT", call[1]));
  if (call.size() == 4 && !equals_ignoring_case(call[3], "timeout") &&
      !equals_ignoring_case(call[3], "error")) {
    return call.error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
  }
  int64_t id = 0;
  if (call.integer(2, &id)) call.answer(encode_integer, 0, 0, 0);
}

void client_unpause(Call& call) {
  call.turn.server.pause.end();
  for (LoopControl* loop : call.turn.server.threads) loop->release_held();
  call.ok();
}

}  // namespace handlers
}  // namespace isotherm::net
