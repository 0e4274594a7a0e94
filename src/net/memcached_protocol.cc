#include "net/memcached_protocol.h"

#include <algorithm>
#include <vector>

#include "net/memcached_admin.h"
#include "net/memcached_parser.h"
#include "net/memcached_writer.h"
#include "net/server_state.h"

namespace isotherm::net {
namespace {

constexpr uint32_t memcached_database = 0;

// The answers of a turn are held at once: rows are rationed by the size of the answers seen so far,
// so that a get of many large values is answered in pieces, as fast as the client reads them.
constexpr size_t answer_bytes_per_turn = 4 << 20;
constexpr size_t rows_per_turn_min = 16;
constexpr size_t rows_per_turn_max = 4096;

class MemcachedProtocol final : public Protocol {
 public:
  explicit MemcachedProtocol(ServerState& server) : server_(server) {}

  size_t parse(std::string_view input, Turn& turn) override {
    // It tells reads from writes late, so a pause of writes holds both.
    held_ = server_.pause.holds(turn.now_ms) != Pause::Holds::nothing;
    if (held_) return 0;
    flush_if_due(server_, turn.worker, turn.now_ms);
    turn.batch.select(memcached_database);
    const auto rows = static_cast<Batch::Row>(
        std::clamp(answer_bytes_per_turn / value_bytes_, rows_per_turn_min, rows_per_turn_max));
    return parser_.parse(input, {turn.now_ms, rows, turn.batch, answers_});
  }

  void reply(Turn& turn, Output& output) override {
    const size_t alone = waits_alone() ? 1 : 0;
    const size_t count = answers_.size() - alone;
    const size_t bytes_before = output.size();
    size_t rows = 0;
    for (size_t i = 0; i < count; ++i) {
      write_answer(answers_[i], turn.batch, turn.counters.memcached, output);
      rows += answers_[i].count;
    }
    if (rows != 0) learn_value_bytes((output.size() - bytes_before) / rows);
    turn.counters.commands.add(count);
    turn.counters.by_command.note_others(count + rows);
    answers_.erase(answers_.begin(), answers_.begin() + static_cast<ptrdiff_t>(count));
  }

  bool waits_alone() const override { return !answers_.empty() && answers_.back().runs_alone(); }

  void run_alone(Turn& turn, Output& output) override {
    const MemcachedAnswer answer = answers_.back();
    answers_.pop_back();
    turn.counters.commands.add();
    if (answer.verb == MemcachedVerb::stats) {
      return write_stats(answer.text, server_, turn.worker, output);
    }
    if (answer.verb == MemcachedVerb::memory_limit) {
      const std::string_view text = set_memory_limit(answer.text, server_);
      if (!answer.silent) output.append(text);
      return;
    }
    turn.counters.memcached.cmd_flush.add();
    if (answer.time_ms == FlushTime::at_once) {
      server_.memcached.flush.set(FlushTime::never);
      turn.worker.flush(memcached_database);
    } else {
      server_.memcached.flush.set(answer.time_ms);
    }
    if (!answer.silent) output.append("OK\r\n");
  }

  bool held() const override { return held_; }
  bool closing() const override { return parser_.closing(); }
  size_t wanted() const override { return parser_.wanted(); }
  bool stopped_early() const override { return held_ || parser_.stopped_early() || waits_alone(); }

 private:
  // Large values are believed at once and forgotten slowly.
  void learn_value_bytes(size_t bytes) {
    value_bytes_ = std::max({bytes, value_bytes_ - value_bytes_ / 8, size_t{1}});
  }

  ServerState& server_;
  MemcachedParser parser_;
  std::vector<MemcachedAnswer> answers_;
  bool held_ = false;
  size_t value_bytes_ = 16 << 10;  // how much a row is expected to answer, at first unseen
};

}  // namespace

std::unique_ptr<Protocol> make_memcached_protocol(ServerState& server) {
  return std::make_unique<MemcachedProtocol>(server);
}

void flush_if_due(ServerState& server, Worker& worker, int64_t now_ms) {
  if (server.memcached.flush.take_due(now_ms)) worker.flush(memcached_database);
}

}  // namespace isotherm::net
