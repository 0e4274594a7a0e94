#include "server/journal_rewriter.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <string>

#include "base/lasting_thread.h"
#include "base/reason_of.h"
#include "db/store_filler.h"
#include "net/log.h"
#include "tree/tree.h"

namespace isotherm {
namespace {

void append_put(std::string& records, uint32_t database, std::string_view key, uint64_t state,
                const Reply& reply) {
  RecordHeader record{};
  record.op = RecordOp::put;
  record.database = database;
  record.version = reply.version;
  record.expiry = reply.expiry;
  record.flags = reply.flags;
  record.type = static_cast<uint8_t>(reply.type);
  record.state = static_cast<uint16_t>(state);
  const size_t begin = records.size();
  records.resize(begin + record_bytes(key.size(), reply.value().size()));
  put_record(records.data() + begin, record, key, reply.value());
}

constexpr uint64_t record_overhead = 64;  // of the header and the zeros behind it, no less

// What cannot be read for another reason must not go with the files that have it.
bool is_known(Status status) {
  return status == Status::ok || status == Status::not_found || status == Status::wrong_type;
}

class CountedBytes {
 public:
  CountedBytes(Engine& engine, uint64_t bytes)
      : engine_(engine), bytes_(static_cast<int64_t>(bytes)) {
    engine_.add_sink_bytes(bytes_);
  }
  ~CountedBytes() { engine_.add_sink_bytes(-bytes_); }
  CountedBytes(const CountedBytes&) = delete;
  CountedBytes& operator=(const CountedBytes&) = delete;

 private:
  Engine& engine_;
  const int64_t bytes_;
};

}  // namespace

JournalRewriter::JournalRewriter(Engine& engine, Journal& journal, const net::LiveOptions& live)
    : engine_(engine),
      journal_(journal),
      live_(live),
      looks_(RewriteWalk::most_keys, MetaRequest{.kind = MetaRequest::Kind::look}),
      thread_(lasting_thread([this] { run(); })) {}

JournalRewriter::~JournalRewriter() {
  journal_.rewrite_job().stop();
  thread_.join();
}

void JournalRewriter::run() {
  constexpr std::chrono::milliseconds between_looks(500);
  BackgroundJob& job = journal_.rewrite_job();
  while (!job.stops()) {
    if (!job.wait(between_looks) && (job.stops() || !is_due())) continue;
    job.begin(now_s());
    bool worked = false;
    try {
      worked = rewrite();
    } catch (const std::exception& error) {
      net::log(net::LogLevel::warning, reason_of(error));
    }
    if (!worked || journal_.is_incomplete()) not_before_ = Clock::now() + after_failure;
    if (worked) {
      net::log(net::LogLevel::notice, "the journal was written anew");
    } else {
      net::log(net::LogLevel::warning, "the journal could not be written anew" +
                                           (result_ < 0 ? ": " + reason_of(-result_) : ""));
    }
    job.end(worked, now_s());
  }
}

bool JournalRewriter::is_due() const {
  if (Clock::now() < not_before_) return false;
  if (journal_.is_incomplete()) return journal_.error() == 0;
  const Tree* const tree = engine_.tree();
  if (tree != nullptr && (tree->lasts() || tree->is_lost())) return false;
  const uint64_t percentage = live_.auto_aof_rewrite_percentage;
  const uint64_t bytes = journal_.live_bytes();
  if (percentage == 0 || bytes < live_.auto_aof_rewrite_min_size || journal_.error() != 0) {
    return false;
  }
  const uint64_t base = journal_.base_bytes();
  return bytes >= base + base / 100 * percentage;
}

uint64_t JournalRewriter::bytes_at_once() const {
  constexpr uint64_t part = 16;
  const uint64_t cap = engine_.maxmemory();
  return cap == 0 ? most_bytes : std::min(most_bytes, cap / part);
}

bool JournalRewriter::rewrite() {
  result_ = 0;
  Tree* const tree = engine_.tree();
  if (tree != nullptr && tree->lasts()) return tree->flush();
  // What the GPU had is in the journal alone by now.
  if (tree != nullptr && tree->is_lost()) return false;
  uint64_t most_records = journal_.live_bytes();
  if (tree == nullptr) {
    const uint64_t heads = record_overhead * count_keys(engine_);
    most_records = std::min(most_records, engine_.stats().item_bytes + heads);
  }
  result_ = journal_.begin_rewrite(most_records);
  if (result_ < 0) return false;
  Worker worker(engine_);
  for (uint32_t i = 0; i < engine_.options().databases; ++i) {
    if (!rewrite_database(worker, i)) return false;
  }
  if (tree != nullptr && tree->is_lost()) return false;
  result_ = journal_.end_rewrite();
  return result_ >= 0;
}

bool JournalRewriter::rewrite_database(Worker& worker, uint32_t database) {
  RewriteWalk walk(worker, database);
  while (!walk.at_end()) {
    const std::vector<RewriteWalk::Found>& found = walk.next(bytes_at_once());
    for (size_t first = 0; first < found.size();) {
      if (!put_some(worker, database, found, first)) return false;
    }
  }
  return true;
}

// From `first` on, which it moves. What is shown is safe, so no record of a change that a crash
// takes back gets in this way.
bool JournalRewriter::put_some(Worker& worker, uint32_t database,
                               const std::vector<RewriteWalk::Found>& found, size_t& first) {
  Batch batch;
  batch.select(database);
  uint64_t bytes = 0;
  for (MetaRequest& look : looks_) {
    batch.meta(found[first].key, {}, look);
    bytes += found[first].record_bytes;
    if (++first == found.size() || bytes >= bytes_at_once()) break;
  }
  const CountedBytes counted(engine_, bytes);
  std::string records;
  records.reserve(bytes);
  worker.submit(batch);
  worker.uncount_reads(batch, 0, batch.size());
  for (Batch::Row row = 0; row < batch.size(); ++row) {
    const Reply& reply = batch.reply(row);
    if (!is_known(reply.status)) return false;
    if (reply.status != Status::ok) continue;
    append_put(records, database, batch.columns().key[row], looks_[row].state, reply);
  }
  // The journal may have it wait, and memory that others replace must become free meanwhile.
  batch.clear();
  return records.empty() || journal_.put_again(records);
}

}  // namespace isotherm
