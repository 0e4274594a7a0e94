#include "isotherm/db_transaction.h"

#include <utility>
#include <vector>

#include "db/db_state.h"
#include "db/key_rows.h"

namespace isotherm {

struct DbTransaction::State {
  State(DbState& its_db, const DbTransactionOptions& its_options)
      : db(its_db), options(its_options) {
    if (options.snapshot) moment = db.take_moment();
  }

  DbStatus read(std::string_view key, DbValue& value, uint64_t* version);
  DbStatus get(std::string_view key, std::string& value, uint64_t* version);
  DbStatus lock(std::string_view key);
  DbStatus check_snapshot(std::string_view key, uint64_t version);
  DbStatus change(std::string_view key, const std::function<void()>& add);
  void end();

  DbState& db;
  const DbTransactionOptions options;
  std::shared_ptr<const TreeMoment> moment;
  WriteGroup group;
  KeyRows changes{group};
  std::vector<size_t> savepoints;  // sizes of the group
  WritePlan::Checks checks;
  KeyLocks::Owner owner;
  bool ended = false;
};

namespace {

DbStatus has_ended() { return {DbStatus::Code::invalid, "the transaction has ended"}; }

}  // namespace

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

DbStatus DbTransaction::State::change(std::string_view key, const std::function<void()>& add) {
  return guarded([&]() -> DbStatus {
    if (ended) return has_ended();
    if (options.locks) {
      if (DbStatus status = lock(key); !status.ok()) return status;
    }
    if (options.locks && moment != nullptr && !checks.contains(std::string(key))) {
      DbValue then;
      uint64_t version = 0;
      if (DbStatus status = read(key, then, &version); !status.ok()) return status;
      if (DbStatus status = check_snapshot(key, version); !status.ok()) return status;
    }
    changes.make_room();
    add();
    changes.add();
    return {};
  });
}

void DbTransaction::State::end() {
  ended = true;
  db.locks().give_back(owner);
  moment.reset();
  changes.clear();
  group.clear();
  checks.clear();
  savepoints.clear();
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
    if (its.checks.contains(std::string(key))) return its.get(key, value, nullptr);
    uint64_t version = 0;
    DbStatus status = its.get(key, value, &version);
    if (!status.ok() && !status.is_not_found()) return status;
    if (its.moment != nullptr) {
      if (DbStatus same = its.check_snapshot(key, version); !same.ok()) return same;
    }
    its.checks.emplace(key, version);
    return status;
  });
}

DbStatus DbTransaction::put(std::string_view key, std::string_view value) {
  return state_->change(key, [&] { state_->group.put(key, value); });
}

DbStatus DbTransaction::erase(std::string_view key) {
  return state_->change(key, [&] { state_->group.erase(key); });
}

DbStatus DbTransaction::merge(std::string_view key, uint32_t function, std::string_view operand) {
  if (!state_->db.merges().knows(function)) {
    return {DbStatus::Code::invalid, "there is no merge function " + std::to_string(function)};
  }
  return state_->change(key, [&] { state_->group.merge(key, function, operand); });
}

DbStatus DbTransaction::set_savepoint() {
  return guarded([&]() -> DbStatus {
    if (state_->ended) return has_ended();
    state_->savepoints.push_back(state_->group.size());
    return {};
  });
}

DbStatus DbTransaction::rollback_to_savepoint() {
  return guarded([&]() -> DbStatus {
    State& its = *state_;
    if (its.ended) return has_ended();
    if (its.savepoints.empty()) return {DbStatus::Code::not_found, "there is no savepoint"};
    const size_t size = its.savepoints.back();
    its.savepoints.pop_back();
    its.changes.shorten(size);
    its.group.shorten(size);
    return {};
  });
}

DbStatus DbTransaction::commit() {
  return guarded([&]() -> DbStatus {
    State& its = *state_;
    if (its.ended) return has_ended();
    DbStatus status = its.db.write(its.group, &its.checks);
    its.end();
    return status;
  });
}

void DbTransaction::rollback() { state_->end(); }

}  // namespace isotherm
