#include "net/resp_protocol.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "net/resp_command.h"
#include "net/resp_handlers.h"
#include "net/resp_parser.h"
#include "net/server_state.h"
#include "net/spare_lists.h"

namespace isotherm::net {
namespace {

// Bytes of requests that a turn takes from one connection, but for the last of them.
constexpr size_t most_parsed = 1 << 20;

constexpr std::string_view over_maxmemory =
    "OOM command not allowed when used memory > 'maxmemory'.";

// Which word of a command becomes the value of its key, the second word; 0: none does.
size_t stored_word(const Command& command) {
  const Handler handler = command.handler;
  if (handler == handlers::set || handler == handlers::setnx || handler == handlers::getset) {
    return 2;
  }
  return handler == handlers::setex || handler == handlers::psetex ? 3 : 0;
}

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
  RespProtocol(ServerState& server, Peer peer)
      : server_(server), parser_(server.options.proto_max_bulk_len) {
    session_.id = server.next_client_id.fetch_add(1, std::memory_order_relaxed);
    session_.peer_address = std::move(peer.peer_address);
    session_.local_address = std::move(peer.local_address);
    session_.descriptor = peer.descriptor;
    session_.connected_ms = server.clock.now_ms();
  }

  size_t parse(std::string_view input, Turn& turn) override {
    turn.batch.select(session_.database);
    const Batch::Row rows_before = turn.batch.size();
    const Batch::Row most_reads = reads_before_change(expected_answer_bytes_);
    SpareLists<Answer>::begin(queue_.answers);
    stopped_early_ = false;
    size_t parsed = 0;
    while (!queue_.closing) {
      const RespParser::Outcome outcome = parser_.next(input.substr(parsed));
      if (outcome == RespParser::Outcome::incomplete) break;
      const Command* command = nullptr;
      if (outcome == RespParser::Outcome::request && !parser_.arguments().empty()) {
        command = find_command(parser_.arguments()[0]);
      }
      queue_.begin = static_cast<uint32_t>(parsed);
      const bool reads = command != nullptr && (command->flags & command_flag::readonly) != 0;
      if (!reads && queue_.reads >= most_reads) {
        stopped_early_ = true;
        break;
      }
      if (outcome == RespParser::Outcome::error) {
        fail(turn);
        break;
      }
      parsed += parser_.consumed();
      if (!parser_.arguments().empty()) run(command, reads, turn);
      if (queue_.alone != nullptr || std::exchange(queue_.pausing, false) ||
          parsed >= most_parsed || queue_.text_bytes > output_bound ||
          (turn.batch.size() - rows_before) * expected_answer_bytes_ > output_bound) {
        stopped_early_ = true;
        break;
      }
    }
    parsed_ = queue_.closing ? input.size() : parsed;
    return parsed_;
  }

  size_t reply(Turn& turn, Output& output) override {
    const AnswerSource source{turn.batch, turn.now_ms};
    const size_t before = output.size();
    uint64_t rows = 0;
    const std::span<const Answer> answers(queue_.answers);
    const auto fixed = answers.begin() + static_cast<ptrdiff_t>(queue_.fixed);
    auto at = answers.begin();
    for (; at != answers.end(); ++at) {
      if (output.size() >= turn.full_output && at >= fixed) break;
      RespWriter writer(output, at->version);
      at->encode(*at, source, writer);
      rows += at->rows;
    }
    if (rows != 0) learn_answer_bytes((output.size() - before) / rows);
    turn.counters.commands.add(static_cast<uint64_t>(at - answers.begin()));
    const size_t left = at != answers.end() ? parsed_ - at->begin : 0;
    if (left != 0) take_back();
    forget_answers();
    return left;
  }

  ArrivingItem* arriving(InputBuffer& input) override {
    if (arriving_ == nullptr) {
      if (parser_.wanted() < Engine::least_arriving) return nullptr;
      divert(input);
      if (arriving_ == nullptr) return nullptr;
    }
    return arriving_->complete() ? nullptr : arriving_.get();
  }

  bool waits_alone() const override { return queue_.alone != nullptr; }

  void run_alone(Turn& turn, Output& output) override {
    RespWriter writer(output, session_.version);
    Alone alone{parser_.arguments(), turn, session_, writer};
    std::exchange(queue_.alone, nullptr)(alone);
    turn.counters.commands.add();
    parser_.release();
  }

  bool closing() const override { return queue_.closing; }
  size_t memory() const override { return parser_.memory(); }
  size_t wanted() const override { return parser_.wanted(); }
  bool stopped_early() const override { return stopped_early_; }

 private:
  void fail(Turn& turn) {
    static constexpr Command none{};
    Call call(none, {}, turn, session_, queue_);
    call.error("ERR " + std::string(parser_.error()));
    call.close();
    queue_.fixed = queue_.answers.size();
  }

  // The value of a SET and its like becomes an item as it comes.
  void divert(InputBuffer& input) {
    const RespParser::Partial value = parser_.partial();
    const std::string_view unread = input.unread();
    if (value.bytes < Engine::least_arriving || value.index < 2) return;
    const std::string_view there = unread.substr(value.begin);
    const Command* command = find_command(parser_.word(unread, 0));
    if (command == nullptr || value.index != stored_word(*command)) return;
    if (there.size() >= value.bytes) return;
    arriving_ = server_.engine.arriving(parser_.word(unread, 1).size(), value.bytes);
    if (arriving_ == nullptr) return;
    arriving_->append(there);
    input.drop_back(there.size());
    parser_.divert(arriving_->value());
  }

  // Of the first request since its value began to arrive: false where that cannot be stored, which
  // is answered.
  [[gnu::noinline]] bool take_arrived(Turn& turn) {
    arrived_ = std::move(arriving_);
    parser_.forget_diverted();
    if (arrived_->usable()) return true;
    static constexpr Command none{};
    Call(none, parser_.arguments(), turn, session_, queue_).error(std::string(over_maxmemory));
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
  void run(const Command* command, bool reads, Turn& turn) {
    const Batch::Row before = turn.batch.size();
    if (arriving_ == nullptr || take_arrived(turn)) [[likely]]
      dispatch(command, turn);
    if (arrived_ != nullptr) [[unlikely]]
      hand_over(turn.batch, before);
    if (reads || shows_value(turn.batch, before)) queue_.reads += turn.batch.size() - before;
    if (!reads && queue_.alone == nullptr) queue_.fixed = queue_.answers.size();
  }

  // Whether the rows from `first` on change something and show what was there; they are of a kind.
  static bool shows_value(const Batch& batch, Batch::Row first) {
    if (first == batch.size()) return false;
    const Batch::Columns& columns = batch.columns();
    const Op op = columns.op[first];
    const uint16_t options = columns.options[first];
    return (options & option::want_previous) != 0 || op == Op::get ||
           (op == Op::expire && (options & option::no_value) == 0);
  }

  void take_back() {
    parser_.restart();
    queue_.alone = nullptr;
    stopped_early_ = true;
  }

  void dispatch(const Command* command, Turn& turn) {
    const Arguments words = parser_.arguments();
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
    if (arrived_ != nullptr) [[unlikely]] {
      arrived_->settle();
      arrived_.reset();
    }
    SpareLists<Answer>::end(queue_.answers);
    queue_.fixed = 0;
    queue_.reads = 0;
    queue_.text_bytes = 0;
    if (!queue_.texts.empty()) queue_.texts.clear();
    if (!queue_.kept.empty()) queue_.kept.clear();
    if (queue_.alone == nullptr) parser_.release();
  }

  ServerState& server_;
  RespParser parser_;
  std::unique_ptr<ArrivingItem> arriving_;  // of the request at the front of the input
  std::unique_ptr<ArrivingItem> arrived_;   // of a request that runs in this turn
  Session session_;
  AnswerQueue queue_;
  size_t parsed_ = 0;  // bytes, in this turn
  bool stopped_early_ = false;
  size_t expected_answer_bytes_ = 256;  // until some were seen
};

}  // namespace

std::unique_ptr<Protocol> make_resp_protocol(ServerState& server, Peer peer) {
  return std::make_unique<RespProtocol>(server, std::move(peer));
}

}  // namespace isotherm::net
