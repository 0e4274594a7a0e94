// IsothermSystem: a Db behind the face of db_system.h, for the loads of db_loads.h. It syncs
// nothing, as the RocksDB beside it does not.
#pragma once

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "db_system.h"
#include "isotherm/db.h"
#include "isotherm/db_batch.h"
#include "isotherm/db_transaction.h"

namespace isotherm::bench {

class IsothermSystem final : public DbSystem {
 public:
  // `rows_a_call`: of a transaction; 0: a call each. `threads`: that run them.
  IsothermSystem(const std::string& folder, uint64_t memory, uint64_t gpu_memory,
                 const std::string& tree_options, uint64_t rows_a_call, uint32_t threads)
      : rows_a_call_(rows_a_call), threads_(threads) {
    DbOptions options;
    options.memory = memory;
    options.gpu_memory = gpu_memory;
    options.tree_options = tree_options;
    options.sync = DbSync::no;
    check(Db::open(options, folder, db_));
  }
  const char* name() const override { return "isotherm"; }
  bool get(std::string_view key, std::string& value) override {
    const DbStatus status = db_->get(key, value);
    if (status.is_not_found()) return false;
    check(status);
    return true;
  }
  void put(std::string_view key, std::string_view value) override { check(db_->put(key, value)); }
  void add_one(std::string_view key) override {
    check(db_->merge(key, merge_by::add_u64, {one.data(), one.size()}));
  }
  void erase(std::string_view key) override { check(db_->erase(key)); }
  void range(std::string_view first, size_t most, Pairs& pairs) override {
    check(db_->range(first, {}, most, pairs));
  }
  void transaction(const std::vector<TransactionRow>& rows) override {
    std::unique_ptr<DbTransaction> transaction;
    check(db_->begin({.threads = threads_}, transaction));
    if (rows_a_call_ != 0) return transaction_by_columns(*transaction, rows);
    std::string value;
    for (const TransactionRow& row : rows) {
      check(row.value.empty() ? transaction->get(row.key, value)
                              : transaction->put(row.key, row.value));
    }
    check(transaction->commit());
  }
  void batch(std::vector<BatchRow>& rows) override {
    DbBatch& mine = own_batch();
    for (const BatchRow& row : rows) row.puts ? mine.put(row.key, row.value) : mine.get(row.key);
    check(mine.run());
    for (uint32_t i = 0; i < rows.size(); ++i) {
      if (rows[i].puts) continue;
      const DbStatus status = mine.status(i);
      rows[i].found = !status.is_not_found();
      if (rows[i].found) check(status);
      rows[i].value.assign(mine.value(i));
    }
    mine.clear();
  }
  void ranges(const std::vector<std::string>& firsts, size_t most, SeenPairs& seen) override {
    DbBatch& mine = own_batch();
    for (const std::string& first : firsts) mine.range(first, {}, static_cast<uint32_t>(most));
    check(mine.run());
    for (uint32_t i = 0; i < firsts.size(); ++i) {
      for (const auto& [key, value] : mine.pairs({i})) seen.add(i, key, value);
    }
    mine.clear();
  }
  void flush() override { check(db_->flush()); }

 private:
  static constexpr std::array<char, 8> one = {1};
  void transaction_by_columns(DbTransaction& transaction, const std::vector<TransactionRow>& all) {
    DbRows rows;
    for (size_t first = 0; first < all.size(); first += rows_a_call_) {
      const size_t end = std::min<size_t>(all.size(), first + rows_a_call_);
      for (size_t i = first; i < end; ++i) {
        all[i].value.empty() ? rows.get(all[i].key) : rows.put(all[i].key, all[i].value);
      }
      check(transaction.run(rows));
      for (size_t i = first; i < end; ++i) {
        if (all[i].value.empty() && !rows.found(static_cast<DbRows::Row>(i - first))) {
          throw std::runtime_error("isotherm: a key is gone");
        }
      }
      rows.clear();
    }
    check(transaction.commit());
  }
  // Of the thread.
  DbBatch& own_batch() {
    thread_local std::unique_ptr<DbBatch> mine;
    thread_local Db* its = nullptr;
    if (its != db_.get()) mine = std::make_unique<DbBatch>(*(its = db_.get()));
    return *mine;
  }
  static void check(const DbStatus& status) {
    if (!status.ok()) throw std::runtime_error("isotherm: " + status.text());
  }
  const uint64_t rows_a_call_;
  const uint32_t threads_;
  std::unique_ptr<Db> db_;
};

}  // namespace isotherm::bench
