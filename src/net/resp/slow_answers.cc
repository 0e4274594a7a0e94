#include "net/resp/slow_answers.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "net/resp/handlers.h"
#include "net/resp/parser.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

constexpr uint64_t bytes_of_request = 1 << 10;  // that take as long as a request

// Of a row that others may still run, only what was asked.
uint64_t work_of(const Batch& batch, Batch::Row row) {
  const Op op = batch.columns().op[row];
  const bool lengthens = op == Op::append || op == Op::prepend || op == Op::set_range;
  uint64_t bytes = lengthens || op == Op::put ? batch.columns().value[row].size() : 0;
  if (batch.ready(row)) {
    const Reply& reply = batch.reply(row);
    bytes += reply.size;
    if (lengthens) bytes += static_cast<uint64_t>(std::max<int64_t>(reply.number, 0));
  }
  return 1 + bytes / bytes_of_request;
}

uint64_t work_of(const Batch& batch, Batch::Row first, Batch::Row end) {
  uint64_t work = 0;
  for (Batch::Row row = first; row < end; ++row) work += work_of(batch, row);
  return work;
}

// The words of the request that `text` begins with. Of a value that was received into its item only
// the length is known here.
class RequestWords {
 public:
  explicit RequestWords(std::string_view text) : parser_(std::numeric_limits<uint64_t>::max()) {
    outcome_ = parser_.next(text);
    if (outcome_ != RespParser::Outcome::incomplete || parser_.partial().bytes == 0) return;
    value_ = "... (" + std::to_string(parser_.partial().bytes) + " more bytes)";
    parser_.divert(value_);
    outcome_ = parser_.next(text);
  }
  Arguments all() const {
    return outcome_ == RespParser::Outcome::request ? parser_.arguments() : Arguments{};
  }

 private:
  RespParser parser_;
  RespParser::Outcome outcome_;
  std::string value_;
};

// What is kept of the words, without passwords.
std::vector<std::string> shown(const Command& command, Arguments words) {
  std::vector<std::string> kept = SlowLog::shorten(words);
  if (command.handler != handlers::config_set) return kept;
  for (size_t i = 2; i + 1 < kept.size(); i += 2) {
    if (equals_ignoring_case(kept[i], "requirepass")) kept[i + 1] = "(redacted)";
  }
  return kept;
}

}  // namespace

void note_slow(const Command& command, Arguments words, int64_t microseconds, Turn& turn,
               const Client& client) {
  constexpr uint32_t unseen = command_flag::skip_slowlog | command_flag::no_auth;
  SlowLog& log = turn.server.slow_log;
  if ((command.flags & unseen) != 0 || !log.is_slow(microseconds)) return;
  const int64_t began_us = turn.clock.now_us() - microseconds;
  log.add({0, began_us / 1'000'000, microseconds, shown(command, words), client.peer_address,
           client.name});
}

SlowAnswers::SlowAnswers(Turn& turn, const Client& client)
    : turn_(turn),
      client_(client),
      microseconds_(microseconds_of(turn)),
      work_(turn.work != 0 ? turn.work : work_of(turn.batch, 0, turn.batch.size())) {
  turn_.work = work_;
}

void SlowAnswers::note(const Command& command, const Answer& answer, Arguments words) {
  const Batch::Row end = answer.first_row + answer.rows;
  const uint64_t work = 1 + work_of(turn_.batch, answer.first_row, end);
  const auto share = static_cast<double>(work) / static_cast<double>(std::max(work_, work));
  note_slow(command, words, static_cast<int64_t>(static_cast<double>(microseconds_) * share), turn_,
            client_);
}

void SlowAnswers::note(std::span<const Answer> answers, std::string_view input) {
  for (size_t i = 0; i < answers.size(); ++i) {
    const Answer& answer = answers[i];
    if (answer.origin.command == 0 || answer.origin.rejected) continue;
    const size_t end = i + 1 < answers.size() ? answers[i + 1].begin : input.size();
    const RequestWords request(input.substr(answer.begin, end - answer.begin));
    if (request.all().empty()) continue;
    NumberedCommand found = find_numbered(request.all()[0]);
    if (found.command == nullptr) continue;
    if (!found.command->subcommands.empty() && request.all().size() > 1) {
      found = find_numbered(found, request.all()[1]);
    }
    if (found.command != nullptr) note(*found.command, answer, request.all());
  }
}

}  // namespace isotherm::net
