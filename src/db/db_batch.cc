#include "isotherm/db_batch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "db/db_state.h"
#include "db/statuses.h"
#include "tree/range_reader.h"

namespace isotherm {
namespace {

constexpr uint64_t pieces_of_memory = 32;

}  // namespace

struct DbBatch::State {
  explicit State(DbState& its_db)
      : db(its_db), lease(its_db.workers()), reader(its_db.tree().ranges()) {}
  Batch& rows() { return lease.batch(); }

  void run();
  void run_rows(Row first, Row end, uint64_t most_bytes);
  bool has_room(uint64_t its_bytes);
  void refuse_writes(Row first, Row end);
  void take_answer(Row row, const Reply& from);
  bool writes(Row first, Row end);
  void read_ranges(size_t first, size_t end);

  DbState& db;
  DbWorkers::Lease lease;
  uint64_t bytes = 0;    // of keys and values that are put, and of keys that are erased
  bool refuses = false;  // rows that write, since there was no room for others before them

  RangeReader reader;
  std::vector<RangeAsked> asked;
  std::vector<Row> before;  // rows that were added before each
  std::vector<RangePairs> found;
  DbStatus problem;                            // of ranges
  bool has_read = false;                       // all of them
  std::vector<std::unique_ptr<Batch>> pieces;  // whose rows have read
};

// Ranges go together as long as no write is between them.
void DbBatch::State::run() {
  const uint64_t most_bytes = db.engine().maxmemory() / pieces_of_memory;
  Row done = 0;
  refuses = false;
  for (size_t first = 0; first < asked.size();) {
    size_t end = first + 1;
    while (end < asked.size() && !writes(before[end - 1], before[end])) ++end;
    const bool last = end == asked.size() && !writes(before[end - 1], rows().size());
    const Row upto = last ? rows().size() : before[first];
    run_rows(done, upto, most_bytes);
    done = upto;
    read_ranges(first, end);
    first = end;
  }
  run_rows(done, rows().size(), most_bytes);
}

bool DbBatch::State::writes(Row first, Row end) {
  const Batch::Columns& columns = rows().columns();
  return std::any_of(columns.op + first, columns.op + end, [](Op op) { return op != Op::get; });
}

// If they write alone, in pieces that memory has room for.
void DbBatch::State::run_rows(Row first, Row end, uint64_t most_bytes) {
  if (first == end) return;
  Batch::Columns& columns = rows().columns();
  const bool has_reads =
      std::any_of(columns.op + first, columns.op + end, [](Op op) { return op == Op::get; });
  const bool cuts = most_bytes != 0 && bytes > most_bytes && !has_reads;
  if (end - first == rows().size() && !cuts) {
    if (rows().writes() && !has_room(bytes)) return refuse_writes(first, end);
    return lease.submit();
  }
  for (Row row = first; row < end;) {
    auto piece = std::make_unique<Batch>();
    const Row begin = row;
    uint64_t its_bytes = 0;
    for (; row < end && (!cuts || its_bytes < most_bytes); ++row) {
      piece->append(columns, row);
      its_bytes += columns.key[row].size() + columns.value[row].size();
    }
    if (piece->writes() && !has_room(its_bytes)) return refuse_writes(begin, end);
    lease.worker().submit(*piece);
    for (Row i = 0; i < piece->size(); ++i) take_answer(begin + i, piece->reply(i));
    if (has_reads) {
      pieces.push_back(std::move(piece));
    } else {
      const Row count = piece->size();
      piece->clear();
      lease.worker().maintain_behind(count, its_bytes);
    }
  }
}

// Waits for it, but once there was none the rest of the batch does not wait again.
bool DbBatch::State::has_room(uint64_t its_bytes) {
  refuses = refuses || !db.wait_for_memory(lease, its_bytes);
  return !refuses;
}

// The rows between them that read do so.
void DbBatch::State::refuse_writes(Row first, Row end) {
  const Batch::Columns& columns = rows().columns();
  std::vector<Row> reads;
  auto piece = std::make_unique<Batch>();
  for (Row row = first; row < end; ++row) {
    if (columns.op[row] == Op::get) {
      piece->append(columns, row);
      reads.push_back(row);
    } else {
      columns.reply[row].status.store(Status::out_of_memory, std::memory_order_release);
    }
  }
  if (reads.empty()) return;
  lease.worker().submit(*piece);
  for (Row i = 0; i < piece->size(); ++i) take_answer(reads[i], piece->reply(i));
  pieces.push_back(std::move(piece));
}

void DbBatch::State::take_answer(Row row, const Reply& from) {
  Reply& reply = rows().columns().reply[row];
  reply.copy_answer(from);
  reply.status.store(from.status, std::memory_order_relaxed);
}

void DbBatch::State::read_ranges(size_t first, size_t end) {
  const std::shared_ptr<const TreeMoment> moment = db.take_moment(lease.worker(), true);
  const std::string its = reader.read(*moment, std::span(asked).subspan(first, end - first),
                                      std::span(found).subspan(first, end - first));
  if (!its.empty() && problem.ok()) problem = {DbStatus::Code::not_saved, its};
}

DbBatch::DbBatch(Db& db) : state_(std::make_unique<State>(*db.state_)) {}
DbBatch::~DbBatch() = default;

DbBatch::Row DbBatch::get(std::string_view key) { return state_->rows().get(key); }
DbBatch::Row DbBatch::put(std::string_view key, std::string_view value) {
  state_->bytes += key.size() + value.size();
  return state_->rows().put(key, value, option::over_cap);
}
// Until the files are without the key, memory has it as one that is erased.
DbBatch::Row DbBatch::erase(std::string_view key) {
  state_->bytes += key.size();
  return state_->rows().erase(key);
}
DbBatch::Row DbBatch::size() const { return state_->rows().size(); }

DbBatch::RangeRow DbBatch::range(std::string_view first, std::string_view end, uint32_t limit) {
  state_->before.push_back(state_->rows().size());
  state_->asked.push_back({first, end, limit});
  state_->found.emplace_back();
  return {static_cast<uint32_t>(state_->asked.size() - 1)};
}

DbStatus DbBatch::run() {
  return guarded([&]() -> DbStatus {
    Batch& rows = state_->rows();
    if (rows.empty() && state_->asked.empty()) return {};
    state_->problem = {};
    state_->has_read = false;
    state_->run();
    state_->has_read = state_->problem.ok();
    for (Row row = 0; rows.writes() && row < rows.size(); ++row) {
      if (rows.columns().op[row] == Op::get) continue;
      if (DbStatus its = status(row); !its.ok()) return its;
    }
    return state_->problem;
  });
}

DbStatus DbBatch::status(Row row) const {
  const Status its = state_->rows().reply(row).status.load(std::memory_order_acquire);
  if (its == Status::ok) return {};
  if (its == Status::not_found && state_->rows().columns().op[row] == Op::erase) return {};
  return guarded([&] { return state_->db.with_reason(status_of(its)); });
}

std::string_view DbBatch::value(Row row) const { return state_->rows().reply(row).value(); }

DbPairs DbBatch::pairs(RangeRow row) const {
  const RangePairs its = state_->has_read ? state_->found[row.number] : RangePairs();
  return {its.at, its.count};
}

void DbBatch::clear() {
  state_->pieces.clear();
  state_->reader.clear();
  state_->asked.clear();
  state_->before.clear();
  state_->found.clear();
  state_->has_read = false;
  state_->lease.clear(std::exchange(state_->bytes, 0));
}

}  // namespace isotherm
