#include "isotherm/db_batch.h"

#include <utility>

#include "db/db_state.h"
#include "db/statuses.h"

namespace isotherm {
namespace {

constexpr uint64_t pieces_of_memory = 32;

}  // namespace

struct DbBatch::State {
  explicit State(DbState& its_db) : db(its_db), lease(its_db.workers()) {}
  Batch& rows() { return lease.batch(); }

  // Rows of writes alone that memory has no room for at once, some after the other.
  void run_in_pieces(uint64_t most_bytes);

  DbState& db;
  DbWorkers::Lease lease;
  uint64_t bytes = 0;  // of keys and values that are put
  bool reads = false;
};

void DbBatch::State::run_in_pieces(uint64_t most_bytes) {
  Batch::Columns& columns = rows().columns();
  Batch piece;
  for (Row row = 0; row < rows().size();) {
    const Row first = row;
    uint64_t its_bytes = 0;
    for (; row < rows().size() && its_bytes < most_bytes; ++row) {
      piece.append(columns, row);
      its_bytes += columns.key[row].size() + columns.value[row].size();
    }
    db.wait_for_memory(lease, its_bytes);
    lease.worker().submit(piece);
    for (Row i = 0; i < piece.size(); ++i) {
      columns.reply[first + i].status.store(piece.reply(i).status, std::memory_order_relaxed);
    }
    const Row count = piece.size();
    piece.clear();
    lease.worker().maintain_behind(count, its_bytes);
  }
}

DbBatch::DbBatch(Db& db) : state_(std::make_unique<State>(*db.state_)) {}
DbBatch::~DbBatch() = default;

DbBatch::Row DbBatch::get(std::string_view key) {
  state_->reads = true;
  return state_->rows().get(key);
}
DbBatch::Row DbBatch::put(std::string_view key, std::string_view value) {
  state_->bytes += key.size() + value.size();
  return state_->rows().put(key, value, option::over_cap);
}
DbBatch::Row DbBatch::erase(std::string_view key) { return state_->rows().erase(key); }
DbBatch::Row DbBatch::size() const { return state_->rows().size(); }

DbStatus DbBatch::run() {
  return guarded([&]() -> DbStatus {
    Batch& rows = state_->rows();
    if (rows.empty()) return {};
    const uint64_t most = state_->db.engine().maxmemory() / pieces_of_memory;
    if (most != 0 && state_->bytes > most && !state_->reads) {
      state_->run_in_pieces(most);
    } else {
      if (state_->bytes != 0) state_->db.wait_for_memory(state_->lease, state_->bytes);
      state_->lease.submit();
    }
    if (!rows.writes()) return {};
    for (Row row = 0; row < rows.size(); ++row) {
      if (rows.columns().op[row] == Op::get) continue;
      if (DbStatus its = status(row); !its.ok()) return its;
    }
    return {};
  });
}

DbStatus DbBatch::status(Row row) const {
  const Status its = state_->rows().reply(row).status.load(std::memory_order_acquire);
  if (its == Status::ok) return {};
  if (its == Status::not_found && state_->rows().columns().op[row] == Op::erase) return {};
  return state_->db.with_reason(status_of(its));
}

std::string_view DbBatch::value(Row row) const { return state_->rows().reply(row).value(); }

void DbBatch::clear() {
  state_->reads = false;
  state_->lease.clear(std::exchange(state_->bytes, 0));
}

}  // namespace isotherm
