// Commands of several keys that take effect together: groups of rows with guards between them
// (isotherm/batch.h).

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "isotherm/object.h"
#include "net/resp/handlers.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

bool succeeded(const Batch& batch, Batch::Row row) {
  return batch.reply(row).status.load(std::memory_order_acquire) == Status::ok;
}

bool write_failure_of(const Batch& batch, Batch::Row row, RespWriter& writer) {
  return write_failure(batch.reply(row).status.load(std::memory_order_acquire), writer);
}

// ---- One value goes from key to key: get │ put │ erase, without the last for COPY ----

struct Transfer {
  std::string_view from;
  std::string_view to;
  uint32_t from_database;
  uint32_t to_database;
  uint16_t put;  // options
  bool erases;
};

struct Copying {
  CopyRation* ration;  // of the loop
  std::unique_ptr<Object> object;
};

// The put becomes one of a copy of the object.
void fill_with_object(Batch& batch, Batch::Row row, const Object& found, Copying& copying) {
  copying.object = found.look([](const Object& it) { return it.copy(); });
  copying.ration->note(found.counted());
  batch.columns().op[row] = Op::put_object;
  batch.columns().value[row] = {reinterpret_cast<const char*>(&copying.object),
                                sizeof copying.object};
}

// Before the put, which stores what the get found.
void fill_put(Batch& batch, Batch::Row row, void* context) {
  if (!succeeded(batch, row - 1)) return batch.cancel(row, row + 1);
  auto& copying = *static_cast<Copying*>(context);
  const Reply& found = batch.reply(row - 1);
  if (const Object* object = found.object()) {
    fill_with_object(batch, row, *object, copying);
  } else {
    batch.columns().value[row] = found.value();
    copying.ration->note(found.value().size());
  }
  batch.columns().expiry[row] = found.expiry;
  batch.columns().flags[row] = found.flags;
}

// Before the erase.
void keep_unless_put(Batch& batch, Batch::Row row, void* /*context*/) {
  if (!succeeded(batch, row - 1)) batch.cancel(row, row + 1);
}

// The first row: of the get.
Batch::Row append_transfer(Call& call, const Transfer& transfer) {
  Batch& batch = call.batch();
  batch.select(transfer.from_database);
  const Batch::Row first = batch.get(transfer.from, option::any_type);
  batch.guard(fill_put, &call.keep(Copying{&call.turn.copies, nullptr}), first);
  call.copies();
  batch.select(transfer.to_database);
  batch.put(transfer.to, {}, static_cast<uint16_t>(transfer.put | option::any_length));
  batch.select(transfer.from_database);
  if (transfer.erases) {
    batch.guard(keep_unless_put, nullptr, first);
    batch.erase(transfer.from);
  }
  batch.select(call.session.database);
  batch.group(first);
  return first;
}

// 1 where the value was stored at its new key, else 0.
void encode_transfer(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Batch::Row row = answer.first_row;
  if (write_failure_of(source.batch, row, writer)) return;
  if (write_failure_of(source.batch, row + 1, writer)) return;
  writer.integer(succeeded(source.batch, row + 1) ? 1 : 0);
}

void encode_rename(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Batch::Row row = answer.first_row;
  if (write_failure_of(source.batch, row, writer)) return;
  if (!succeeded(source.batch, row)) return writer.error("ERR no such key");
  const bool replaces = answer.number != 0;
  replaces ? encode_ok(answer, source, writer) : encode_transfer(answer, source, writer);
}

void rename_key(Call& call, bool replaces) {
  if (call[1] == call[2]) {
    const Batch::Row row = call.batch().get(call[1], option::any_type | option::no_value);
    return call.answer_by_presence(row, replaces ? "+OK\r\n" : ":0\r\n", "-ERR no such key\r\n");
  }
  const auto put = static_cast<uint16_t>(option::over_cap | (replaces ? 0 : option::if_absent));
  const uint32_t database = call.session.database;
  const Batch::Row row = append_transfer(call, {call[1], call[2], database, database, put, true});
  call.answer(encode_rename, row, 2, replaces ? 1 : 0);
}

void answer_same_object(Call& call) {
  call.error("ERR source and destination objects are the same");
}

// ---- MSETNX: gets │ puts │ erases of what was put, where a put failed ----

// A third of the command's rows is of one kind; the context is their number.
Batch::Row third(void* context) { return *static_cast<Batch::Row*>(context); }

void cancel_if_any_is_there(Batch& batch, Batch::Row row, void* context) {
  const Batch::Row count = third(context);
  for (Batch::Row i = row - count; i < row; ++i) {
    const Status status = batch.reply(i).status.load(std::memory_order_acquire);
    if (status != Status::not_found) return batch.cancel(row, row + 2 * count);
  }
}

void cancel_if_all_were_put(Batch& batch, Batch::Row row, void* context) {
  const Batch::Row count = third(context);
  for (Batch::Row i = row - count; i < row; ++i) {
    if (!succeeded(batch, i)) return;
  }
  batch.cancel(row, row + count);
}

void encode_msetnx(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Batch::Row end = answer.first_row + answer.rows;
  for (Batch::Row row = answer.first_row; row < end; ++row) {
    if (write_failure_of(source.batch, row, writer)) return;
  }
  writer.integer(succeeded(source.batch, end - 1) ? 1 : 0);
}

// ---- BITOP: gets │ put ----

enum class BitOperation : uint8_t { conjunction, disjunction, exclusion, negation };

struct BitJob {
  BitOperation operation;
  Batch::Row sources;  // how many rows of them there are
  std::string result;
  CopyRation* copies;  // of the loop
};

// Values count as followed by zeros up to the length of the longest.
void combine(BitOperation operation, std::string_view source, std::string& result) {
  char* const to = result.data();
  const size_t size = source.size();
  switch (operation) {
    case BitOperation::conjunction:
      for (size_t i = 0; i < size; ++i) to[i] &= source[i];
      std::fill(to + size, to + result.size(), '\0');
      break;
    case BitOperation::disjunction:
      for (size_t i = 0; i < size; ++i) to[i] |= source[i];
      break;
    case BitOperation::exclusion:
      for (size_t i = 0; i < size; ++i) to[i] ^= source[i];
      break;
    case BitOperation::negation:
      for (size_t i = 0; i < size; ++i) to[i] = static_cast<char>(~source[i]);
      break;
  }
}

void fill_bitop(Batch& batch, Batch::Row row, void* context) {
  auto& job = *static_cast<BitJob*>(context);
  const Batch::Row first = row - job.sources;
  size_t longest = 0;
  for (Batch::Row i = first; i < row; ++i) {
    const Status status = batch.reply(i).status.load(std::memory_order_acquire);
    if (status != Status::ok && status != Status::not_found) return batch.cancel(row, row + 1);
    longest = std::max<size_t>(longest, batch.reply(i).value().size());
  }
  job.result = batch.reply(first).value();
  job.result.resize(longest);
  const Batch::Row begin = job.operation == BitOperation::negation ? first : first + 1;
  for (Batch::Row i = begin; i < row; ++i) {
    combine(job.operation, batch.reply(i).value(), job.result);
  }
  job.copies->note(2 * longest);
  // An empty result is not stored.
  if (longest == 0) batch.columns().op[row] = Op::erase;
  batch.columns().value[row] = job.result;
}

void encode_bitop(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Batch::Row put = answer.first_row + answer.rows - 1;
  for (Batch::Row row = answer.first_row; row <= put; ++row) {
    if (write_failure_of(source.batch, row, writer)) return;
  }
  writer.integer(static_cast<int64_t>(source.batch.columns().value[put].size()));
}

}  // namespace

namespace handlers {

void rename(Call& call) { rename_key(call, true); }
void renamenx(Call& call) { rename_key(call, false); }

void copy(Call& call) {
  bool replaces = false;
  uint32_t database = call.session.database;
  for (size_t i = 3; i < call.size(); ++i) {
    if (equals_ignoring_case(call[i], "replace")) {
      replaces = true;
    } else if (equals_ignoring_case(call[i], "db") && i + 1 < call.size()) {
      if (!parse_database(call, ++i, &database)) return;
    } else {
      return call.syntax_error();
    }
  }
  if (database == call.session.database && call[1] == call[2]) return answer_same_object(call);
  const uint16_t put = replaces ? 0 : option::if_absent;
  const Batch::Row row =
      append_transfer(call, {call[1], call[2], call.session.database, database, put, false});
  call.answer(encode_transfer, row, 2);
}

void move(Call& call) {
  uint32_t database = 0;
  if (!parse_database(call, 2, &database)) return;
  if (database == call.session.database) return answer_same_object(call);
  const auto put = static_cast<uint16_t>(option::over_cap | option::if_absent);
  const Batch::Row row =
      append_transfer(call, {call[1], call[1], call.session.database, database, put, true});
  call.answer(encode_transfer, row, 2);
}

void msetnx(Call& call) {
  if (call.size() % 2 == 0) return call.wrong_arity();
  Batch& batch = call.batch();
  auto& count = call.keep(static_cast<Batch::Row>(call.size() / 2));
  const Batch::Row begin = batch.size();
  for (size_t i = 1; i < call.size(); i += 2)
    batch.get(call[i], option::any_type | option::no_value);
  batch.guard(cancel_if_any_is_there, &count, begin);
  const Batch::Row first = batch.size();
  for (size_t i = 1; i < call.size(); i += 2) batch.put(call[i], call[i + 1]);
  batch.guard(cancel_if_all_were_put, &count, begin);
  for (size_t i = 1; i < call.size(); i += 2) batch.erase(call[i]);
  batch.group(begin);
  call.answer(encode_msetnx, first, count);
}

void bitop(Call& call) {
  BitJob job{};
  if (equals_ignoring_case(call[1], "and")) {
    job.operation = BitOperation::conjunction;
  } else if (equals_ignoring_case(call[1], "or")) {
    job.operation = BitOperation::disjunction;
  } else if (equals_ignoring_case(call[1], "xor")) {
    job.operation = BitOperation::exclusion;
  } else if (equals_ignoring_case(call[1], "not")) {
    job.operation = BitOperation::negation;
  } else {
    return call.syntax_error();
  }
  if (job.operation == BitOperation::negation && call.size() != 4) {
    return call.error("ERR BITOP NOT must be called with a single source key.");
  }
  job.sources = static_cast<Batch::Row>(call.size() - 3);
  job.copies = &call.turn.copies;
  call.copies();
  BitJob& kept = call.keep(std::move(job));
  const Batch::Row first = call.batch().size();
  for (const std::string_view key : call.arguments.subspan(3)) call.batch().get(key);
  call.batch().guard(fill_bitop, &kept, first);
  call.batch().put(call[2], {}, option::any_length);
  call.batch().group(first);
  call.answer(encode_bitop, first, kept.sources + 1);
}

}  // namespace handlers
}  // namespace isotherm::net
