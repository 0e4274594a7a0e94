#include <cstdint>
#include <string>
#include <utility>

#include "net/resp/handlers.h"
#include "net/resp/transaction.h"
#include "net/server_state.h"
#include "net/text.h"
#include "net/version.h"

namespace isotherm::net {
namespace {

constexpr std::string_view bad_password =
    "WRONGPASS invalid username-password pair or user is disabled.";

// There is one user, "default", who may come in with any password where none is set. What stands
// behind in the pipeline is parsed in another turn, without the limits of before.
bool log_in(Call& call, std::string_view user, std::string_view password) {
  if (user != "default" || !call.turn.server.password.admits(password)) {
    call.error(std::string(bad_password));
    return false;
  }
  if (!std::exchange(call.session.authenticated, true)) call.pause();
  return true;
}

void encode_hello(const Answer& answer, const AnswerSource&, RespWriter& writer) {
  writer.map(7);
  writer.bulk("server");
  writer.bulk("redis");
  writer.bulk("version");
  writer.bulk(redis_version);
  writer.bulk("proto");
  writer.integer(answer.version);
  writer.bulk("id");
  writer.integer(answer.number);
  writer.bulk("mode");
  writer.bulk("standalone");
  writer.bulk("role");
  writer.bulk("master");
  writer.bulk("modules");
  writer.array(0);
}

// Like Redis, each option takes effect where it stands, also before a later one that is wrong.
// False: answered with an error.
bool take_hello_options(Call& call) {
  for (size_t i = 2; i < call.size(); ++i) {
    const size_t left = call.size() - i - 1;
    if (equals_ignoring_case(call[i], "auth") && left >= 2) {
      if (!log_in(call, call[i + 1], call[i + 2])) return false;
      i += 2;
    } else if (equals_ignoring_case(call[i], "setname") && left >= 1) {
      if (!check_client_name(call, call[++i])) return false;
      rename_client(call, call[i]);
    } else {
      const std::string_view word = call[i].substr(0, call[i].find('\0'));
      call.error("ERR Syntax error in HELLO option '" + std::string(word) + "'");
      return false;
    }
  }
  return true;
}

}  // namespace

bool parse_database(Call& call, size_t i, uint32_t* database) {
  int64_t number = 0;
  if (!call.integer(i, &number)) return false;
  if (number < INT32_MIN || number > INT32_MAX) {
    call.error("ERR value is out of range, value must between -2147483648 and 2147483647");
    return false;
  }
  if (number < 0 || number >= call.turn.server.options.store.databases) {
    call.error("ERR DB index is out of range");
    return false;
  }
  *database = static_cast<uint32_t>(number);
  return true;
}

namespace handlers {

void ping(Call& call) {
  if (call.size() > 2) return call.wrong_arity();
  if (call.size() == 2) return call.answer_text(encode_bulk_text, call[1]);
  call.answer_raw("+PONG\r\n");
}

void echo(Call& call) { call.answer_text(encode_bulk_text, call[1]); }

void hello(Call& call) {
  int version = call.session.version;
  if (call.size() > 1) {
    const auto wanted = parse_integer(call[1]);
    if (!wanted) return call.error("ERR Protocol version is not an integer or out of range");
    if (*wanted != 2 && *wanted != 3) return call.error("NOPROTO unsupported protocol version");
    version = static_cast<int>(*wanted);
  }
  if (!take_hello_options(call)) return;
  if (!call.session.authenticated) {
    return call.error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
        "AUTH <user> <pass> option can be used to authenticate the client and select the RESP "
        "protocol version at the same time");
  }
  call.session.use_version(version);
  call.answer(encode_hello, 0, 0, static_cast<int64_t>(call.session.client.id));
}

void auth(Call& call) {
  if (call.size() > 3) return call.syntax_error();
  if (call.size() == 2 && !call.turn.server.password.is_set()) {
    return call.error(
        "ERR AUTH <password> called without any password configured for the default user. Are you "
        "sure your configuration is correct?");
  }
  const bool named = call.size() == 3;
  if (log_in(call, named ? call[1] : "default", call[named ? 2 : 1])) call.ok();
}

void select(Call& call) {
  uint32_t database = 0;
  if (!parse_database(call, 1, &database)) return;
  call.session.use_database(database);
  call.batch().select(call.session.database);
  call.ok();
}

void quit(Call& call) {
  call.ok();
  call.close();
}

void reset(Call& call) {
  take_transaction(call.session);
  call.session.use_version(2);
  call.session.use_database(0);
  call.session.authenticated = !call.turn.server.password.is_set();
  if (!call.session.authenticated) call.pause();
  rename_client(call, "");
  // As Redis: it ends CLIENT REPLY OFF, but is itself what CLIENT REPLY SKIP leaves out.
  if (std::exchange(call.session.replies, Replies::on) == Replies::off) call.mute(false);
  call.batch().select(0);
  call.answer_raw("+RESET\r\n");
}

// POST and Host: are words of HTTP: they come from a browser that some page has sent here, and get
// no answer.
void close_at_once(Call& call) { call.drop(); }

}  // namespace handlers
}  // namespace isotherm::net
