#include <algorithm>
#include <limits>
#include <string>

#include "net/resp/handlers.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

void encode_type(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Reply& reply = source.batch.reply(answer.first_row);
  const Status status = reply.status.load(std::memory_order_acquire);
  if (write_failure(status, writer)) return;
  writer.simple(status == Status::ok ? type_name(reply.type) : "none");
}

// What the four commands that read an expiry make of it; the answer's number holds the bits.
constexpr int64_t in_seconds = 1;
constexpr int64_t as_remaining = 2;

void encode_expiry(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Reply& reply = source.batch.reply(answer.first_row);
  const Status status = reply.status.load(std::memory_order_acquire);
  if (write_failure(status, writer)) return;
  if (status != Status::ok) return writer.integer(-2);
  if (reply.expiry == no_expiry) return writer.integer(-1);
  int64_t time = reply.expiry;
  if (answer.number & as_remaining) time = std::max<int64_t>(time - source.now_ms, 0);
  // Rounded; unsigned, because the latest expiry has no room for it.
  if (answer.number & in_seconds)
    time = static_cast<int64_t>((static_cast<uint64_t>(time) + 500) / 1000);
  writer.integer(time);
}

void read_expiry(Call& call, int64_t form) {
  const Batch::Row row = call.batch().get(call[1], looks_on);
  call.answer(encode_expiry, row, 1, form);
}

bool parse_expire_conditions(Call& call, uint16_t* options) {
  constexpr uint16_t nx = option::expire_if_none, xx = option::expire_if_any,
                     gt = option::expire_if_greater, lt = option::expire_if_less;
  for (size_t i = 3; i < call.size(); ++i) {
    const std::string_view word = call[i];
    if (equals_ignoring_case(word, "nx")) {
      *options |= nx;
    } else if (equals_ignoring_case(word, "xx")) {
      *options |= xx;
    } else if (equals_ignoring_case(word, "gt")) {
      *options |= gt;
    } else if (equals_ignoring_case(word, "lt")) {
      *options |= lt;
    } else {
      call.error("ERR Unsupported option " + std::string(word.substr(0, word.find('\0'))));
      return false;
    }
  }
  if ((*options & nx) && (*options & (xx | gt | lt))) {
    call.error("ERR NX and XX, GT or LT options at the same time are not compatible");
    return false;
  }
  if ((*options & gt) && (*options & lt)) {
    call.error("ERR GT and LT options at the same time are not compatible");
    return false;
  }
  return true;
}

// Unlike SET's, these times may lie in the past: the key then ceases to exist.
void set_expiry(Call& call, TimeForm form) {
  constexpr int64_t max = std::numeric_limits<int64_t>::max();
  constexpr int64_t min = std::numeric_limits<int64_t>::min();
  uint16_t options = option::any_type | option::no_value;
  int64_t time = 0;
  if (!parse_expire_conditions(call, &options) || !call.integer(2, &time)) return;
  const int64_t unit = form.seconds ? 1000 : 1;
  const int64_t base = form.relative ? call.turn.now_ms() : 0;
  if (time > max / unit || time < min / unit || time * unit > max - base) {
    return call.error("ERR invalid expire time in '" + std::string(call.command.name) +
                      "' command");
  }
  // 0 would mean no expiry; every time before the present means the same.
  const int64_t expiry = std::max<int64_t>(time * unit + base, 1);
  call.answer(encode_success, call.batch().expire(call[1], expiry, options));
}

// One row a key; the answer counts those that succeeded. The first row.
template <typename Append>
Batch::Row count_keys(Call& call, Append append) {
  const Batch::Row first = call.batch().size();
  for (const std::string_view key : call.arguments.subspan(1)) append(call.batch(), key);
  call.answer(encode_count, first, call.batch().size() - first);
  return first;
}

bool has_several_keys(const Call& call) { return call.size() > 2; }

}  // namespace

namespace handlers {

void del(Call& call) {
  const Batch::Row first =
      count_keys(call, [](Batch& batch, std::string_view key) { batch.erase(key); });
  if (has_several_keys(call)) call.batch().group(first);
}

void exists(Call& call) {
  const Batch::Row first = count_keys(call, [](Batch& batch, std::string_view key) {
    batch.get(key, option::any_type | option::no_value);
  });
  if (has_several_keys(call)) call.batch().view(first);
}

void touch(Call& call) { exists(call); }

void expire(Call& call) { set_expiry(call, {.seconds = true, .relative = true}); }
void pexpire(Call& call) { set_expiry(call, {.seconds = false, .relative = true}); }
void expireat(Call& call) { set_expiry(call, {.seconds = true, .relative = false}); }
void pexpireat(Call& call) { set_expiry(call, {.seconds = false, .relative = false}); }

void ttl(Call& call) { read_expiry(call, in_seconds | as_remaining); }
void pttl(Call& call) { read_expiry(call, as_remaining); }
void expiretime(Call& call) { read_expiry(call, in_seconds); }
void pexpiretime(Call& call) { read_expiry(call, 0); }

void persist(Call& call) {
  constexpr uint16_t options = option::expire_if_any | option::any_type | option::no_value;
  call.answer(encode_success, call.batch().expire(call[1], no_expiry, options));
}

void type(Call& call) { call.answer(encode_type, call.batch().get(call[1], looks_on)); }

}  // namespace handlers

}  // namespace isotherm::net
