#include "net/memcached/protocol.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "net/memcached/admin.h"
#include "net/memcached/parser.h"
#include "net/memcached/stats.h"
#include "net/memcached/writer.h"
#include "net/server_state.h"
#include "net/spare_lists.h"

namespace isotherm::net {
namespace {

// Rows are rationed by the size of the answers seen so far: what passes the output's bound would
// run in vain.
constexpr size_t rows_per_turn_min = 16;
constexpr size_t rows_per_turn_max = 4096;

class MemcachedProtocol final : public Protocol {
 public:
  explicit MemcachedProtocol(ServerState& server) : server_(server) {}

  size_t parse(std::string_view input, Turn& turn) override {
    // It tells reads from writes late, so a pause of writes holds both.
    held_ = server_.pause.holds(turn.now_ms()) != Pause::Holds::nothing;
    if (held_) return 0;
    turn.batch.select(memcached_database);
    SpareLists<MemcachedAnswer>::begin(answers_, input.size());
    auto rows = static_cast<Batch::Row>(
        std::clamp(output_bound / value_bytes_, rows_per_turn_min, rows_per_turn_max));
    rows = std::min(rows, server_.options.memcached_reqs_per_event);
    Batch::Row reads = reads_before_change(value_bytes_);
    if (turn.waiting != nullptr) [[unlikely]]
      reads -= std::min(reads, aside_reads_);
    const Batch::Row first = turn.batch.size();
    const net::ServerOptions& options = server_.options;
    MemcachedPrefixes& prefixes = server_.memcached.prefixes;
    const size_t parsed = parser_.parse(
        input, {turn.now_ms(), rows, turn.batch, answers_, reads, &turn.copies, false, turn.waiting,
                options.memcached_item_size_max, options.memcached_flush, options.memcached_dumps,
                server_.memcached.tracks_sizes.load(std::memory_order_relaxed),
                prefixes.on() ? &prefixes : nullptr, server_.flush_ends_turn()});
    parsed_end_ = input.data() + parsed;
    rows_end_ = turn.batch.size();
    if (arriving_ != nullptr && !parser_.diverts()) [[unlikely]]
      note_arrived(turn.batch, first);
    return parsed;
  }

  ArrivingItem* arriving(InputBuffer& input) override {
    if (arriving_ == nullptr) {
      waits_to_arrive_ = false;
      if (parser_.partial().bytes < Engine::least_arriving) return nullptr;
      divert(input);
      if (arriving_ == nullptr) return nullptr;
    }
    return arriving_->complete() ? nullptr : arriving_.get();
  }

  size_t reply(Turn& turn, Output& output) override {
    const size_t count = answers_.size() - (waits_alone() ? 1 : 0);
    const size_t bytes_before = output.size();
    const char* left = parsed_end_;
    const std::string_view not_saved =
        turn.batch.unsaved() ? unsaved_line(server_) : unreadable_line;
    const bool notes = turn.reply_ends != nullptr || server_.memcached.prefixes.on();
    size_t rows = 0;
    size_t given = 0;
    while (given < count && left == parsed_end_) {
      const MemcachedAnswer& answer = answers_[given++];
      const bool fixed = given <= parser_.fixed_answers();
      if (answer.verb == MemcachedVerb::flush_all) server_.memcached.flush.set(FlushTime::never);
      const Batch::Row written =
          write_answer(answer, turn.batch, turn.counters.memcached, output,
                       fixed ? std::numeric_limits<size_t>::max() : turn.full_output, not_saved);
      rows += written;
      if (notes) [[unlikely]]
        note_written(answer, written, turn, output);
      if (written == answer.count) continue;
      const Batch::Row first_left = answer.row + written;
      left = turn.batch.columns().key[first_left].data();
      parser_.take_back(answer, left);
      turn.worker.uncount_reads(turn.batch, first_left, rows_end_);
    }
    arrived_.reset();
    if (rows != 0) learn_value_bytes((output.size() - bytes_before) / rows);
    turn.counters[LoopCount::commands].add(given);
    turn.counters.by_command.note_others(given + rows);
    answers_.erase(answers_.begin(), answers_.begin() + static_cast<ptrdiff_t>(count));
    if (answers_.empty()) SpareLists<MemcachedAnswer>::end(answers_);
    parser_.meta_commands().clear();
    return static_cast<size_t>(parsed_end_ - left);
  }

  bool may_put_aside() const override {
    return !held_ && !closing() && !stopped_early() &&
           reads_of(answers_) + aside_reads_ <= reads_before_change(value_bytes_);
  }

  std::unique_ptr<Owed> put_aside() override {
    auto owed = std::make_unique<OwedAside>();
    aside_reads_ += reads_of(answers_);
    owed->answers.swap(answers_);
    std::swap(owed->meta_commands, parser_.meta_commands());
    owed->arrived = std::move(arrived_);
    return owed;
  }

  void reply_aside(Owed& owed, Turn& turn, Output& output) override {
    auto& aside = static_cast<OwedAside&>(owed);
    aside_reads_ -= reads_of(aside.answers);
    swap_owed(aside);
    reply(turn, output);
    swap_owed(aside);
  }

  bool owes() const override { return !answers_.empty(); }

  bool waits_alone() const override {
    return walk_ != nullptr || (!answers_.empty() && answers_.back().runs_alone());
  }
  bool walks() const override {
    return walk_ != nullptr || (!answers_.empty() && answers_.back().walks);
  }

  const Walk* walk() const override { return walk_.get(); }

  void run_alone(Turn& turn, Output& output) override {
    if (walk_ != nullptr) return step(turn);
    const MemcachedAnswer answer = answers_.back();
    answers_.pop_back();
    turn.counters[LoopCount::commands].add();
    if (answer.walks) {
      walk_ = begin_walk(answer.text, output);
      return walk_ != nullptr ? step(turn) : void();
    }
    if (answer.verb == MemcachedVerb::stats) return write_stats(answer.text, server_, output);
    const std::string_view text = change(answer, turn);
    if (!answer.silent) output.append(text);
  }

  void end_step(Turn& turn, Output& output) override {
    if (walk_->end_step(turn.batch, output)) walk_.reset();
  }

  void restart() override {
    parser_ = MemcachedParser();
    answers_.clear();
    walk_.reset();
    held_ = false;
  }

  bool closing() const override { return parser_.closing(); }
  size_t wanted() const override { return parser_.wanted(); }
  bool stopped_early() const override { return held_ || parser_.stopped_early() || waits_alone(); }

 private:
  struct OwedAside final : Owed {
    std::vector<MemcachedAnswer> answers;
    MetaCommands meta_commands;
  };

  void swap_owed(OwedAside& aside) {
    std::swap(aside.answers, answers_);
    std::swap(aside.arrived, arrived_);
    std::swap(aside.meta_commands, parser_.meta_commands());
  }

  static Batch::Row reads_of(const std::vector<MemcachedAnswer>& answers) {
    Batch::Row rows = 0;
    for (const MemcachedAnswer& answer : answers) {
      const bool reads =
          answer.verb >= MemcachedVerb::get && answer.verb <= MemcachedVerb::meta_get;
      if (reads) rows += answer.count;
    }
    return rows;
  }
  // What runs alone and changes something of the server.
  std::string_view change(const MemcachedAnswer& answer, Turn& turn) {
    if (answer.verb == MemcachedVerb::memory_limit) return set_memory_limit(answer.text, server_);
    if (answer.verb == MemcachedVerb::verbosity) return set_verbosity(answer.text, server_);
    turn.counters.memcached.cmd_flush.add();
    server_.memcached.flush.set(answer.time_ms);
    return "OK\r\n";
  }
  // To whoever counts them by prefix, and where the reply ends.
  void note_written(const MemcachedAnswer& answer, Batch::Row written, Turn& turn,
                    const Output& output) {
    if (server_.memcached.prefixes.on() && answer.verb >= MemcachedVerb::get &&
        answer.verb <= MemcachedVerb::gats) {
      const Batch::Columns& columns = turn.batch.columns();
      for (Batch::Row row = answer.row; row < answer.row + written; ++row) {
        const bool hit = columns.reply[row].status == Status::ok;
        server_.memcached.prefixes.note_get(columns.key[row], hit);
      }
    }
    if (turn.reply_ends != nullptr && !answer.unfinished && written == answer.count) {
      turn.reply_ends->note(output.size());
    }
  }
  void step(Turn& turn) {
    turn.batch.select(memcached_database);
    walk_->begin_step(turn.batch);
  }

  // The block of a set and its like becomes an item as it comes. Where the cap refuses it, it is
  // received and refused like small ones.
  void divert(InputBuffer& input) {
    const MemcachedParser::Partial block = parser_.partial();
    const std::string_view there = input.unread().substr(block.begin);
    if (there.size() >= block.bytes) return;
    arriving_ = server_.engine.arriving(block.key_bytes, block.bytes);
    waits_to_arrive_ = arriving_ == nullptr;
    if (arriving_ != nullptr && !arriving_->usable()) arriving_.reset();
    if (arriving_ == nullptr) return;
    arriving_->append(there);
    input.drop_back(there.size());
    parser_.divert(arriving_->value());
  }

  // Its request was the first parsed, unless it was refused.
  void note_arrived(Batch& batch, Batch::Row first) {
    arrived_ = std::move(arriving_);
    Batch::Columns& columns = batch.columns();
    const bool stores = batch.size() != first && columns.op[first] == Op::put &&
                        columns.value[first].data() == arrived_->value().data();
    if (stores) columns.options[first] |= option::in_place;
  }

  // Large values are believed at once and forgotten slowly.
  void learn_value_bytes(size_t bytes) {
    value_bytes_ = std::max({bytes, value_bytes_ - value_bytes_ / 8, size_t{1}});
  }

  ServerState& server_;
  MemcachedParser parser_;
  std::unique_ptr<ArrivingItem> arriving_;  // of the command at the front of the input
  std::vector<MemcachedAnswer> answers_;
  std::unique_ptr<Walk> walk_;        // that is under way
  Batch::Row aside_reads_ = 0;        // of what is owed aside
  const char* parsed_end_ = nullptr;  // of the input of this turn
  Batch::Row rows_end_ = 0;           // of its rows
  size_t value_bytes_ = 256;          // how much a row is expected to answer, at first unseen
};

}  // namespace

std::unique_ptr<Protocol> make_memcached_protocol(ServerState& server) {
  return std::make_unique<MemcachedProtocol>(server);
}

// While the journal fails it would be refused; it stays due until then.
void add_due_flush(ServerState& server, Batch& batch, int64_t now_ms) {
  if (server.journal != nullptr && server.journal->error() != 0) return;
  if (!server.memcached.flush.take_due(now_ms)) return;
  batch.flush(memcached_database, memcached_database + 1);
}

}  // namespace isotherm::net
