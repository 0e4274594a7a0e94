#include "net/resp_protocol.h"

#include <algorithm>
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
  RespProtocol(ServerState& server, Peer peer) : parser_(server.options.proto_max_bulk_len) {
    session_.id = server.next_client_id.fetch_add(1, std::memory_order_relaxed);
    session_.peer_address = std::move(peer.peer_address);
    session_.local_address = std::move(peer.local_address);
    session_.descriptor = peer.descriptor;
    session_.connected_ms = server.clock.now_ms();
  }

  size_t parse(std::string_view input, Turn& turn) override {
    turn.batch.select(session_.database);
    const Batch::Row rows_before = turn.batch.size();
    stopped_early_ = false;
    size_t consumed = 0;
    while (!queue_.closing) {
      const RespParser::Outcome outcome = parser_.next(input.substr(consumed));
      if (outcome == RespParser::Outcome::incomplete) break;
      if (outcome == RespParser::Outcome::error) {
        fail(turn);
        break;
      }
      consumed += parser_.consumed();
      if (!parser_.arguments().empty()) dispatch(turn);
      if (queue_.alone != nullptr || std::exchange(queue_.pausing, false) ||
          (turn.batch.size() - rows_before) * expected_answer_bytes_ > answer_bytes_per_turn) {
        stopped_early_ = true;
        break;
      }
    }
    return queue_.closing ? input.size() : consumed;
  }

  void reply(Turn& turn, Output& output) override {
    const AnswerSource source{turn.batch, turn.now_ms};
    const size_t before = output.size();
    uint64_t rows = 0;
    for (const Answer& answer : queue_.answers) {
      RespWriter writer(output, answer.version);
      answer.encode(answer, source, writer);
      rows += answer.rows;
    }
    if (rows != 0) learn_answer_bytes((output.size() - before) / rows);
    turn.counters.commands.add(queue_.answers.size());
    forget_answers();
  }

  bool waits_alone() const override { return queue_.alone != nullptr; }

  void run_alone(Turn& turn, Output& output) override {
    RespWriter writer(output, session_.version);
    Alone alone{parser_.arguments(), turn, session_, writer};
    std::exchange(queue_.alone, nullptr)(alone);
    turn.counters.commands.add();
    parser_.release_inline();
  }

  bool closing() const override { return queue_.closing; }
  size_t wanted() const override { return parser_.wanted(); }
  bool stopped_early() const override { return stopped_early_; }

 private:
  void fail(Turn& turn) {
    static constexpr Command none{};
    Call call(none, {}, turn, session_, queue_);
    call.error("ERR " + std::string(parser_.error()));
    call.close();
  }

  void dispatch(Turn& turn) {
    const Arguments words = parser_.arguments();
    const Command* command = find_command(words[0]);
    if (command == nullptr) [[unlikely]] {
      static constexpr Command none{};
      return Call(none, words, turn, session_, queue_).error(unknown_command(words));
    }
    if (!command->subcommands.empty() && words.size() > 1) {
      const Command* const container = command;
      command = find_subcommand(*container, words[1]);
      if (command == nullptr) {
        return Call(*container, words, turn, session_, queue_)
            .error(unknown_subcommand(*container, words[1]));
      }
    }
    Call call(*command, words, turn, session_, queue_);
    if (!command->takes(words.size())) [[unlikely]]
      return call.wrong_arity();
    command->handler(call);
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
    if (!queue_.kept.empty()) queue_.kept.clear();
    if (queue_.alone == nullptr) parser_.release_inline();
  }

  RespParser parser_;
  Session session_;
  AnswerQueue queue_;
  bool stopped_early_ = false;
  size_t expected_answer_bytes_ = 4096;  // until some were seen
};

}  // namespace

std::unique_ptr<Protocol> make_resp_protocol(ServerState& server, Peer peer) {
  return std::make_unique<RespProtocol>(server, std::move(peer));
}

}  // namespace isotherm::net
