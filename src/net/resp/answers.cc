
#include "net/resp/handlers.h"
#include "net/resp/refusals.h"

namespace isotherm::net {

bool write_error_of(Status status, RespWriter& writer) {
  switch (status) {
    case Status::ok:
    case Status::not_found:
    case Status::condition_failed:
      return false;
    case Status::wrong_type:
      writer.error("WRONGTYPE Operation against a key holding the wrong kind of value");
      return true;
    case Status::not_an_integer:
      writer.error("ERR value is not an integer or out of range");
      return true;
    case Status::overflow:
      writer.error("ERR increment or decrement would overflow");
      return true;
    case Status::not_a_float:
      writer.error("ERR value is not a valid float");
      return true;
    case Status::not_finite:
      writer.error("ERR increment would produce NaN or Infinity");
      return true;
    case Status::too_large:
      writer.error("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
      return true;
    case Status::out_of_memory:
      writer.error("OOM command not allowed when used memory > 'maxmemory'.");
      return true;
    case Status::retry:
      writer.error("TRYAGAIN a queue of the store is full for the moment");
      return true;
    case Status::not_saved:
      // Of those that could not be written protocol.cc tells.
      writer.error(unreadable);
      return true;
    case Status::pending:
    case Status::invalid:
      break;
  }
  writer.error("ERR the store could not run the request");
  return true;
}

std::string_view type_name(ValueType type) {
  switch (type) {
    case ValueType::string:
      return "string";
    case ValueType::list:
      return "list";
    case ValueType::set:
      return "set";
    case ValueType::zset:
      return "zset";
    case ValueType::hash:
      return "hash";
    case ValueType::stream:
      return "stream";
    case ValueType::none:
      break;
  }
  return "none";
}

void encode_raw(const Answer& answer, const AnswerSource&, RespWriter& writer) {
  writer.raw(answer.text);
}

void encode_bulk_text(const Answer& answer, const AnswerSource&, RespWriter& writer) {
  writer.bulk(answer.text);
}

void encode_verbatim(const Answer& answer, const AnswerSource&, RespWriter& writer) {
  writer.verbatim("txt", answer.text);
}

void encode_integer(const Answer& answer, const AnswerSource&, RespWriter& writer) {
  writer.integer(answer.number);
}

void encode_value(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Reply& reply = source.batch.reply(answer.first_row);
  const Status status = reply.status.load(std::memory_order_acquire);
  if (write_failure(status, writer)) return;
  if (reply.data == nullptr) return writer.null();
  writer.bulk(reply);
}

void encode_success(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Status status = source.batch.reply(answer.first_row).status.load(std::memory_order_acquire);
  if (!write_failure(status, writer)) writer.integer(status == Status::ok ? 1 : 0);
}

void encode_count(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  int64_t count = 0;
  for (Batch::Row row = answer.first_row; row < answer.first_row + answer.rows; ++row) {
    const Status status = source.batch.reply(row).status.load(std::memory_order_acquire);
    if (write_failure(status, writer)) return;
    if (status == Status::ok) ++count;
  }
  writer.integer(count);
}

void encode_ok(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Reply* const first = &source.batch.reply(answer.first_row);
  for (const Reply* reply = first; reply != first + answer.rows; ++reply) {
    if (write_failure(reply->status.load(std::memory_order_acquire), writer)) return;
  }
  writer.ok();
}

void encode_number(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Reply& reply = source.batch.reply(answer.first_row);
  if (write_failure(reply.status.load(std::memory_order_acquire), writer)) return;
  writer.integer(reply.number);
}

}  // namespace isotherm::net
