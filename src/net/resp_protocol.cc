#include "net/resp_protocol.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "net/resp_command.h"
#include "net/resp_handlers.h"
#include "net/resp_parser.h"
#include "net/server_state.h"

namespace isotherm::net {
namespace {

// The lists of answers of a connection that once had a deep pipeline need not stay large.
constexpr size_t kept_answers = 1024;

// As much of the unknown command's words as Redis repeats.
std::string unknown_command(Arguments words) {
  std::string arguments;
  for (size_t i = 1; i < words.size() && arguments.size() < 128; ++i) {
    const std::string_view word = words[i].substr(0, words[i].find('\0'));
    arguments += '\'';
    arguments += word.substr(0, 128 - (arguments.size() - 1));
    arguments += "' ";
  }
  const std::string_view name = words[0].substr(0, words[0].find('\0'));
  return "ERR unknown command '" + std::string(name.substr(0, 128)) +
         "', with args beginning with: " + arguments;
}

std::string unknown_subcommand(const Command& container, std::string_view name) {
  std::string upper(container.name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  name = name.substr(0, name.find('\0')).substr(0, 128);
  return "ERR unknown subcommand '" + std::string(name) + "'. Try " + upper + " HELP.";
}

class RespProtocol final : public Protocol {
 public:
  RespProtocol(ServerState& server, Client& client)
      : server_(server), parser_(server.live.proto_max_bulk_len), session_(client) {}

  size_t parse(std::string_view input, Turn& turn) override {
    turn.batch.select(session_.database);
    const Batch::Row rows_before = turn.batch.size();
    parser_.limit_bulks(server_.live.proto_max_bulk_len.load(std::memory_order_relaxed));
    stopped_early_ = held_ = false;
    unusual_ = is_unusual(turn);
    size_t consumed = 0;
    while (!queue_.closing) {
      const RespParser::Outcome outcome = parser_.next(input.substr(consumed));
      if (outcome == RespParser::Outcome::incomplete) break;
      if (outcome == RespParser::Outcome::error) {
        fail(turn);
        break;
      }
      if (!parser_.arguments().empty() && !dispatch(turn)) [[unlikely]] {
        stopped_early_ = held_ = true;
        break;
      }
      consumed += parser_.consumed();
      if (queue_.alone != nullptr ||
          (turn.batch.size() - rows_before) * expected_answer_bytes_ > answer_bytes_per_turn) {
        stopped_early_ = true;
        break;
      }
    }
    if (last_ != nullptr) session_.client.command.store(last_, std::memory_order_relaxed);
    return queue_.closing ? input.size() : consumed;
  }

  void reply(Turn& turn, Output& output) override {
    const AnswerSource source{turn.batch, turn.now_ms};
    const size_t before = output.size();
    CommandCounts::Notes notes(turn.counters.by_command);
    for (const Answer& answer : queue_.answers) {
      if (answer.origin.muted) [[unlikely]] {
        Output nowhere;
        write(answer, source, turn, nowhere);
      } else {
        write(answer, source, turn, output);
      }
      notes.note(answer.origin.command, answer.rows);
    }
    const uint64_t rows = notes.finish();
    if (rows != 0) learn_answer_bytes((output.size() - before) / rows);
    turn.counters.commands.add(queue_.answers.size());
    forget_answers();
  }

  bool waits_alone() const override { return queue_.alone != nullptr; }

  void run_alone(Turn& turn, Output& output) override {
    Output nowhere;
    RespWriter writer(queue_.origin.muted ? nowhere : output, session_.version);
    Alone alone{parser_.arguments(), turn, session_, writer};
    const auto began = std::chrono::steady_clock::now();
    std::exchange(queue_.alone, nullptr)(alone);
    const auto took = std::chrono::steady_clock::now() - began;
    turn.counters.commands.add();
    CommandCounts& counts = turn.counters.by_command;
    counts.note_alone(queue_.origin.command,
                      static_cast<uint64_t>(took / std::chrono::nanoseconds(1)));
    if (!writer.error_code().empty())
      counts.note_error(queue_.origin.command, writer.error_code(), false);
    parser_.release_inline();
  }

  bool held() const override { return held_; }
  bool closing() const override { return queue_.closing; }
  size_t wanted() const override { return parser_.wanted(); }
  bool stopped_early() const override { return stopped_early_; }

 private:
  static void write(const Answer& answer, const AnswerSource& source, Turn& turn, Output& output) {
    RespWriter writer(output, answer.version);
    answer.encode(answer, source, writer);
    if (writer.error_code().empty()) [[likely]]
      return;
    // Redis looks for memory before it runs a command.
    const bool rejected = answer.origin.rejected || writer.error_code() == "OOM";
    turn.counters.by_command.note_error(answer.origin.command, writer.error_code(), rejected);
  }

  void fail(Turn& turn) {
    refuse(turn, "ERR " + std::string(parser_.error()));
    queue_.closing = true;
  }

  // False: CLIENT PAUSE holds the command back, and nothing has been done.
  bool dispatch(Turn& turn) {
    const Arguments words = parser_.arguments();
    const NumberedCommand found = find_numbered(words[0]);
    if (found.command == nullptr) [[unlikely]] {
      refuse(turn, unknown_command(words));
      return true;
    }
    if (!found.command->subcommands.empty()) [[unlikely]]
      return dispatch_subcommand(found, turn);
    if (unusual_) [[unlikely]]
      return run_unusually(found, turn);
    run(found, {found.number}, turn);
    return true;
  }

  bool dispatch_subcommand(const NumberedCommand& container, Turn& turn) {
    const Arguments words = parser_.arguments();
    NumberedCommand found = container;
    if (words.size() > 1) found = find_numbered(container, words[1]);
    if (found.command == nullptr) {
      refuse(turn, unknown_subcommand(*container.command, words[1]));
      return true;
    }
    const bool done = run_unusually(found, turn);
    unusual_ = is_unusual(turn);
    return done;
  }

  // Whether commands need more than to be run. CLIENT alone can make it so, on this connection;
  // what other connections do is seen at the next parse.
  bool is_unusual(const Turn& turn) const {
    return session_.replies != Replies::on || session_.no_touch ||
           server_.pause.holds(turn.now_ms) != Pause::Holds::nothing;
  }

  void run(const NumberedCommand& found, Origin origin, Turn& turn) {
    queue_.origin = origin;
    last_ = found.command;
    Call call(*found.command, parser_.arguments(), turn, session_, queue_);
    if (!found.command->takes(call.size())) [[unlikely]] {
      call.wrong_arity();
      return call.reject();
    }
    found.command->handler(call);
  }

  bool run_unusually(const NumberedCommand& found, Turn& turn) {
    const Pause::Holds holds = server_.pause.holds(turn.now_ms);
    const bool writes = (found.command->flags & command_flag::write) != 0;
    const bool held = holds == Pause::Holds::all || (holds == Pause::Holds::writes && writes);
    if (held && found.command->takes(parser_.arguments().size())) return false;
    const Batch::Row first_row = turn.batch.size();
    run(found, {found.number, take_muted()}, turn);
    if (session_.no_touch) leave_untouched(*found.command, turn.batch, first_row);
    return true;
  }

  // Answers with an error for what is no command.
  void refuse(Turn& turn, std::string error) {
    static constexpr Command none{};
    queue_.origin = {0, take_muted()};
    Call call(none, {}, turn, session_, queue_);
    call.error(std::move(error));
    call.reject();
  }

  // Whether the next command's answer is left out.
  bool take_muted() {
    const bool muted = session_.replies != Replies::on;
    if (session_.replies == Replies::skip) session_.replies = Replies::on;
    return muted;
  }

  // TOUCH is there to touch.
  static void leave_untouched(const Command& command, Batch& batch, Batch::Row row) {
    if (command.handler == handlers::touch) return;
    for (; row < batch.size(); ++row) batch.columns().options[row] |= option::no_touch;
  }

  // Large answers are believed at once and forgotten slowly.
  void learn_answer_bytes(size_t bytes) {
    const size_t decayed = expected_answer_bytes_ - expected_answer_bytes_ / 8;
    expected_answer_bytes_ = std::max({bytes, decayed, size_t{16}});
  }

  void forget_answers() {
    queue_.answers.clear();
    if (queue_.answers.capacity() > kept_answers) queue_.answers.shrink_to_fit();
    if (!queue_.texts.empty()) queue_.texts.clear();
    if (queue_.alone == nullptr) parser_.release_inline();
  }

  ServerState& server_;
  RespParser parser_;
  Session session_;
  AnswerQueue queue_;
  const Command* last_ = nullptr;  // that ran
  bool unusual_ = false;
  bool held_ = false;
  bool stopped_early_ = false;
  size_t expected_answer_bytes_ = 4096;  // until some were seen
};

}  // namespace

std::unique_ptr<Protocol> make_resp_protocol(ServerState& server, Client& client) {
  return std::make_unique<RespProtocol>(server, client);
}

}  // namespace isotherm::net
