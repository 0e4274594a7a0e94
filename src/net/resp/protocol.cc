#include "net/resp/protocol.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "net/resp/command.h"
#include "net/resp/handlers.h"
#include "net/resp/parser.h"
#include "net/resp/refusals.h"
#include "net/resp/slow_answers.h"
#include "net/resp/transaction.h"
#include "net/server_state.h"
#include "net/spare_lists.h"

namespace isotherm::net {
namespace {

// Bytes of requests that a turn takes from one connection, but for the last of them.
constexpr size_t most_parsed = 1 << 20;

class RespProtocol final : public Protocol {
 public:
  RespProtocol(ServerState& server, Client& client)
      : server_(server),
        parser_(server.live.proto_max_bulk_len),
        session_(client, !server.password.is_set()) {
    constexpr size_t unseen = 256;
    expect_answers_of(unseen);
  }

  size_t parse(std::string_view input, Turn& turn) override {
    turn.batch.select(session_.database);
    const size_t most_rows = turn.batch.size() + most_rows_;
    SpareLists<Answer>::begin(queue_.answers, input.size());
    parser_.limit(server_.live.proto_max_bulk_len.load(std::memory_order_relaxed),
                  lacks_password(session_, server_));
    stopped_early_ = before_change_ = held_ = false;
    session_.unusual = is_unusual(turn);
    size_t parsed = 0;
    while (!queue_.closing) {
      const RespParser::Outcome outcome = parser_.next(input.substr(parsed));
      if (outcome == RespParser::Outcome::incomplete) break;
      if (!parser_.repeats()) found_ = find_command_of(parser_.arguments());
      queue_.begin = static_cast<uint32_t>(parsed);
      const bool plain = parser_.repeats() && found_.plain && !session_.unusual;
      const bool reads = found_.only_reads && (plain || !session_.unusual || may_read_again());
      if (!reads && queue_.reads >= most_reads_) {
        stopped_early_ = before_change_ = true;
        break;
      }
      if (!plain) [[unlikely]] {
        if (outcome == RespParser::Outcome::error) {
          fail(turn);
          break;
        }
        if (session_.unusual || (found_.command != nullptr && found_.command->waits())) {
          const Command* const command = find_whole(found_).command;
          held_ = command != nullptr &&
                  is_held(*command, parser_.arguments(), session_, server_, turn.now_ms());
          stopped_early_ = held_ || stays_behind(command, reads, turn) || is_early(command);
          if (stopped_early_) break;
        }
      }
      parsed += parser_.consumed();
      if (plain || !parser_.arguments().empty()) {
        run(plain, reads, turn);
      } else {
        take_muted();  // as in Redis an empty line counts as the next command here
      }
      if (queue_.runs_alone() || std::exchange(queue_.pausing, false) || parsed >= most_parsed ||
          queue_.text_bytes > output_bound || turn.batch.size() > most_rows) {
        stopped_early_ = true;
        break;
      }
    }
    rows_end_ = turn.batch.size();
    if (last_ != nullptr) session_.client.command.store(last_, std::memory_order_relaxed);
    parsed_ = queue_.closing ? input.size() : parsed;
    queue_.input = input.substr(0, parsed);
    return parsed_;
  }

  size_t reply(Turn& turn, Output& output) override {
    const AnswerSource source{turn.batch, turn.now_ms(), &output};
    const size_t before = output.size();
    CommandCounts::Notes notes(turn.counters.by_command);
    const Answer* const first = queue_.answers.data();
    const Answer* const end = first + queue_.answers.size();
    const Answer* const fixed = first + queue_.fixed;
    const Answer* answer = first;
    for (; answer != end; ++answer) {
      if (answer >= fixed && output.size() >= turn.full_output) break;
      if (answer->origin.muted) [[unlikely]] {
        write_nowhere(*answer, source, turn);
      } else {
        write(*answer, source, turn, output);
      }
      notes.note(answer->origin.command, answer->rows);
    }
    if (SlowAnswers::any(turn)) [[unlikely]]
      note_slow_ones(first, answer, end, turn);
    const uint64_t rows = notes.finish();
    if (rows != 0) learn_answer_bytes((output.size() - before) / rows);
    turn.counters[LoopCount::commands].add(static_cast<uint64_t>(answer - first));
    const size_t left = answer != end ? take_back(turn, answer, end) : 0;
    forget_answers();
    return left;
  }

  bool may_put_aside() const override {
    return !queue_.closing && (!stopped_early_ || before_change_) &&
           queue_.reads + aside_reads_ <= most_reads_;
  }

  std::unique_ptr<Owed> put_aside() override {
    auto owed = std::make_unique<OwedAside>();
    aside_reads_ += queue_.reads;
    queue_.fixed = queue_.answers.size();
    std::swap(owed->queue, queue_);
    owed->arrived = std::move(arrived_);
    owed->inline_words = parser_.take_inline_words();
    return owed;
  }

  // Requests that are parsed meanwhile keep their answers, and the parser keeps their words.
  void reply_aside(Owed& owed, Turn& turn, Output& output) override {
    auto& aside = static_cast<OwedAside&>(owed);
    aside_reads_ -= aside.queue.reads;
    auto words = parser_.take_inline_words();
    std::swap(aside.queue, queue_);
    std::swap(aside.arrived, arrived_);
    reply(turn, output);
    std::swap(aside.queue, queue_);
    std::swap(aside.arrived, arrived_);
    parser_.give_inline_words(std::move(words));
  }

  bool owes() const override { return !queue_.answers.empty(); }

  size_t owed_texts() const override { return queue_.text_bytes; }

  ArrivingItem* arriving(InputBuffer& input) override {
    if (arriving_ == nullptr) {
      waits_to_arrive_ = false;
      if (parser_.wanted() < Engine::least_arriving) return nullptr;
      divert(input);
      if (arriving_ == nullptr) return nullptr;
    }
    return arriving_->complete() ? nullptr : arriving_.get();
  }

  bool waits_alone() const override { return queue_.runs_alone() || walk_ != nullptr; }
  bool walks() const override { return queue_.walk != nullptr || walk_ != nullptr; }

  const Walk* walk() const override { return walk_.get(); }

  void run_alone(Turn& turn, Output& output) override {
    if (walk_ == nullptr) began_alone_us_ = turn.clock.now_us();
    if (queue_.walk != nullptr) {
      walk_ = std::exchange(queue_.walk, nullptr)(parser_.arguments(), session_.version);
      queue_.alone = nullptr;
    }
    if (walk_ != nullptr) {
      turn.batch.select(session_.database);
      return walk_->begin_step(turn.batch);
    }
    Output nowhere(&output.pool(), nullptr, true);
    RespWriter writer(queue_.origin.muted ? nowhere : output, session_.version);
    Alone alone{parser_.arguments(), turn, session_, writer};
    std::exchange(queue_.alone, nullptr)(alone);
    end_alone(turn);
    if (!writer.error_code().empty())
      turn.counters.by_command.note_error(queue_.origin.command, writer.error_code(), false);
  }

  void end_step(Turn& turn, Output& output) override {
    if (queue_.origin.muted && muted_ == nullptr) {
      muted_ = std::make_unique<Output>(&output.pool());
    }
    if (!walk_->end_step(turn.batch, queue_.origin.muted ? *muted_ : output)) return;
    walk_.reset();
    muted_.reset();
    end_alone(turn);
  }

  bool closing() const override { return queue_.closing || session_.ends; }
  size_t memory() const override {
    return session_.transaction != nullptr ? session_.transaction->bytes() : 0;
  }
  size_t wanted() const override { return parser_.wanted(); }
  bool stopped_early() const override { return stopped_early_; }

 private:
  struct OwedAside final : Owed {
    AnswerQueue queue;
    std::vector<std::vector<std::string>> inline_words;
  };

  static void write(const Answer& answer, const AnswerSource& source, Turn& turn, Output& output) {
    RespWriter writer(output, answer.version);
    if (source.batch.unsaved() && is_unsaved(answer, source.batch)) [[unlikely]] {
      writer.error(misconf(turn.server));
    } else {
      answer.encode(answer, source, writer);
    }
    if (!writer.error_code().empty()) [[unlikely]]
      note_error(answer, writer.error_code(), turn);
  }
  [[gnu::noinline]] static void write_nowhere(const Answer& answer, const AnswerSource& source,
                                              Turn& turn) {
    Output nowhere(nullptr, nullptr, true);
    write(answer, source, turn, nowhere);
  }
  // Redis looks for memory before it runs a command.
  [[gnu::noinline]] static void note_error(const Answer& answer, std::string_view code,
                                           Turn& turn) {
    const bool rejected = answer.origin.rejected || code == "OOM";
    turn.counters.by_command.note_error(answer.origin.command, code, rejected);
  }

  // The answers before `end_of_these` are written.
  [[gnu::noinline]] void note_slow_ones(const Answer* first, const Answer* end_of_these,
                                        const Answer* end, Turn& turn) const {
    const std::string_view input =
        end_of_these != end ? queue_.input.substr(0, end_of_these->begin) : queue_.input;
    SlowAnswers(turn, session_.client).note({first, end_of_these}, input);
  }

  void end_alone(Turn& turn) {
    turn.counters[LoopCount::commands].add();
    const uint64_t nanoseconds = nanoseconds_since(turn.clock, began_alone_us_);
    turn.counters.by_command.note_alone(queue_.origin.command, nanoseconds);
    if (last_ != nullptr)
      note_slow(*last_, parser_.arguments(), static_cast<int64_t>(nanoseconds / 1000), turn,
                session_.client);
    parser_.release();
  }

  void fail(Turn& turn) {
    refuse(turn, {}, "ERR " + std::string(parser_.error()));
    queue_.closing = true;
    queue_.fixed = queue_.answers.size();
  }

  // The value of a command that stores one is received into the item that it becomes.
  [[gnu::noinline]] void divert(InputBuffer& input) {
    const RespParser::Partial value = parser_.partial();
    const std::string_view unread = input.unread();
    if (value.bytes < Engine::least_arriving || value.index < 2 || queues(session_)) return;
    const std::string_view there = unread.substr(value.begin);
    const Command* command = find_command(parser_.word(unread, 0));
    if (command == nullptr || value.index != command->stored_word()) return;
    if (there.size() >= value.bytes) return;
    arriving_ = server_.engine.arriving(parser_.word(unread, 1).size(), value.bytes);
    waits_to_arrive_ = arriving_ == nullptr;
    if (waits_to_arrive_) return;
    arriving_->append(there);
    input.drop_back(there.size());
    parser_.divert(arriving_->value());
  }

  // Of the first request since its value began to arrive: false where that cannot be stored, which
  // is answered.
  [[gnu::noinline]] bool take_arrived(const NumberedCommand& found, Turn& turn) {
    arrived_ = std::move(arriving_);
    parser_.forget_diverted();
    if (arrived_->usable()) return true;
    refuse(turn, found, std::string(over_maxmemory));
    return false;
  }

  // The row that stores the value takes its item.
  [[gnu::noinline]] void hand_over(Batch& batch, Batch::Row row) const {
    Batch::Columns& columns = batch.columns();
    const bool stores = arrived_->usable() && batch.size() != row && columns.op[row] == Op::put &&
                        columns.value[row].data() == arrived_->value().data();
    if (stores) columns.options[row] |= option::in_place;
  }

  // Of a command that only reads, the answer may be left out and the command parsed again.
  void run(bool plain, bool reads, Turn& turn) {
    const Batch::Row before = turn.batch.size();
    if (plain) [[likely]] {
      handle(found_, {found_.number}, turn);
    } else if (arriving_ == nullptr || take_arrived(found_, turn)) {
      dispatch(found_, turn);
    }
    if (arrived_ != nullptr) [[unlikely]]
      hand_over(turn.batch, before);
    if (reads || shows_value(turn.batch, before)) queue_.reads += turn.batch.size() - before;
    if (!reads && !queue_.runs_alone()) queue_.fixed = queue_.answers.size();
  }

  // The answers from `left` on are left out, and their commands are parsed again; returns the bytes
  // of these. What comes before one that is held is not held.
  [[gnu::noinline]] size_t take_back(Turn& turn, const Answer* left, const Answer* end) {
    const size_t bytes = parsed_ - left->begin;
    while (left != end && left->rows == 0) ++left;
    if (left != end) turn.worker.uncount_reads(turn.batch, left->first_row, rows_end_);
    parser_.restart();
    queue_.alone = nullptr;
    queue_.walk = nullptr;
    stopped_early_ = true;
    held_ = false;
    return bytes;
  }

  void dispatch(const NumberedCommand& found, Turn& turn) {
    if (found.command == nullptr) [[unlikely]]
      return refuse(turn, {}, unknown_command(parser_.arguments()));
    if (!found.command->subcommands.empty()) [[unlikely]]
      return dispatch_subcommand(found, turn);
    if (session_.unusual) [[unlikely]]
      return call_unusually(found, turn);
    call(found, {found.number}, turn);
  }

  void dispatch_subcommand(const NumberedCommand& container, Turn& turn) {
    const NumberedCommand found = find_whole(container);
    if (found.command == nullptr) {
      return refuse(turn, {}, unknown_subcommand(*container.command, parser_.arguments()[1]));
    }
    call_unusually(found, turn);
    session_.unusual = is_unusual(turn);
  }

  // Finds the subcommand that the words name, if the command has any and they name one at all.
  NumberedCommand find_whole(const NumberedCommand& found) const {
    const Arguments words = parser_.arguments();
    const bool named = found.command != nullptr && !found.command->subcommands.empty();
    return named && words.size() > 1 ? find_numbered(found, words[1]) : found;
  }

  // Whether commands need more than to be run. CLIENT, MULTI and WATCH alone can make it so, on
  // this connection; what other connections do is seen at the next parse.
  bool is_unusual(Turn& turn) const {
    return session_.replies != Replies::on || session_.no_touch || journal_error(server_) != 0 ||
           turn.waiting != nullptr || session_.transaction != nullptr ||
           lacks_password(session_, server_) ||
           (!server_.pause.none() && server_.pause.holds(turn.now_ms()) != Pause::Holds::nothing);
  }

  // A command that is kept for EXEC already is not kept again.
  bool may_read_again() const { return session_.replies == Replies::on && !queues(session_); }

  // Whether it is an EXEC before the answer of a WATCH, which says what it has to find.
  bool is_early(const Command* command) const {
    return session_.transaction != nullptr && session_.transaction->awaits() &&
           command != nullptr && command->handler == handlers::exec;
  }

  // Whether it must wait until requests before it, which are under way, are answered: because it
  // may touch one of their keys, or is about all, or so many show values already. A change shows
  // one at most, so it may pass that bound once.
  bool stays_behind(const Command* command, bool reads, const Turn& turn) const {
    if (turn.waiting == nullptr || command == nullptr) return false;
    if (queue_.reads + aside_reads_ >= most_reads_ + (reads ? 0 : 1)) return true;
    constexpr uint32_t wide = command_flag::write | command_flag::readonly | command_flag::solo;
    const bool all_keys = (command->flags & wide) != 0 && command->first_key == 0;
    // A value that arrived in its item is no key, and of one without memory there are no bytes.
    const Arguments words = parser_.arguments();
    const char* const value = arriving_ != nullptr ? arriving_->value().data() : words[0].data();
    const auto waits = [&](auto its) { return its.data() != value && turn.waiting->contains(its); };
    return all_keys || command->handler == handlers::exec ||
           std::any_of(words.begin() + 1, words.end(), waits);
  }

  void call(const NumberedCommand& found, Origin origin, Turn& turn) {
    if (found.command->takes(parser_.arguments().size())) [[likely]]
      return handle(found, origin, turn);
    last_ = found.command;
    refuse_as(origin, turn, found, wrong_arity(*found.command));
  }

  ISOTHERM_INLINE void handle(const NumberedCommand& found, Origin origin, Turn& turn) {
    queue_.origin = origin;
    last_ = found.command;
    Call call(*found.command, parser_.arguments(), turn, session_, queue_);
    found.command->handler(call);
  }

  void call_unusually(const NumberedCommand& found, Turn& turn) {
    if (std::string error = refusal(*found.command, parser_.arguments().size(), session_, server_);
        !error.empty()) {
      return refuse(turn, found, std::move(error));
    }
    if (is_kept(*found.command, session_)) return keep(found, turn);
    const Batch::Row first_row = turn.batch.size();
    call(found, {found.number, take_muted()}, turn);
    if (session_.no_touch) leave_untouched(*found.command, turn.batch, first_row);
  }

  // Keeps the command for EXEC.
  void keep(const NumberedCommand& found, Turn& turn) {
    session_.transaction->add(found, parser_.arguments());
    show_transaction(session_);
    last_ = found.command;
    queue_.origin = {0, take_muted()};
    Call(*found.command, {}, turn, session_, queue_).answer_raw("+QUEUED\r\n");
  }

  // Answers with an error for what is no command, or must not run.
  void refuse(Turn& turn, const NumberedCommand& found, std::string text) {
    refuse_as({found.number, take_muted()}, turn, found, std::move(text));
  }

  // A transaction fails with any of its commands, and is over where that is EXEC.
  [[gnu::noinline]] void refuse_as(Origin origin, Turn& turn, const NumberedCommand& found,
                                   std::string text) {
    static constexpr Command none{};
    if (queues(session_)) session_.transaction->fail();
    if (found.command != nullptr && found.command->handler == handlers::exec) {
      take_transaction(session_);
      text = aborted_by(text);
    }
    queue_.origin = origin;
    Call call(none, {}, turn, session_, queue_);
    call.error(std::move(text));
    call.reject();
  }

  // Whether the next command's answer is left out.
  bool take_muted() {
    const bool muted = session_.replies != Replies::on;
    if (session_.replies == Replies::skip) session_.replies = Replies::on;
    return muted;
  }

  // TOUCH counts as a use all the same.
  static void leave_untouched(const Command& command, Batch& batch, Batch::Row row) {
    if (command.handler == handlers::touch) return;
    for (; row < batch.size(); ++row) batch.columns().options[row] |= option::no_touch;
  }

  // A larger size than expected is taken over at once; a smaller one lowers the expectation slowly.
  void learn_answer_bytes(size_t bytes) {
    const size_t decayed = expected_answer_bytes_ - expected_answer_bytes_ / 8;
    const size_t expected = std::max({bytes, decayed, size_t{16}});
    if (expected != expected_answer_bytes_) expect_answers_of(expected);
  }

  void expect_answers_of(size_t bytes) {
    expected_answer_bytes_ = bytes;
    most_reads_ = reads_before_change(bytes);
    most_rows_ = output_bound / bytes;
  }

  void forget_answers() {
    if (arrived_ != nullptr || !queue_.texts.empty() || !queue_.kept.empty()) [[unlikely]]
      forget_what_answers_borrow();
    SpareLists<Answer>::end(queue_.answers);
    queue_.fixed = 0;
    queue_.reads = 0;
    queue_.text_bytes = 0;
    if (!queue_.runs_alone()) parser_.release();
  }

  [[gnu::noinline]] void forget_what_answers_borrow() {
    arrived_.reset();
    queue_.texts.clear();
    queue_.kept.clear();
  }

  ServerState& server_;
  RespParser parser_;
  std::unique_ptr<ArrivingItem> arriving_;  // of the request at the front of the input
  FoundCommand found_;                      // the last command of the input
  Session session_;
  AnswerQueue queue_;
  std::unique_ptr<Output> muted_;  // of the walk that is under way
  std::unique_ptr<Walk> walk_;
  int64_t began_alone_us_ = 0;
  Batch::Row aside_reads_ = 0;     // of what is owed aside
  size_t parsed_ = 0;              // bytes, in this turn
  Batch::Row rows_end_ = 0;        // of the rows of this turn
  const Command* last_ = nullptr;  // that ran
  bool stopped_early_ = false;
  bool before_change_ = false;  // it did, as there are enough reads before it
  size_t expected_answer_bytes_ = 0;
  Batch::Row most_reads_ = 0;  // rows that show values before a change, at that size
  size_t most_rows_ = 0;       // that a turn takes before it stops
};

}  // namespace

std::unique_ptr<Protocol> make_resp_protocol(ServerState& server, Client& client) {
  return std::make_unique<RespProtocol>(server, client);
}

}  // namespace isotherm::net
