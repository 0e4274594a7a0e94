// Commands about the server as a whole that have no family of their own.

#include <string>

#include "net/resp/handlers.h"
#include "net/server_state.h"
#include "net/text.h"
#include "net/version.h"

namespace isotherm::net {
namespace {

void encode_time(const Answer& answer, const AnswerSource&, RespWriter& writer) {
  writer.array(2);
  writer.bulk_integer(answer.number / 1'000'000);
  writer.bulk_integer(answer.number % 1'000'000);
}

void encode_role(const Answer&, const AnswerSource&, RespWriter& writer) {
  writer.array(3);
  writer.bulk("master");
  writer.integer(0);
  writer.array(0);
}

// A key's share of the index: a slot of a line (docs/layout.md).
constexpr int64_t slot_bytes = 16;

void encode_memory_usage(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Reply& reply = source.batch.reply(answer.first_row);
  const Status status = reply.status.load(std::memory_order_acquire);
  if (write_failure(status, writer)) return;
  if (status != Status::ok) return writer.null();
  writer.integer(reply.number + slot_bytes);
}

void run_info(Alone& alone) {
  const Arguments sections = alone.arguments.subspan(1);
  alone.writer.verbatim("txt", info_text(alone.turn.server, sections));
}

}  // namespace

namespace handlers {

void info(Call& call) { call.run_alone(run_info); }

void time(Call& call) { call.answer(encode_time, 0, 0, call.turn.server.clock.now_us()); }

// There are no replicas.
void role(Call& call) { call.answer(encode_role, 0, 0); }

// Waiting for replicas that cannot come would end with the same answer.
void wait(Call& call) {
  int64_t replicas = 0, wait_ms = 0;
  if (!call.integer(1, &replicas) || !parse_wait_ms(call, 2, &wait_ms)) return;
  call.answer(encode_integer, 0, 0, 0);
}

void bgrewriteaof(Call& call) {
  Journal* const journal = call.turn.server.journal;
  if (journal == nullptr) return call.error("ERR the journal is chosen at start: --appendonly");
  if (!journal->rewrite_job().ask()) {
    return call.error("ERR Background append only file rewriting already in progress");
  }
  call.answer_raw("+Background append only file rewriting started\r\n");
}

void memory_purge(Call& call) {
  ResidentMemory::give_back_free();
  call.ok();
}

// Values are of one piece, so their memory does not depend on SAMPLES.
void memory_usage(Call& call) {
  for (size_t i = 3; i < call.size(); i += 2) {
    int64_t samples = 0;
    if (!equals_ignoring_case(call[i], "samples") || i + 1 == call.size()) {
      return call.syntax_error();
    }
    if (!call.integer(i + 1, &samples)) return;
    if (samples < 0) return call.syntax_error();
  }
  const Batch::Row row = call.batch().get(call[2], looks_on | option::with_bytes);
  call.answer(encode_memory_usage, row);
}

// None can be loaded.
void module_list(Call& call) { call.answer_raw("*0\r\n"); }

void lolwut(Call& call) {
  call.answer_owned(encode_verbatim, "Redis ver. " + std::string(redis_version) + "\n");
}

void refuse_cluster(Call& call) { call.error("ERR This instance has cluster support disabled"); }

}  // namespace handlers
}  // namespace isotherm::net
