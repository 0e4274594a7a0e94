#include "isotherm/row_table.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <new>
#include <stdexcept>
#include <thread>

#include "base/seed.h"
#include "base/tile.h"
#include "engine/row_eviction.h"
#include "gpu/kernel/request_op.h"
#include "gpu/table/fixed_loops.h"
#include "index/growth_share.h"
#include "items/epoch.h"
#include "items/memory_budget.h"
#include "items/pages.h"
#include "items/row_pool.h"

namespace isotherm {
namespace {

constexpr size_t rows_per_part = 1024;
// Keys whose rows are prefetched while those of the window before are copied.
constexpr size_t rows_per_window = 64;
constexpr size_t rows_ahead = 16;

uint64_t checked_row_bytes(uint64_t bytes) {
  if (bytes == 0 || bytes > RowTableOptions::most_row_bytes) {
    throw std::invalid_argument("row_bytes must be 1 to 1048576");
  }
  return bytes;
}

const RowTableOptions& checked_scores(const RowTableOptions& options) {
  if (options.scores > RowScores::use) {
    throw std::invalid_argument("scores is none of RowScores");
  }
  if (!options.evict) return options;
  if (options.scores == RowScores::none) {
    throw std::invalid_argument("a table of rows evicts by their scores, and this one has none");
  }
  if (options.maxmemory != 0 && options.maxmemory < RowTableOptions::least_evicting) {
    throw std::invalid_argument("a table of rows that evicts needs 16 MiB of memory or more");
  }
  return options;
}

// An index that is not capped takes room for no more keys than a table that evicts may have.
uint64_t expected_of(const RowTableOptions& options) {
  if (!options.evict || options.maxmemory == 0) return options.expected_rows;
  return std::min(options.expected_rows,
                  options.maxmemory / (options.row_bytes + RowPool::index_bytes));
}

void require_row_columns(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(what);
}

// Reads some lines of a row ahead; the processor's own prefetch goes on from there.
void prefetch_row(uint64_t word, uint64_t bytes) {
  const auto* const row = reinterpret_cast<const char*>(word);
  for (uint64_t at = 0; at < std::min<uint64_t>(bytes, 512); at += 64) {
    __builtin_prefetch(row + at);
  }
}

}  // namespace

struct RowTable::State {
  explicit State(const RowTableOptions& options)
      : row_bytes(checked_row_bytes(options.row_bytes)),
        scores(checked_scores(options).scores),
        evicts(options.evict),
        budget(options.maxmemory),
        seed(options.hash_seed ? *options.hash_seed : draw_seed()),
        index(pages, budget, epochs, seed, !evicts, expected_of(options)),
        pool(pages, budget, epochs, row_bytes, scores != RowScores::none),
        eviction(index, pool, epochs) {
    // A table that could never store a row is refused at once.
    if (options.maxmemory != 0 && budget.used() + Pages::page_bytes > options.maxmemory) {
      throw std::bad_alloc();
    }
    pages.fault_ahead(budget);
  }

  const uint64_t row_bytes;
  const RowScores scores;
  const bool evicts;
  std::atomic<uint64_t> now{0};  // parts of calls, of rows with the times of their use
  MemoryBudget budget;
  Pages pages;
  EpochDomain epochs;
  const uint64_t seed;
  FixedIndex index;  // of the addresses of rows
  RowPool pool;
  RowEviction eviction;
};

RowTable::RowTable(const RowTableOptions& options) : state_(std::make_unique<State>(options)) {}
RowTable::~RowTable() = default;

uint64_t RowTable::size() const { return state_->index.count(); }
uint64_t RowTable::memory() const { return state_->budget.used(); }
uint64_t RowTable::row_bytes() const { return state_->row_bytes; }
uint64_t RowTable::evictions() const { return state_->eviction.evictions(); }

struct RowHandle::State {
  explicit State(RowTable::State& its_table)
      : table(its_table),
        taken(its_table.epochs),
        bytes(its_table.row_bytes),
        scored(its_table.scores != RowScores::none),
        by_use(its_table.scores == RowScores::use) {}

  // A part of a call; `from` is its first row.
  struct Part {
    size_t from;
    size_t rows;
  };
  // Rows of memory that a part may use, which it takes from the end, and those it has unlinked.
  struct Spare {
    std::array<char*, rows_per_part> free;
    size_t left = 0;
    std::array<char*, rows_per_part> unlinked;
    size_t gone = 0;
    bool only_replace = false;  // they are the reserve
  };

  uint64_t get(const RowRequests& requests, Part part);
  void score(const RowRequests& requests, size_t row, uint64_t word);
  void take(std::span<char*> wanted, Spare& spare);
  void write(const RowRequests& requests, Part part, Spare& spare, Result& result);
  void write_one(const RowRequests& requests, size_t row, Spare& spare, Result& result);
  Result write_all(const RowRequests& requests);

  void begin_part() {
    if (by_use) now = table.now.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  char* out_of(const RowRequests& requests, size_t row) const {
    return static_cast<char*>(requests.rows_out) + row * bytes;
  }

  RowTable::State& table;
  const TakenSlot taken;
  const uint64_t bytes;
  const bool scored;
  const bool by_use;
  uint64_t now = 0;  // of the part
  GrowthShare growth;
};

// Row `row` of the requests has found this one, or has asked for its score.
void RowHandle::State::score(const RowRequests& requests, size_t row, uint64_t word) {
  RowHead& head = RowHead::of(word);
  if (by_use) head.set_score(now);
  if (requests.op == TableOp::get && requests.scores != nullptr) {
    requests.scores[row] = head.score();
  }
}

uint64_t RowHandle::State::get(const RowRequests& requests, Part part) {
  std::array<std::array<uint64_t, rows_per_window>, 2> words;
  uint64_t count = 0;
  const size_t end = part.from + part.rows;
  const auto find = [&](size_t from, size_t window) {
    if (from >= end) return;
    const size_t rows = std::min(rows_per_window, end - from);
    const FixedRun run{table.index, requests.keys.data() + from, rows,
                       nullptr,     words[window].data(),        requests.found + from};
    count += fixed_loops().get(run).found;
    if (requests.rows_out == nullptr && !scored) return;
    for (size_t i = 0; i < rows; ++i) {
      if (requests.found[from + i] != 0) prefetch_row(words[window][i], bytes);
    }
  };
  find(part.from, 0);
  for (size_t from = part.from, window = 0; from < end; from += rows_per_window, window ^= 1) {
    find(from + rows_per_window, window ^ 1);
    const size_t rows = std::min(rows_per_window, end - from);
    for (size_t i = 0; i < rows; ++i) {
      if (requests.found[from + i] == 0) continue;
      if (scored) score(requests, from + i, words[window][i]);
      if (requests.rows_out == nullptr) continue;
      std::memcpy(out_of(requests, from + i), reinterpret_cast<const void*>(words[window][i]),
                  bytes);
    }
  }
  return count;
}

// Fills new memory and swaps it in. What depends on the row that is there is done under the lock of
// its line.
void RowHandle::State::write_one(const RowRequests& requests, size_t row, Spare& spare,
                                 Result& result) {
  const auto input = [&](const void* column) {
    return static_cast<const char*>(column) + row * bytes;
  };
  char* const fresh = requests.op != TableOp::erase ? spare.free[spare.left - 1] : nullptr;
  const auto fill = [&] { std::memcpy(fresh, input(requests.rows), bytes); };
  if (fresh != nullptr && requests.op != TableOp::add) fill();
  RowHead* const head = scored && fresh != nullptr ? &RowHead::of(fresh) : nullptr;
  const bool keeps_score = head != nullptr && !by_use && requests.scores == nullptr;
  if (head != nullptr) {
    head->set_key(requests.keys[row]);
    head->set_score(by_use ? now : keeps_score ? 0 : requests.scores[row]);
  }
  const Decision store{Action::store, reinterpret_cast<uint64_t>(fresh)};
  bool refused = false;
  auto decide = [&](bool found, uint64_t word) -> Decision {
    const char* const before = reinterpret_cast<const char*>(word);
    refused = false;
    if (keeps_score) head->set_score(found ? RowHead::of(word).score() : 0);
    if (requests.op == TableOp::erase) return {found ? Action::erase : Action::keep, 0};
    if (requests.op == TableOp::compare_and_swap) {
      const bool equal = found && std::memcmp(before, input(requests.expected), bytes) == 0;
      return equal ? store : Decision{};
    }
    if (!found) {
      refused = spare.only_replace;
      if (requests.op == TableOp::add) fill();
      return refused ? Decision{} : store;
    }
    if (requests.op == TableOp::put_if_absent) return {};
    if (requests.op == TableOp::add) {
      std::memcpy(fresh, before, bytes);
      requests.sum(fresh, input(requests.rows), bytes);
    }
    return store;
  };
  const Updated updated =
      table.index.update<TilePlain>(table.index.hash(requests.keys[row]), decide);
  refused |= updated.change == Change::no_line;
  char* const before = reinterpret_cast<char*>(updated.previous.word);
  const bool present = updated.previous.found;
  if (updated.change == Change::replaced || updated.change == Change::erased) {
    spare.unlinked[spare.gone++] = before;
    if (scored) RowHead::of(before).drop();
  } else if (scored && present) {
    score(requests, row, updated.previous.word);
  }
  if (updated.change == Change::replaced || updated.change == Change::inserted) {
    --spare.left;
  } else if (head != nullptr) {
    head->drop();
  }
  result.found += static_cast<uint64_t>(present);
  result.refused += static_cast<uint64_t>(refused);
  if (requests.found != nullptr) {
    requests.found[row] = refused ? reply_retry : static_cast<uint8_t>(present);
  }
  // The row before stays as it is while this call is in its epoch.
  if (present && requests.rows_out != nullptr) std::memcpy(out_of(requests, row), before, bytes);
}

void RowHandle::State::write(const RowRequests& requests, Part part, Spare& spare, Result& result) {
  const EpochGuard guard(table.epochs, *taken.slot);
  const size_t end = part.from + part.rows;
  const auto prefetch = [&](size_t row) {
    if (row < end) table.index.lines().prefetch(table.index.hash(requests.keys[row]), true);
  };
  for (size_t i = 0; i < rows_ahead; ++i) prefetch(part.from + i);
  for (size_t row = part.from; row < end; ++row) {
    prefetch(row + rows_ahead);
    write_one(requests, row, spare, result);
  }
}

void RowHandle::State::take(std::span<char*> wanted, Spare& spare) {
  spare.left = table.pool.take(wanted);
  while (spare.left == 0 && table.evicts) {
    if (!table.eviction.run(wanted.size(), *taken.slot)) break;
    spare.left = table.pool.take(wanted);
    if (spare.left == 0) std::this_thread::yield();  // those that went may be read still
  }
  if (spare.left != 0) return;
  spare.only_replace = true;
  spare.left = table.pool.take_reserved(wanted);
}

RowHandle::Result RowHandle::State::write_all(const RowRequests& requests) {
  Result result;
  Spare spare;
  const size_t rows = requests.keys.size();
  for (size_t from = 0; from < rows;) {
    size_t part = std::min(rows_per_part, rows - from);
    spare.left = spare.gone = 0;
    spare.only_replace = false;
    if (requests.op != TableOp::erase) {
      take({spare.free.data(), part}, spare);
      if (spare.left == 0) {  // there was never memory for a row, so every key is absent
        result.refused += rows - from;
        if (requests.found != nullptr) {
          std::fill_n(requests.found + from, rows - from, reply_retry);
        }
        return result;
      }
      part = std::min(part, spare.left);
    }
    begin_part();
    write(requests, {from, part}, spare, result);
    table.pool.give({spare.free.data(), spare.left}, {spare.unlinked.data(), spare.gone});
    growth.add(part);
    growth.pay(table.index.lines());
    from += part;
  }
  return result;
}

RowHandle::RowHandle(RowTable& table) : state_(std::make_unique<State>(*table.state_)) {}
RowHandle::~RowHandle() = default;

RowHandle::Result RowHandle::run(const RowRequests& requests) {
  const TableOp op = requests.op;
  const bool gets = op == TableOp::get;
  if (requests.keys.empty()) return {};
  require_row_columns(op <= TableOp::add, "the operation is for tables of items alone");
  require_row_columns(!gets || requests.found != nullptr, "gets need found");
  require_row_columns(gets || op == TableOp::erase || requests.rows != nullptr,
                      "requests that write need rows");
  require_row_columns(op != TableOp::compare_and_swap || requests.expected != nullptr,
                      "compare_and_swap needs expected rows");
  require_row_columns(requests.scores == nullptr || state_->scored,
                      "the rows of this table have no scores");
  require_row_columns(op != TableOp::add || requests.sum != nullptr, "add needs a sum");
  if (!gets) return state_->write_all(requests);
  Result result;
  const size_t rows = requests.keys.size();
  for (size_t from = 0; from < rows; from += rows_per_part) {
    state_->begin_part();
    const EpochGuard guard(state_->table.epochs, *state_->taken.slot);
    result.found += state_->get(requests, {from, std::min(rows_per_part, rows - from)});
  }
  return result;
}

uint64_t RowHandle::get(std::span<const uint64_t> keys, void* rows, std::span<uint8_t> found) {
  require_row_columns(keys.size() == found.size(), "keys and found must have the same length");
  RowRequests requests;
  requests.keys = keys;
  requests.rows_out = rows;
  requests.found = found.data();
  return run(requests).found;
}

RowHandle::Result RowHandle::put(std::span<const uint64_t> keys, const void* rows) {
  RowRequests requests;
  requests.op = TableOp::put;
  requests.keys = keys;
  requests.rows = rows;
  return run(requests);
}

uint64_t RowHandle::erase(std::span<const uint64_t> keys) {
  RowRequests requests;
  requests.op = TableOp::erase;
  requests.keys = keys;
  return run(requests).found;
}

uint64_t RowHandle::scan(uint64_t cursor, uint64_t count,
                         const std::function<void(uint64_t key, const void* row)>& visit) {
  const EpochGuard guard(state_->table.epochs, *state_->taken.slot);
  return state_->table.index.scan(cursor, count, [&](uint64_t key, uint64_t word) {
    visit(key, reinterpret_cast<const void*>(word));
  });
}

}  // namespace isotherm
