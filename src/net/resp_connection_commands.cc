#include <cstdint>
#include <optional>
#include <string>

#include "net/resp_handlers.h"
#include "net/server_state.h"
#include "net/text.h"
#include "net/version.h"

namespace isotherm::net {
namespace {

constexpr std::string_view bad_password =
    "WRONGPASS invalid username-password pair or user is disabled.";

// Names travel in CLIENT LIST's lines, so they may hold nothing that splits one.
bool valid_name(std::string_view name) {
  for (const char c : name) {
    if (c < '!' || c > '~') return false;
  }
  return true;
}

// Without passwords there is one user, "default", who may come in with any.
bool known_user(std::string_view user) { return user == "default"; }

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

struct HelloOptions {
  std::optional<std::string_view> name;
  bool denied = false;
};

// Answers with the error if it is none.
bool check_name(Call& call, std::string_view name) {
  if (valid_name(name)) return true;
  call.error("ERR Client names cannot contain spaces, newlines or special characters.");
  return false;
}

bool parse_hello_options(Call& call, HelloOptions* options) {
  for (size_t i = 2; i < call.size(); ++i) {
    const size_t left = call.size() - i - 1;
    if (equals_ignoring_case(call[i], "auth") && left >= 2) {
      options->denied |= !known_user(call[i + 1]);
      i += 2;
    } else if (equals_ignoring_case(call[i], "setname") && left >= 1) {
      if (!check_name(call, call[++i])) return false;
      options->name = call[i];
    } else {
      const std::string_view word = call[i].substr(0, call[i].find('\0'));
      call.error("ERR Syntax error in HELLO option '" + std::string(word) + "'");
      return false;
    }
  }
  return true;
}

std::string describe(const Call& call) {
  const Session& session = call.session;
  const int64_t age = (call.turn.now_ms - session.connected_ms) / 1000;
  return "id=" + std::to_string(session.id) + " addr=" + session.peer_address +
         " laddr=" + session.local_address + " fd=" + std::to_string(session.descriptor) +
         " name=" + session.name + " age=" + std::to_string(age) +
         " idle=0 flags=N db=" + std::to_string(session.database) +
         " sub=0 psub=0 ssub=0 multi=-1 cmd=client|info user=default lib-name=" +
         session.library_name + " lib-ver=" + session.library_version +
         " resp=" + std::to_string(session.version) + "\n";
}

void encode_verbatim(const Answer& answer, const AnswerSource&, RespWriter& writer) {
  writer.verbatim("txt", answer.text);
}

void encode_name(const Answer& answer, const AnswerSource&, RespWriter& writer) {
  answer.text.empty() ? writer.null() : writer.bulk(answer.text);
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
  HelloOptions options;
  if (!parse_hello_options(call, &options)) return;
  if (options.denied) return call.error(std::string(bad_password));
  if (options.name) call.session.name = *options.name;
  call.session.version = version;
  call.answer(encode_hello, 0, 0, static_cast<int64_t>(call.session.id));
}

void auth(Call& call) {
  if (call.size() > 3) return call.syntax_error();
  if (call.size() == 2) {
    return call.error(
        "ERR AUTH <password> called without any password configured for the default user. Are you "
        "sure your configuration is correct?");
  }
  if (!known_user(call[1])) return call.error(std::string(bad_password));
  call.ok();
}

void select(Call& call) {
  if (!parse_database(call, 1, &call.session.database)) return;
  call.batch().select(call.session.database);
  call.ok();
}

void quit(Call& call) {
  call.ok();
  call.close();
}

void reset(Call& call) {
  call.session.version = 2;
  call.session.database = 0;
  call.session.name.clear();
  call.batch().select(0);
  call.answer_raw("+RESET\r\n");
}

// POST and Host: come from a browser that was lured here; it gets no answer.
void close_at_once(Call& call) { call.drop(); }

void client_id(Call& call) {
  call.answer(encode_integer, 0, 0, static_cast<int64_t>(call.session.id));
}

void client_info(Call& call) { call.answer_owned(encode_verbatim, describe(call)); }

// The name may change before the answer is written, so the answer takes a copy.
void client_getname(Call& call) { call.answer_owned(encode_name, call.session.name); }

void client_setname(Call& call) {
  if (!check_name(call, call[2])) return;
  call.session.name = call[2];
  call.ok();
}

void client_setinfo(Call& call) {
  const bool is_name = equals_ignoring_case(call[2], "lib-name");
  if (!is_name && !equals_ignoring_case(call[2], "lib-ver")) {
    return call.error("ERR Unrecognized option '" + std::string(call[2]) + "'");
  }
  if (!valid_name(call[3])) {
    return call.error("ERR " + std::string(is_name ? "lib-name" : "lib-ver") +
                      " cannot contain spaces, newlines or special characters.");
  }
  (is_name ? call.session.library_name : call.session.library_version) = call[3];
  call.ok();
}

}  // namespace handlers
}  // namespace isotherm::net
