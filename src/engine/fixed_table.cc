#include "isotherm/fixed_table.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "base/seed.h"
#include "base/tile.h"
#include "gpu/kernel/request_columns.h"
#include "gpu/kernel/request_op.h"
#include "gpu/table/fixed_loops.h"
#include "gpu/table/host_cache.h"
#include "index/growth_share.h"
#include "items/epoch.h"
#include "items/memory_budget.h"
#include "items/pages.h"

namespace isotherm {
namespace {

// Rows between two steps of growth, and lines moved in a step. Growth has to keep up: a segment of
// 4,096 lines splits once in about 21,000 inserts, 0.2 lines an insert.
constexpr size_t rows_per_run = 1024;

void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(what);
}

}  // namespace

struct FixedTable::State {
  explicit State(const FixedOptions& options)
      : budget(options.maxmemory), seed(options.hash_seed ? *options.hash_seed : draw_seed()) {
    require(options.index <= FixedIndexKind::set, "index is none of FixedIndexKind");
    if (options.index != FixedIndexKind::line) {
      cache = make_host_cache(options.index, options.maxmemory, options.expected_entries, seed);
      return;
    }
    index.emplace(pages, budget, epochs, seed, true, options.expected_entries);
    pages.fault_ahead(budget);
  }

  MemoryBudget budget;
  Pages pages;
  EpochDomain epochs;
  const uint64_t seed;
  std::optional<FixedIndex> index;   // one of both
  std::unique_ptr<HostCache> cache;  // of another kind
};

FixedTable::FixedTable(const FixedOptions& options) : state_(std::make_unique<State>(options)) {}
FixedTable::~FixedTable() = default;

uint64_t FixedTable::size() const {
  return state_->cache ? state_->cache->size() : state_->index->count();
}
uint64_t FixedTable::memory() const {
  return state_->cache ? state_->cache->bytes() : state_->budget.used();
}
uint64_t FixedTable::evictions() const { return state_->cache ? state_->cache->evictions() : 0; }

struct FixedHandle::State {
  explicit State(FixedTable::State& its_table)
      : table(its_table), slot(its_table.epochs.acquire()) {
    if (slot == nullptr) throw std::runtime_error("too many handles: at most 256");
  }
  ~State() { table.epochs.release(slot); }

  // Runs `loop` over the rows of `run`, in parts, with growth between them.
  FixedDone run(FixedDone (*loop)(const FixedRun&), FixedRun run, bool writes);

  bool grow(uint64_t writes) {
    growth.add(writes);
    return growth.pay(table.index->lines());
  }
  // Null where the table has the line index.
  HostCache* cache() const { return table.cache.get(); }

  FixedTable::State& table;
  EpochDomain::Slot* slot;
  GrowthShare growth;
};

FixedDone FixedHandle::State::run(FixedDone (*loop)(const FixedRun&), FixedRun all, bool writes) {
  FixedDone done;
  const size_t rows = all.rows;
  const auto from = [&](auto* column) { return column != nullptr ? column + done.rows : nullptr; };
  while (done.rows < rows) {
    FixedRun part{*table.index,     all.keys + done.rows, std::min(rows_per_run, rows - done.rows),
                  from(all.values), from(all.values_out), from(all.found_out),
                  all.only_absent};
    FixedDone part_done;
    {
      const EpochGuard guard(table.epochs, *slot);
      part_done = loop(part);
    }
    done.rows += part_done.rows;
    done.found += part_done.found;
    if (writes) grow(part_done.rows);
    if (part_done.rows < part.rows) break;
  }
  return done;
}

namespace {

TableRequests requests_of(TableOp op, std::span<const uint64_t> keys,
                          std::span<const uint64_t> values = {}) {
  TableRequests requests;
  requests.rows = keys.size();
  requests.op = op;
  requests.keys = keys.data();
  requests.values = values.data();
  return requests;
}

TableRequests with_previous(TableRequests requests, const FixedHandle::Previous& previous) {
  if (previous.found.empty()) return requests;
  requests.values_out = previous.values.data();
  requests.found = previous.found.data();
  return requests;
}

TableRequests gets_of(std::span<const uint64_t> keys, std::span<uint64_t> values,
                      std::span<uint8_t> found) {
  return with_previous(requests_of(TableOp::get, keys), {values, found});
}

FixedHandle::Result result_of(const HostCache::Done& done, size_t rows) {
  return {Status::ok, rows, done.evicted};
}

}  // namespace

FixedHandle::FixedHandle(FixedTable& table) : state_(std::make_unique<State>(*table.state_)) {}
FixedHandle::~FixedHandle() = default;

uint64_t FixedHandle::get(std::span<const uint64_t> keys, std::span<uint64_t> values,
                          std::span<uint8_t> found) {
  require(values.size() == keys.size() && found.size() == keys.size(),
          "get: keys, values and found must have the same length");
  if (HostCache* cache = state_->cache()) return cache->run(gets_of(keys, values, found)).found;
  FixedRun run{*state_->table.index, keys.data(), keys.size(), nullptr,
               values.data(),        found.data()};
  return state_->run(fixed_loops().get, run, false).found;
}

uint64_t FixedHandle::get_stored(std::span<const uint64_t> keys, std::span<uint64_t> stored_keys,
                                 std::span<uint64_t> values, std::span<uint8_t> found) {
  require(stored_keys.size() == keys.size() && values.size() == keys.size() &&
              found.size() == keys.size(),
          "get_stored: keys, stored_keys, values and found must have the same length");
  HostCache* const cache = state_->cache();
  require(cache != nullptr, "get_stored: the table's index must be cuckoo or set");
  return cache->get_stored(gets_of(keys, values, found), stored_keys.data());
}

std::optional<uint64_t> FixedHandle::get(uint64_t key) {
  if (state_->cache() != nullptr) {
    uint64_t value = 0;
    uint8_t found = 0;
    get({&key, 1}, {&value, 1}, {&found, 1});
    return found != 0 ? std::optional(value) : std::nullopt;
  }
  const EpochGuard guard(state_->table.epochs, *state_->slot);
  const FixedIndex& index = *state_->table.index;
  const Found found = index.find<TilePlain>(index.hash(key));
  return found.found ? std::optional(found.word) : std::nullopt;
}

namespace {

FixedHandle::Result result_of(const FixedDone& done, size_t rows) {
  return {done.rows == rows ? Status::ok : Status::out_of_memory, done.rows, 0};
}

void require_previous(const FixedHandle::Previous& previous, size_t rows) {
  require(previous.values.size() == previous.found.size() &&
              (previous.found.empty() || previous.found.size() == rows),
          "previous: values and found must both have the length of keys, or be empty");
}

}  // namespace

FixedHandle::Result FixedHandle::put(std::span<const uint64_t> keys,
                                     std::span<const uint64_t> values, Previous previous) {
  require(values.size() == keys.size(), "put: keys and values must have the same length");
  require_previous(previous, keys.size());
  if (HostCache* cache = state_->cache()) {
    TableRequests puts = requests_of(TableOp::put, keys, values);
    return result_of(cache->run(with_previous(puts, previous)), keys.size());
  }
  const bool wanted = !previous.found.empty();
  FixedRun run{*state_->table.index,
               keys.data(),
               keys.size(),
               values.data(),
               wanted ? previous.values.data() : nullptr,
               wanted ? previous.found.data() : nullptr};
  return result_of(state_->run(fixed_loops().put, run, true), keys.size());
}

FixedHandle::Result FixedHandle::put_if_absent(std::span<const uint64_t> keys,
                                               std::span<const uint64_t> values,
                                               std::span<uint8_t> stored) {
  require(values.size() == keys.size() && stored.size() == keys.size(),
          "put_if_absent: keys, values and stored must have the same length");
  if (HostCache* cache = state_->cache()) {
    std::vector<uint64_t> before(keys.size());
    const TableRequests puts = requests_of(TableOp::put_if_absent, keys, values);
    const Result result = result_of(cache->run(with_previous(puts, {before, stored})), keys.size());
    for (uint8_t& flag : stored) flag ^= 1;
    return result;
  }
  FixedRun run{*state_->table.index, keys.data(), keys.size(), values.data(), nullptr,
               stored.data(),        true};
  return result_of(state_->run(fixed_loops().put, run, true), keys.size());
}

uint64_t FixedHandle::erase(std::span<const uint64_t> keys, Previous previous) {
  require_previous(previous, keys.size());
  if (HostCache* cache = state_->cache()) {
    return cache->run(with_previous(requests_of(TableOp::erase, keys), previous)).found;
  }
  const bool wanted = !previous.found.empty();
  FixedRun run{*state_->table.index,
               keys.data(),
               keys.size(),
               nullptr,
               wanted ? previous.values.data() : nullptr,
               wanted ? previous.found.data() : nullptr};
  return state_->run(fixed_loops().erase, run, true).found;
}

Status FixedHandle::swap_in_cache(uint64_t key, uint64_t expected, uint64_t desired,
                                  uint64_t* current) {
  uint64_t before = 0;
  uint8_t found = 0;
  TableRequests swap = requests_of(TableOp::compare_and_swap, {&key, 1}, {&desired, 1});
  swap.expected = &expected;
  state_->cache()->run(with_previous(swap, {{&before, 1}, {&found, 1}}));
  if (found == 0) return Status::not_found;
  if (current != nullptr) *current = before;
  return before == expected ? Status::ok : Status::condition_failed;
}

Status FixedHandle::compare_and_swap(uint64_t key, uint64_t expected, uint64_t desired,
                                     uint64_t* current) {
  if (state_->cache() != nullptr) return swap_in_cache(key, expected, desired, current);
  const EpochGuard guard(state_->table.epochs, *state_->slot);
  FixedIndex& index = *state_->table.index;
  const Updated updated =
      index.update<TilePlain>(index.hash(key), [&](bool found, uint64_t word) -> Decision {
        return {found && word == expected ? Action::store : Action::keep, desired};
      });
  if (!updated.previous.found) return Status::not_found;
  if (current != nullptr) *current = updated.previous.word;
  return updated.change == Change::replaced ? Status::ok : Status::condition_failed;
}

void FixedHandle::run(const TableRequests& requests) {
  if (requests.rows == 0) return;
  require_columns(requests);
  if (HostCache* cache = state_->cache()) {
    cache->run(requests);
    return;
  }
  for (uint64_t from = 0; from < requests.rows; from += rows_per_run) {
    const uint64_t rows = std::min<uint64_t>(rows_per_run, requests.rows - from);
    {
      const EpochGuard guard(state_->table.epochs, *state_->slot);
      fixed_loops().answer(*state_->table.index, rows_of(requests, from, rows));
    }
    if (!is_gets(requests)) state_->grow(rows);
  }
}

uint64_t FixedHandle::scan(uint64_t cursor, uint64_t count,
                           const std::function<void(uint64_t key, uint64_t value)>& visit) {
  if (HostCache* cache = state_->cache()) return cache->scan(cursor, count, visit);
  const EpochGuard guard(state_->table.epochs, *state_->slot);
  return state_->table.index->scan(cursor, count, visit);
}

bool FixedHandle::maintain() { return state_->cache() == nullptr && state_->grow(0); }

}  // namespace isotherm
