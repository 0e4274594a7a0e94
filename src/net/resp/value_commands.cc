// OBJECT, DUMP and RESTORE: how values are kept, and values as bytes that other servers read.

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "isotherm/object.h"
#include "net/resp/handlers.h"
#include "net/resp/rdb_value.h"
#include "net/server_state.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

// ---- OBJECT ----

// Redis keeps a value of at most so many bytes in the same piece of memory as its object.
constexpr size_t longest_embedded = 44;
// Redis has one object for all values that are the same small number, and says so.
constexpr int64_t shared_integers = 10'000;
constexpr int64_t shared_count = std::numeric_limits<int32_t>::max();

// Writes the error, or null where there is no key, and returns true; false: the key was found.
bool write_unless_found(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Status status = source.batch.reply(answer.first_row).status.load(std::memory_order_acquire);
  if (write_failure(status, writer)) return true;
  if (status == Status::ok) return false;
  writer.null();
  return true;
}

// A long value is no integer, and its bytes may be on a GPU.
std::optional<int64_t> integer_of(const Reply& reply) {
  return reply.size <= longest_embedded && reply.data != nullptr ? parse_integer(reply.value())
                                                                 : std::nullopt;
}

void encode_encoding(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  if (write_unless_found(answer, source, writer)) return;
  const Reply& reply = source.batch.reply(answer.first_row);
  if (const Object* object = reply.object()) {
    return writer.bulk(object->look([](const Object& it) { return it.encoding(); }));
  }
  writer.bulk(integer_of(reply) ? "int" : reply.size <= longest_embedded ? "embstr" : "raw");
}

// The answer's number: whether small numbers are shared.
void encode_refcount(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  if (write_unless_found(answer, source, writer)) return;
  const auto number = integer_of(source.batch.reply(answer.first_row));
  const bool shared = answer.number != 0 && number && *number >= 0 && *number < shared_integers;
  writer.integer(shared ? shared_count : 1);
}

void encode_idletime(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  if (!write_unless_found(answer, source, writer)) writer.integer(0);
}

void answer_object(Call& call, Encode encode, int64_t number = 0) {
  const Batch::Row row = call.batch().get(call[2], looks_on);
  call.answer(encode, row, 1, number);
}

// ---- DUMP and RESTORE ----

void encode_dump(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  if (write_unless_found(answer, source, writer)) return;
  const Dump dump = dump_value(source.batch.reply(answer.first_row).value());
  writer.bulk_head(dump.size());
  writer.raw(dump.head);
  writer.raw(dump.body());
  writer.raw(dump.foot);
  writer.raw("\r\n");
}

constexpr std::string_view busy_key = "-BUSYKEY Target key name already exists.\r\n";

void encode_restore(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Status status = source.batch.reply(answer.first_row).status.load(std::memory_order_acquire);
  if (write_failure(status, writer)) return;
  status == Status::condition_failed ? writer.error(busy_key.substr(1)) : writer.ok();
}

struct RestoreOptions {
  bool replaces = false;
  bool absolute = false;
};

// The idle time and the frequency are checked, but not kept: nothing here counts them.
bool parse_restore(Call& call, RestoreOptions& options) {
  bool has_idle = false;
  bool has_frequency = false;
  for (size_t i = 4; i < call.size(); ++i) {
    const bool more = i + 1 < call.size();
    int64_t number = 0;
    if (equals_ignoring_case(call[i], "replace")) {
      options.replaces = true;
    } else if (equals_ignoring_case(call[i], "absttl")) {
      options.absolute = true;
    } else if (equals_ignoring_case(call[i], "idletime") && more && !has_frequency) {
      if (!call.integer(++i, &number)) return false;
      if (number < 0) return call.error("ERR Invalid IDLETIME value, must be >= 0"), false;
      has_idle = true;
    } else if (equals_ignoring_case(call[i], "freq") && more && !has_idle) {
      if (!call.integer(++i, &number)) return false;
      if (number < 0 || number > 255) {
        return call.error("ERR Invalid FREQ value, must be >= 0 and <= 255"), false;
      }
      has_frequency = true;
    } else {
      return call.syntax_error(), false;
    }
  }
  return true;
}

struct Restoration {
  std::string made;  // memory of the value, where the payload does not hold it as it is
  std::string_view value;
  int64_t time = 0;
};

// The fault of time or payload, or null.
const char* parse_restoration(const Call& call, Restoration& parsed) {
  const auto time = parse_integer(call[2]);
  if (!time) return "ERR value is not an integer or out of range";
  if (*time < 0) return "ERR Invalid TTL value, must be >= 0";
  parsed.time = *time;
  const uint64_t most = call.turn.server.live.proto_max_bulk_len;
  switch (restore_value(call[3], most, parsed.made, parsed.value)) {
    case Restored::unverified:
      return "ERR DUMP payload version or checksum are wrong";
    case Restored::malformed:
      return "ERR Bad data format";
    case Restored::ok:
      break;
  }
  return nullptr;
}

// A key that is there is named before any other fault, unless it is to be replaced.
void answer_unless_busy(Call& call, bool replaces, const std::string& otherwise) {
  const Batch::Row row = call.batch().get(call[1], option::any_type | option::no_value);
  call.answer_by_presence(row, replaces ? std::string_view(otherwise) : busy_key, otherwise);
}

}  // namespace

namespace handlers {

void object_encoding(Call& call) { answer_object(call, encode_encoding); }
void object_idletime(Call& call) { answer_object(call, encode_idletime); }

void object_refcount(Call& call) {
  const Engine& engine = call.turn.server.engine;
  const EvictionPolicy policy = engine.policy();
  const bool by_use =
      policy == EvictionPolicy::allkeys_lru || policy == EvictionPolicy::volatile_lru;
  answer_object(call, encode_refcount, engine.maxmemory() == 0 || !by_use ? 1 : 0);
}

// No policy counts how often keys are used.
void object_freq(Call& call) {
  const Batch::Row row = call.batch().get(call[2], looks_on);
  call.answer_by_presence(
      row,
      "-ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note "
      "that when switching between policies at runtime LRU and LFU data will take some time to "
      "adjust.\r\n",
      call.session.version >= 3 ? "_\r\n" : "$-1\r\n");
}

void dump(Call& call) { call.answer(encode_dump, call.batch().get(call[1])); }

void restore(Call& call) {
  RestoreOptions options;
  if (!parse_restore(call, options)) return;
  Restoration parsed;
  if (const char* fault = parse_restoration(call, parsed)) {
    return answer_unless_busy(call, options.replaces, "-" + std::string(fault) + "\r\n");
  }
  int64_t expiry = parsed.time;
  if (expiry != 0 && !options.absolute &&
      __builtin_add_overflow(expiry, call.turn.now_ms(), &expiry)) {
    // As Redis adds, which makes it a time long ago.
    expiry = 1;
  }
  if (expiry != no_expiry && expiry <= call.turn.now_ms()) {
    if (!options.replaces) return answer_unless_busy(call, false, "+OK\r\n");
    return call.answer(encode_restore, call.batch().erase(call[1]));
  }
  if (!parsed.made.empty()) {
    parsed.value = call.keep(std::move(parsed.made));
  }
  const uint16_t put = options.replaces ? 0 : option::if_absent;
  call.answer(encode_restore, call.batch().put(call[1], parsed.value, put, expiry));
}

}  // namespace handlers
}  // namespace isotherm::net
