#include <limits>
#include <optional>

#include "engine/all_or_none.h"
#include "net/resp/handlers.h"
#include "net/server_state.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

// SET answers OK or null, with GET the value before; condition_failed means that NX or XX forbade
// it.
void encode_set(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Status status = source.batch.reply(answer.first_row).status.load(std::memory_order_acquire);
  if (write_failure(status, writer)) return;
  status == Status::ok ? writer.ok() : writer.null();
}

// A put that was cancelled had no room beside the others.
void encode_mset(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Status first = source.batch.reply(answer.first_row).status.load(std::memory_order_acquire);
  if (first == Status::not_found) {
    write_failure(Status::out_of_memory, writer);
  } else {
    encode_ok(answer, source, writer);
  }
}

void encode_values(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Reply* const first = &source.batch.reply(answer.first_row);
  const Reply* const end = first + answer.rows;
  for (const Reply* reply = first; reply != end; ++reply) {
    const Status status = reply->status.load(std::memory_order_acquire);
    if (status != Status::wrong_type && write_failure(status, writer)) return;
    // Other rows have run since this row was answered.
    __builtin_prefetch(reply->data);
  }
  writer.array(answer.rows);
  // Like Redis, MGET takes a value of another type for none.
  writer.bulks({first, end});
}

void encode_size(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Reply& reply = source.batch.reply(answer.first_row);
  if (write_failure(reply.status.load(std::memory_order_acquire), writer)) return;
  writer.integer(static_cast<int64_t>(reply.size));
}

// The options of SET and GETEX.
struct StringOptions {
  uint16_t put = 0;
  bool get = false;
  bool keep_expiry = false;
  bool persist = false;
  std::optional<TimeForm> time;
  size_t time_argument = 0;
};

std::optional<TimeForm> time_form(std::string_view word) {
  if (equals_ignoring_case(word, "ex")) return TimeForm{true, true};
  if (equals_ignoring_case(word, "px")) return TimeForm{false, true};
  if (equals_ignoring_case(word, "exat")) return TimeForm{true, false};
  if (equals_ignoring_case(word, "pxat")) return TimeForm{false, false};
  return std::nullopt;
}

// One kind of time may be given, that one even twice: the last one counts.
bool may_follow(const StringOptions& options, TimeForm form) {
  if (options.keep_expiry || options.persist) return false;
  return !options.time ||
         (options.time->seconds == form.seconds && options.time->relative == form.relative);
}

// An option of SET alone.
bool take_set_option(std::string_view word, StringOptions& options) {
  if (equals_ignoring_case(word, "nx") && !(options.put & option::if_present)) {
    options.put |= option::if_absent;
  } else if (equals_ignoring_case(word, "xx") && !(options.put & option::if_absent)) {
    options.put |= option::if_present;
  } else if (equals_ignoring_case(word, "get")) {
    options.get = true;
    options.put |= option::want_previous;
  } else if (equals_ignoring_case(word, "keepttl") && !options.time) {
    options.keep_expiry = true;
    options.put |= option::keep_expiry;
  } else {
    return false;
  }
  return true;
}

bool parse_options(Call& call, size_t first, bool is_set, StringOptions& options) {
  for (size_t i = first; i < call.size(); ++i) {
    const std::optional<TimeForm> form = time_form(call[i]);
    if (form && i + 1 < call.size() && may_follow(options, *form)) {
      options.time = form;
      options.time_argument = ++i;
    } else if (is_set && take_set_option(call[i], options)) {
      continue;
    } else if (!is_set && equals_ignoring_case(call[i], "persist") && !options.time) {
      options.persist = true;
    } else {
      call.syntax_error();
      return false;
    }
  }
  return true;
}

void increment(Call& call, int64_t delta) {
  call.answer(encode_number, call.batch().add(call[1], delta));
}

// The error about the time in argument i; empty where `expiry` is set from it.
std::string expiry_fault(const Call& call, size_t i, TimeForm form, int64_t* expiry) {
  constexpr int64_t max = std::numeric_limits<int64_t>::max();
  const std::optional<int64_t> time = parse_integer(call[i]);
  if (!time) return "ERR value is not an integer or out of range";
  const int64_t unit = form.seconds ? 1000 : 1;
  const int64_t base = form.relative ? call.turn.now_ms() : 0;
  if (*time <= 0 || *time > max / unit || *time * unit > max - base) {
    return "ERR invalid expire time in '" + std::string(call.command.name) + "' command";
  }
  *expiry = *time * unit + base;
  return {};
}

// The fault in the text where the row numbered `number` found a value, or null.
void encode_fault_if_found(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Reply& reply = source.batch.reply(static_cast<Batch::Row>(answer.number));
  const Status status = reply.status.load(std::memory_order_acquire);
  if (write_failure(status, writer)) return;
  if (status == Status::not_found) return writer.null();
  writer.error(answer.text);
}

void set_with_expiry(Call& call, TimeForm form) {
  int64_t expiry = 0;
  if (!parse_expiry(call, 2, form, &expiry)) return;
  call.answer(encode_ok, call.batch().put(call[1], call[3], 0, expiry));
}

}  // namespace

bool parse_expiry(Call& call, size_t i, TimeForm form, int64_t* expiry) {
  std::string fault = expiry_fault(call, i, form, expiry);
  if (fault.empty()) return true;
  call.error(std::move(fault));
  return false;
}

namespace handlers {

void get(Call& call) { call.answer(encode_value, call.batch().get(call[1])); }

void set(Call& call) {
  if (call.size() == 3) return call.answer(encode_ok, call.batch().put(call[1], call[2]));
  StringOptions options;
  if (!parse_options(call, 3, true, options)) return;
  int64_t expiry = no_expiry;
  if (options.time && !parse_expiry(call, options.time_argument, *options.time, &expiry)) return;
  call.answer(options.get ? encode_value : encode_set,
              call.batch().put(call[1], call[2], options.put, expiry));
}

void setnx(Call& call) {
  call.answer(encode_success, call.batch().put(call[1], call[2], option::if_absent));
}

void setex(Call& call) { set_with_expiry(call, {.seconds = true, .relative = true}); }
void psetex(Call& call) { set_with_expiry(call, {.seconds = false, .relative = true}); }

void getset(Call& call) {
  call.answer(encode_value, call.batch().put(call[1], call[2], option::want_previous));
}

void getdel(Call& call) {
  call.answer(encode_value, call.batch().erase(call[1], option::want_previous));
}

void getex(Call& call) {
  StringOptions options;
  if (!parse_options(call, 2, false, options)) return;
  int64_t expiry = no_expiry;
  if (options.time) {
    // A missing key is answered before a bad amount.
    std::string fault = expiry_fault(call, options.time_argument, *options.time, &expiry);
    if (!fault.empty()) {
      const Batch::Row row = call.batch().get(call[1], option::no_value);
      return call.answer_owned(encode_fault_if_found, std::move(fault), row);
    }
  }
  const bool changes = options.time || options.persist;
  call.answer(encode_value,
              changes ? call.batch().expire(call[1], expiry) : call.batch().get(call[1]));
}

void mget(Call& call) {
  const Arguments keys = call.arguments.subspan(1);
  const Batch::Row first = call.batch().get_all(keys);
  call.batch().view(first);
  call.answer(encode_values, first, static_cast<uint32_t>(keys.size()));
}

void mset(Call& call) {
  if (call.size() % 2 == 0) return call.wrong_arity();
  Batch& batch = call.batch();
  const Batch::Row first = batch.size();
  const Engine& engine = call.turn.server.engine;
  if (engine.maxmemory() != 0 && engine.policy() == EvictionPolicy::noeviction) {
    all_or_none(batch, static_cast<Batch::Row>(call.size() / 2));
  }
  for (size_t i = 1; i < call.size(); i += 2) batch.put(call[i], call[i + 1]);
  batch.group(first);
  call.answer(encode_mset, first, batch.size() - first);
}

void incr(Call& call) { increment(call, 1); }
void decr(Call& call) { increment(call, -1); }

void incrby(Call& call) {
  int64_t delta = 0;
  if (call.integer(2, &delta)) increment(call, delta);
}

void decrby(Call& call) {
  int64_t delta = 0;
  if (!call.integer(2, &delta)) return;
  if (delta == std::numeric_limits<int64_t>::min()) {
    return call.error("ERR decrement would overflow");
  }
  increment(call, -delta);
}

void append(Call& call) {
  call.copies();
  call.answer(encode_number, call.batch().append(call[1], call[2]));
}

void strlen(Call& call) { call.answer(encode_size, call.batch().get(call[1], option::no_value)); }

}  // namespace handlers
}  // namespace isotherm::net
