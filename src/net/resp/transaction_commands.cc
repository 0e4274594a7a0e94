// MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//
// EXEC is one group of rows (isotherm/batch.h):
//   gets of the watched keys │ guard: cancel the rest if one has changed │ rows of the commands
// The answers of the commands belong to EXEC's own, which writes them all, or null.
//
// What touches no key (SELECT, HELLO, CLIENT, CONFIG, INFO, …) acts on the connection or the server
// when it is handled, so it is handled when EXEC is answered: it must not act where a key has
// changed. Among the rows only SELECT shows before. The connection parses nothing more until then.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "isotherm/batch.h"
#include "net/output.h"
#include "net/resp/handlers.h"
#include "net/resp/slow_answers.h"
#include "net/resp/transaction.h"
#include "net/server_state.h"

namespace isotherm::net {
namespace {

Transaction& transaction_of(Session& session) {
  if (session.transaction == nullptr) session.transaction = std::make_shared<Transaction>();
  session.unusual = true;
  return *session.transaction;
}

// ---- WATCH ----

struct Watching {
  Watching(std::shared_ptr<Transaction> its, Turn& in) : transaction(std::move(its)), turn(&in) {
    transaction->begin_watch();
  }
  Watching(Watching&&) = default;
  ~Watching() {
    if (transaction != nullptr) transaction->end_watch();
  }

  std::shared_ptr<Transaction> transaction;
  Turn* turn;
  std::vector<Transaction::Seen*> seen;  // of the rows
};

// Looks by EXEC and WATCH are no uses of a key.
void uncount(Turn& turn, const Batch& batch, Batch::Row first, Batch::Row end) {
  turn.worker.uncount_reads(batch, first, end);
}

void encode_watch(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  auto& watching = *reinterpret_cast<Watching*>(answer.number);
  uncount(*watching.turn, source.batch, answer.first_row, answer.first_row + answer.rows);
  for (uint32_t i = 0; i < answer.rows; ++i) {
    const Reply& reply = source.batch.reply(answer.first_row + i);
    const Status status = reply.status.load(std::memory_order_acquire);
    if (write_failure(status, writer)) return;
    const bool there = status == Status::ok;
    *watching.seen[i] = {true, there ? reply.version : 0, there ? reply.expiry : no_expiry};
  }
  writer.ok();
}

// ---- EXEC ----

struct Execution {
  Execution(std::shared_ptr<Transaction> its, Call& call)
      : transaction(std::move(its)), turn(&call.turn), session(&call.session) {}

  std::shared_ptr<Transaction> transaction;
  Turn* turn;
  Session* session;
  AnswerQueue queue;  // an answer a command; without an encoder where it is handled later
  bool any_later = false;
  bool muted = false;  // EXEC's own answer
  // The gets of the watched keys; then rows of the commands, of which the answer waits for all.
  Batch::Row first = 0;
  Batch::Row watched_end = 0;
  Batch::Row commands = 0;
  Batch::Row end = 0;
};

// The get of a watched key has its version and expiry noted.
bool is_unchanged(const Batch& batch, Batch::Row row) {
  const Reply& reply = batch.reply(row);
  const auto version = static_cast<uint64_t>(batch.columns().number[row]);
  const Status status = reply.status.load(std::memory_order_acquire);
  if (status == Status::not_found) return version == 0;
  return status == Status::ok && reply.version == version &&
         reply.expiry == batch.columns().expiry[row];
}

bool are_unchanged(const Batch& batch, const Execution& execution) {
  for (Batch::Row row = execution.first; row < execution.watched_end; ++row) {
    if (!is_unchanged(batch, row)) return false;
  }
  return true;
}

void cancel_if_changed(Batch& batch, Batch::Row row, void* context) {
  const auto& execution = *static_cast<Execution*>(context);
  if (!are_unchanged(batch, execution)) batch.cancel(row, execution.end);
}

// A key that WATCH could not see counts as changed: no item has this version.
constexpr uint64_t unknown_version = ~uint64_t{0};

void append_watched(Execution& execution, Batch& batch) {
  for (const auto& watched : execution.transaction->watched()) {
    const Transaction::Seen& seen = watched.second;
    batch.select(Transaction::database_of(watched));
    const Batch::Row row = batch.get(Transaction::key_of(watched), looks_on);
    batch.note(row, static_cast<int64_t>(seen.known ? seen.version : unknown_version), seen.expiry);
  }
  execution.watched_end = batch.size();
  if (batch.size() != execution.first) batch.guard(cancel_if_changed, &execution, execution.first);
}

bool is_handled_later(const Command& command) {
  return (command.flags & (command_flag::write | command_flag::readonly)) == 0;
}

Call call_of(const Transaction::Queued& queued, Execution& execution, AnswerQueue& queue) {
  queue.origin = {queued.command.number};
  return {*queued.command.command, queued.words, *execution.turn, *execution.session, queue};
}

// Whether a look at the watched keys says already that EXEC is going to be null. Rows that have not
// run yet may only change them once more. Worth it where there is much that would be run in vain.
bool has_failed(const Transaction& transaction, Worker& worker) {
  constexpr size_t few_commands = 64;
  if (transaction.commands().size() <= few_commands) return false;
  const auto has_changed = [&](const Transaction::WatchedKeys::value_type& watched) {
    const Transaction::Seen& seen = watched.second;
    uint64_t version = 0;
    int64_t expiry = no_expiry;
    return seen.known &&
           worker.look_at_once(Transaction::database_of(watched), Transaction::key_of(watched),
                               version, expiry) &&
           (version != seen.version || expiry != seen.expiry);
  };
  const auto& watched = transaction.watched();
  return std::any_of(watched.begin(), watched.end(), has_changed);
}

void encode_null(const Answer&, const AnswerSource&, RespWriter& writer) { writer.null_array(); }

// Only the database that later rows belong to.
void select_for_rows(const Transaction::Queued& queued, Execution& execution) {
  AnswerQueue nowhere;
  Call call = call_of(queued, execution, nowhere);
  uint32_t database = 0;
  if (!parse_database(call, 1, &database)) return;
  execution.session->database = database;
  call.batch().select(database);
}

void append_commands(Execution& execution, Batch& batch) {
  Session& session = *execution.session;
  const uint32_t database = session.database;
  batch.select(database);
  AnswerQueue& queue = execution.queue;
  queue.grouped = true;
  for (const Transaction::Queued& queued : execution.transaction->commands()) {
    const Command& command = *queued.command.command;
    const size_t answers = queue.answers.size();
    if (is_handled_later(command)) {
      execution.any_later = true;
      if (command.handler == handlers::select) select_for_rows(queued, execution);
    } else {
      Call call = call_of(queued, execution, queue);
      command.handler(call);
    }
    queue.answers.resize(answers + 1);
  }
  session.database = database;
  batch.select(database);
}

// The answer takes the execution away, so it waits for a row behind the guard that looks at it.
void end_rows(Execution& execution, Batch& batch) {
  execution.commands = execution.watched_end;
  if (execution.watched_end == execution.first || batch.size() != execution.watched_end) return;
  execution.commands = batch.get({}, looks_on) + 1;
}

// Where nothing is handled later the session may have gone on by now.
void write_to(Output& output, const Answer& answer, const AnswerSource& source,
              Execution& execution) {
  RespWriter writer(output, execution.any_later ? execution.session->version : answer.version);
  answer.encode(answer, source, writer);
  const std::string_view code = writer.error_code();
  if (code.empty()) return;
  const bool rejected = answer.origin.rejected || code == "OOM";
  execution.turn->counters.by_command.note_error(answer.origin.command, code, rejected);
}

// Where an EXEC is left out, so are its commands' answers, until one of these says otherwise.
bool is_off(const Execution& execution) {
  if (!execution.any_later) return false;
  const Replies replies = execution.session->replies;
  return replies == Replies::off || (execution.muted && replies != Replies::on);
}

void write_answer(const Answer& answer, const AnswerSource& source, Execution& execution,
                  Output& output) {
  if (!answer.origin.muted && !is_off(execution)) {
    return write_to(output, answer, source, execution);
  }
  Output nowhere(&output.pool(), nullptr, true);
  write_to(nowhere, answer, source, execution);
}

void handle_now(const Transaction::Queued& queued, Execution& execution, const AnswerSource& source,
                Output& output) {
  AnswerQueue queue;
  Call call = call_of(queued, execution, queue);
  call.command.handler(call);
  if (queue.alone != nullptr) {
    Output nowhere(&output.pool(), nullptr, true);
    RespWriter writer(is_off(execution) ? nowhere : output, execution.session->version);
    Alone alone{call.arguments, call.turn, call.session, writer};
    queue.alone(alone);
  }
  for (const Answer& answer : queue.answers) write_answer(answer, source, execution, output);
  if (queue.closing) execution.session->ends = true;
}

void note_slow_ones(const Execution& execution) {
  if (!SlowAnswers::any(*execution.turn)) return;
  SlowAnswers slow(*execution.turn, execution.session->client);
  const auto& kept = execution.transaction->commands();
  for (size_t i = 0; i < kept.size(); ++i) {
    slow.note(*kept[i].command.command, execution.queue.answers[i], kept[i].words);
  }
}

void write_answers(Execution& execution, const AnswerSource& source, RespWriter& writer) {
  const auto& kept = execution.transaction->commands();
  CommandCounts::Notes notes(execution.turn->counters.by_command);
  writer.array(kept.size());
  Replies& replies = execution.session->replies;
  const bool may_speak = execution.muted && execution.any_later;
  Output& output = may_speak ? *source.output : writer.output();
  if (may_speak && replies == Replies::on) replies = Replies::silent;
  for (size_t i = 0; i < kept.size(); ++i) {
    const Answer& answer = execution.queue.answers[i];
    notes.note(kept[i].command.number, answer.rows);
    answer.encode != nullptr ? write_answer(answer, source, execution, output)
                             : handle_now(kept[i], execution, source, output);
  }
  note_slow_ones(execution);
  if (replies == Replies::silent) replies = Replies::on;
  notes.finish();
}

void encode_exec(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  auto& execution = *reinterpret_cast<Execution*>(answer.number);
  execution.muted = answer.origin.muted;
  const bool unchanged = are_unchanged(source.batch, execution);
  // Rows that were cancelled do not count.
  uncount(*execution.turn, source.batch, execution.first,
          unchanged ? execution.commands : execution.watched_end);
  unchanged ? write_answers(execution, source, writer) : writer.null_array();
}

// ---- DBSIZE between the rows of a group ----

struct Counting {
  const Engine* engine;
  KeyCount count;
};

// The row is there to be waited for. All keys are counted when those of the group are free again.
void begin_counting(Batch& batch, Batch::Row row, void* context) {
  auto& counting = *static_cast<Counting*>(context);
  counting.count = counting.engine->begin_count(batch.columns().database[row]);
  batch.cancel(row, row + 1);
}

void encode_counting(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  if (write_failure(source.batch.reply(answer.first_row).status, writer)) return;
  write_key_count(reinterpret_cast<const Counting*>(answer.number)->count(), writer);
}

}  // namespace

void count_between_rows(Call& call) {
  auto& counting =
      call.keep(Counting{&call.turn.server.engine, [] { return std::optional<uint64_t>(); }});
  call.batch().guard(begin_counting, &counting);
  call.answer(encode_counting, call.batch().get({}, looks_on), 1,
              reinterpret_cast<intptr_t>(&counting));
}

namespace handlers {

void multi(Call& call) {
  if (queues(call.session)) return call.error("ERR MULTI calls can not be nested");
  transaction_of(call.session).open();
  show_transaction(call.session);
  call.ok();
}

void discard(Call& call) {
  if (!queues(call.session)) return call.error("ERR DISCARD without MULTI");
  take_transaction(call.session);
  call.ok();
}

void watch(Call& call) {
  Session& session = call.session;
  if (queues(session)) return call.error("ERR WATCH inside MULTI is not allowed");
  transaction_of(session);
  auto& watching = call.keep(Watching(session.transaction, call.turn));
  const Batch::Row first = call.batch().size();
  for (const std::string_view key : call.arguments.subspan(1)) {
    auto* const watched = session.transaction->watch(session.database, key);
    if (watched == nullptr) continue;
    call.batch().get(Transaction::key_of(*watched), looks_on);
    watching.seen.push_back(&watched->second);
  }
  show_transaction(session);
  call.answer(encode_watch, first, call.batch().size() - first,
              reinterpret_cast<intptr_t>(&watching));
}

// In a transaction EXEC has forgotten them before.
void unwatch(Call& call) {
  if (!queues(call.session)) take_transaction(call.session);
  call.ok();
}

void exec(Call& call) {
  Session& session = call.session;
  if (!queues(session)) return call.error("ERR EXEC without MULTI");
  if (session.transaction->failed()) {
    take_transaction(session);
    return call.error("EXECABORT Transaction discarded because of previous errors.");
  }
  if (has_failed(*session.transaction, call.turn.worker)) {
    take_transaction(session);
    return call.answer_text(encode_null, {});
  }
  auto& execution = call.keep(Execution(std::move(session.transaction), call));
  Batch& batch = call.batch();
  execution.first = batch.size();
  append_watched(execution, batch);
  append_commands(execution, batch);
  end_rows(execution, batch);
  execution.end = batch.size();
  const bool guarded = execution.watched_end != execution.first;
  if (guarded || execution.end > execution.first + 1) batch.group(execution.first);
  if (execution.any_later || execution.queue.pausing) call.pause();
  call.shows(execution.end - execution.first);
  show_transaction(session);
  call.answer(encode_exec, execution.first, execution.end - execution.first,
              reinterpret_cast<intptr_t>(&execution));
}

}  // namespace handlers
}  // namespace isotherm::net
