#include "isotherm/db_transaction.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/worker_pool.h"
#include "db/db_state.h"
#include "db/key_rows.h"
#include "items/worth_threads.h"

namespace isotherm {

namespace {

DbStatus has_ended() { return {DbStatus::Code::invalid, "the transaction has ended"}; }

}  // namespace

// Keys belong to parts by their hashes, so that threads work on a part each. With one thread there
// is one.
struct DbTransaction::State {
  static_assert(TreeRun::shards % DbRows::most_parts == 0);
  static constexpr uint32_t least_shared = worth_threads(4096);  // rows

  struct Part {
    explicit Part(DbState& db) : changes(group, db.tree().hash_seed()) {}
    WriteGroup group;
    KeyRows changes;
    WritePlan::Checks checks;
  };
  // Rows of one call, in their order within each part.
  struct Lists {
    std::vector<uint64_t> hashes;
    std::vector<DbRows::Row> rows;
    std::array<size_t, DbRows::most_parts + 1> begins{};
  };

  State(DbState& its_db, const DbTransactionOptions& its_options)
      : db(its_db), options(its_options), threads(threads_of(its_options)) {
    for (uint32_t i = 0; i < (threads > 1 ? DbRows::most_parts : 1); ++i) {
      parts.push_back(std::make_unique<Part>(db));
    }
    if (options.snapshot) moment = db.take_moment();
  }
  static uint32_t threads_of(const DbTransactionOptions& options) {
    const uint32_t wanted =
        options.threads != 0 ? options.threads : std::thread::hardware_concurrency();
    return std::clamp(wanted, 1u, DbRows::most_parts);
  }

  size_t part_of(uint64_t hash) const { return hash % parts.size(); }
  uint64_t hash_of(std::string_view key) const { return parts.front()->changes.hash_of(key); }
  Part& part(std::string_view key) { return *parts[part_of(hash_of(key))]; }
  std::vector<size_t> sizes() const {
    std::vector<size_t> sizes;
    for (const auto& one : parts) sizes.push_back(one->group.size());
    return sizes;
  }
  void shorten(const std::vector<size_t>& sizes) {
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i]->changes.shorten(sizes[i]);
      parts[i]->group.shorten(sizes[i]);
    }
  }

  DbStatus get_for_update(std::string_view key, std::string& value);
  DbStatus may_change(Part& its, std::string_view key);
  DbStatus run(DbRows& rows);
  WorkerPool& pool_for(size_t rows);
  Lists list(const DbRows& rows, WorkerPool& its_pool) const;
  DbStatus run_part(DbRows& rows, const Lists& lists, uint32_t number);
  DbStatus run_row(DbRows& rows, DbRows::Row row, uint64_t hash, uint32_t number, bool& asks);
  DbStatus ask(DbRows& rows, std::vector<DbRows::Row>& asked, uint32_t number);
  DbStatus read(std::string_view key, DbValue& value, uint64_t* version);
  DbStatus get(std::string_view key, std::string& value, uint64_t* version);
  DbStatus lock(std::string_view key);
  DbStatus check_snapshot(std::string_view key, uint64_t version);
  DbStatus change(std::string_view key, const std::function<void(WriteGroup&)>& add);
  DbStatus commit();
  void end();

  DbState& db;
  const DbTransactionOptions options;
  std::shared_ptr<const TreeMoment> moment;
  const uint32_t threads;
  std::vector<std::unique_ptr<Part>> parts;
  std::vector<std::vector<size_t>> savepoints;  // sizes of the parts
  std::optional<WorkerPool> pool;
  KeyLocks::Owner owner;
  bool ended = false;
};

// ---- Inside ----

// What the store has, or had at the moment.
DbStatus DbTransaction::State::read(std::string_view key, DbValue& value, uint64_t* version) {
  DbStatus status = moment != nullptr ? DbState::read_at(*moment, key, value.text, version)
                                      : db.read(key, value.text, version);
  value.there = status.ok();
  return status.is_not_found() ? DbStatus() : status;
}

// That, and then what the transaction has made of it since its last put or erase. Where it need not
// be read, the version is not known, and nobody asks for it.
DbStatus DbTransaction::State::get(std::string_view key, std::string& value, uint64_t* version) {
  const auto& [group, changes, checks] = part(key);
  std::vector<uint32_t> merges;  // the newest first
  uint32_t row = changes.newest(key);
  for (; row != KeyRows::none && group.row(row).kind == WriteGroup::Kind::merge;
       row = changes.older(row)) {
    merges.push_back(row);
  }
  DbValue now;
  if (row == KeyRows::none || version != nullptr) {
    if (DbStatus status = read(key, now, version); !status.ok()) return status;
  }
  if (row != KeyRows::none) merges.push_back(row);
  for (auto one = merges.rbegin(); one != merges.rend(); ++one) {
    if (DbStatus status = db.merges().apply(group.row(*one), now); !status.ok()) return status;
  }
  if (!now.there) return status_of(Status::not_found);
  value = std::move(now.text);
  return {};
}

DbStatus DbTransaction::State::lock(std::string_view key) {
  switch (db.locks().take(owner, key, options.timeout_ms)) {
    case KeyLocks::Outcome::timed_out:
      return {DbStatus::Code::timed_out, "the key is locked by another transaction"};
    case KeyLocks::Outcome::deadlock:
      return {DbStatus::Code::deadlock, "two transactions would wait for each other"};
    case KeyLocks::Outcome::taken:
      break;
  }
  return {};
}

// Whether the key still has the version of the moment.
DbStatus DbTransaction::State::check_snapshot(std::string_view key, uint64_t version) {
  std::string ignored;
  uint64_t now = 0;
  DbStatus status = db.read(key, ignored, &now);
  if (!status.ok() && !status.is_not_found()) return status;
  if (now == version) return {};
  return {DbStatus::Code::busy, "the key was changed since the transaction began"};
}

// With the lock of the key, where it takes locks.
DbStatus DbTransaction::State::may_change(Part& its, std::string_view key) {
  if (!options.locks || moment == nullptr || its.checks.contains(std::string(key))) return {};
  DbValue then;
  uint64_t version = 0;
  if (DbStatus status = read(key, then, &version); !status.ok()) return status;
  return check_snapshot(key, version);
}

DbStatus DbTransaction::State::change(std::string_view key,
                                      const std::function<void(WriteGroup&)>& add) {
  return guarded([&]() -> DbStatus {
    if (ended) return has_ended();
    if (options.locks) {
      if (DbStatus status = lock(key); !status.ok()) return status;
    }
    Part& its = part(key);
    if (DbStatus status = may_change(its, key); !status.ok()) return status;
    its.changes.make_room();
    add(its.group);
    its.changes.add();
    return {};
  });
}

// The lock is there.
DbStatus DbTransaction::State::get_for_update(std::string_view key, std::string& value) {
  WritePlan::Checks& checks = part(key).checks;
  if (checks.contains(std::string(key))) return get(key, value, nullptr);
  uint64_t version = 0;
  DbStatus status = get(key, value, &version);
  if (!status.ok() && !status.is_not_found()) return status;
  if (moment != nullptr) {
    if (DbStatus same = check_snapshot(key, version); !same.ok()) return same;
  }
  checks.emplace(key, version);
  return status;
}

// ---- Many rows ----

WorkerPool& DbTransaction::State::pool_for(size_t rows) {
  const uint32_t wanted = rows >= least_shared ? threads : 1;
  if (!pool || pool->threads() < wanted) pool.emplace(wanted);
  return *pool;
}

// By pieces of the rows, of which each part has a list; these lie one behind the other.
DbTransaction::State::Lists DbTransaction::State::list(const DbRows& rows,
                                                       WorkerPool& its_pool) const {
  using Counts = std::array<size_t, DbRows::most_parts>;
  const uint32_t pieces = rows.size() < least_shared ? 1 : its_pool.threads();
  const auto begin = [&](uint32_t piece) { return uint64_t{rows.size()} * piece / pieces; };
  Lists lists;
  lists.hashes.resize(rows.size());
  lists.rows.resize(rows.size());
  std::vector<Counts> counts(pieces);
  its_pool.run(pieces, [&](uint32_t piece, uint32_t) {
    for (size_t row = begin(piece); row < begin(piece + 1); ++row) {
      lists.hashes[row] = hash_of(rows.keys_[row]);
      ++counts[piece][part_of(lists.hashes[row])];
    }
  });
  size_t at = 0;
  for (size_t one = 0; one < parts.size(); ++one) {
    lists.begins[one] = at;
    for (Counts& its : counts) at += std::exchange(its[one], at);
  }
  lists.begins[parts.size()] = at;
  its_pool.run(pieces, [&](uint32_t piece, uint32_t) {
    for (size_t row = begin(piece); row < begin(piece + 1); ++row) {
      lists.rows[counts[piece][part_of(lists.hashes[row])]++] = static_cast<DbRows::Row>(row);
    }
  });
  return lists;
}

DbStatus DbTransaction::State::run(DbRows& rows) {
  if (ended) return has_ended();
  for (DbRows::Row row = 0; options.locks && row < rows.size(); ++row) {
    if (rows.kinds_[row] == DbRows::Kind::get) continue;
    if (DbStatus status = lock(rows.keys_[row]); !status.ok()) return status;
  }
  WorkerPool& its_pool = pool_for(rows.size());
  const Lists lists = list(rows, its_pool);
  const std::vector<size_t> before = sizes();
  std::vector<DbStatus> statuses(parts.size());
  const auto work = [&](uint32_t number, uint32_t /*thread*/) {
    statuses[number] = guarded([&] { return run_part(rows, lists, number); });
  };
  its_pool.run(static_cast<uint32_t>(parts.size()), work);
  for (const DbStatus& status : statuses) {
    if (status.ok()) continue;
    shorten(before);
    return status;
  }
  return {};
}

// Rows that the store is asked for wait for others, which are asked for with them.
DbStatus DbTransaction::State::run_part(DbRows& rows, const Lists& lists, uint32_t number) {
  constexpr size_t most_asked = 1024;
  std::vector<DbRows::Row> asked;
  asked.reserve(most_asked);
  for (size_t at = lists.begins[number]; at < lists.begins[number + 1]; ++at) {
    const DbRows::Row row = lists.rows[at];
    bool asks = false;
    DbStatus status = run_row(rows, row, lists.hashes[row], number, asks);
    if (status.ok() && asks) asked.push_back(row);
    if (status.ok() && asked.size() == most_asked) status = ask(rows, asked, number);
    if (!status.ok()) return status;
  }
  return ask(rows, asked, number);
}

// `asks`: the store is to be asked what it has, which no change of the transaction hides.
DbStatus DbTransaction::State::run_row(DbRows& rows, DbRows::Row row, uint64_t hash,
                                       uint32_t number, bool& asks) {
  Part& its = *parts[number];
  const std::string_view key = rows.keys_[row];
  const DbRows::Kind kind = rows.kinds_[row];
  if (kind == DbRows::Kind::put || kind == DbRows::Kind::erase) {
    if (DbStatus status = may_change(its, key); !status.ok()) return status;
    its.changes.make_room();
    kind == DbRows::Kind::put ? its.group.put(key, rows.values_[row]) : its.group.erase(key);
    its.changes.add(hash);
    return {};
  }
  const uint32_t newest = its.changes.newest(key, hash);
  asks = newest == KeyRows::none && moment == nullptr;
  if (asks) return {};
  const bool is_own = kind == DbRows::Kind::get && newest != KeyRows::none &&
                      its.group.row(newest).kind == WriteGroup::Kind::put;
  if (is_own) {
    rows.values_[row] = rows.texts_[number].keep(its.group.row(newest).value);
    return {};
  }
  std::string value;
  DbStatus status =
      kind == DbRows::Kind::get ? get(key, value, nullptr) : get_for_update(key, value);
  rows.values_[row] = status.ok() ? rows.texts_[number].keep(value) : std::string_view();
  return status.is_not_found() ? DbStatus() : status;
}

DbStatus DbTransaction::State::ask(DbRows& rows, std::vector<DbRows::Row>& asked, uint32_t number) {
  if (asked.empty()) return {};
  DbWorkers::Lease lease(db.workers());
  Batch& batch = lease.batch();
  for (const DbRows::Row row : asked) batch.get(rows.keys_[row]);
  lease.submit();
  for (Batch::Row i = 0; i < batch.size(); ++i) {
    const Reply& reply = batch.reply(i);
    const Status status = reply.status.load(std::memory_order_acquire);
    if (status != Status::ok && status != Status::not_found) {
      return db.with_reason(status_of(status));
    }
    const bool there = status == Status::ok;
    const DbRows::Row row = asked[i];
    rows.values_[row] = there ? rows.texts_[number].keep(reply.value()) : std::string_view();
    if (rows.kinds_[row] == DbRows::Kind::get) continue;
    parts[number]->checks.emplace(rows.keys_[row], there ? reply.version : 0);
  }
  asked.clear();
  return {};
}

void DbTransaction::State::end() {
  ended = true;
  db.locks().give_back(owner);
  moment.reset();
  run_pieces(pool ? &*pool : nullptr, static_cast<uint32_t>(parts.size()), 1,
             [&](uint32_t first, uint32_t last) {
               for (uint32_t part = first; part < last; ++part) parts[part].reset();
             });
  savepoints.clear();
}

DbStatus DbTransaction::State::commit() {
  std::vector<WritePlan::Part> all;
  for (const auto& one : parts) all.push_back({&one->group, &one->checks});
  return db.write(all, WriteGroup(), threads);
}

// ---- The face ----

DbStatus Db::begin(const DbTransactionOptions& options,
                   std::unique_ptr<DbTransaction>& transaction) {
  return guarded([&]() -> DbStatus {
    transaction.reset();
    transaction.reset(new DbTransaction(std::make_unique<DbTransaction::State>(*state_, options)));
    return {};
  });
}

DbTransaction::DbTransaction(std::unique_ptr<State> state) : state_(std::move(state)) {}
DbTransaction::~DbTransaction() { state_->end(); }

DbStatus DbTransaction::get(std::string_view key, std::string& value) {
  return guarded([&] { return state_->ended ? has_ended() : state_->get(key, value, nullptr); });
}

DbStatus DbTransaction::get_for_update(std::string_view key, std::string& value) {
  return guarded([&]() -> DbStatus {
    State& its = *state_;
    if (its.ended) return has_ended();
    if (its.options.locks) {
      if (DbStatus status = its.lock(key); !status.ok()) return status;
    }
    return its.get_for_update(key, value);
  });
}

DbStatus DbTransaction::put(std::string_view key, std::string_view value) {
  return state_->change(key, [&](WriteGroup& group) { group.put(key, value); });
}

DbStatus DbTransaction::erase(std::string_view key) {
  return state_->change(key, [&](WriteGroup& group) { group.erase(key); });
}

DbStatus DbTransaction::merge(std::string_view key, uint32_t function, std::string_view operand) {
  return guarded([&]() -> DbStatus {
    if (!state_->db.merges().knows(function)) {
      return {DbStatus::Code::invalid, "there is no merge function " + std::to_string(function)};
    }
    return state_->change(key, [&](WriteGroup& group) { group.merge(key, function, operand); });
  });
}

DbStatus DbTransaction::run(DbRows& rows) {
  return guarded([&] { return state_->run(rows); });
}

DbStatus DbTransaction::set_savepoint() {
  return guarded([&]() -> DbStatus {
    if (state_->ended) return has_ended();
    state_->savepoints.push_back(state_->sizes());
    return {};
  });
}

DbStatus DbTransaction::rollback_to_savepoint() {
  return guarded([&]() -> DbStatus {
    State& its = *state_;
    if (its.ended) return has_ended();
    if (its.savepoints.empty()) return {DbStatus::Code::not_found, "there is no savepoint"};
    its.shorten(its.savepoints.back());
    its.savepoints.pop_back();
    return {};
  });
}

DbStatus DbTransaction::commit() {
  return guarded([&]() -> DbStatus {
    State& its = *state_;
    if (its.ended) return has_ended();
    DbStatus status = its.commit();
    its.end();
    return status;
  });
}

void DbTransaction::rollback() { state_->end(); }

}  // namespace isotherm
