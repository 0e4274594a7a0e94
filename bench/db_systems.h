// Db and RocksDB behind one face, for bench/db_bench.cc: the same calls, the same memory.
//
// RocksDB has memtables and a block cache in the shares of H-Rocks (512 MB of 7 GB each memtable,
// five that wait, the rest cache), a log, and no sync of it, as the Db has none. What a call says
// is wrong ends the program: it throws.
//
// Threads. All calls by any thread; begin_parts and end_parts by each that is to be timed.
#pragma once

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/options.h>
#include <rocksdb/perf_context.h>
#include <rocksdb/perf_level.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/transaction.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isotherm/db.h"
#include "isotherm/db_batch.h"
#include "isotherm/db_transaction.h"
#include "isotherm_bench/workload.h"

namespace isotherm::bench {

struct TransactionRow {
  std::string key;
  std::string value;  // empty: a get
};

// A request of a batch: a get, or a put of `value`.
struct BatchRow {
  bool puts = false;
  std::string key;
  std::string value;   // of a get: what is there
  bool found = false;  // a get
};

// Checks the pairs of ranges whose keys are numbers one behind the other, the highest byte first.
class SeenPairs {
 public:
  // Of numbers below `end`; what lies behind them is not looked at.
  void begin(const std::vector<uint64_t>& firsts, uint64_t end) {
    next_ = firsts;
    end_ = end;
  }
  void add(size_t range, std::string_view key, std::string_view value) {
    uint64_t number = 0;
    std::memcpy(&number, key.data(), sizeof number);
    number = __builtin_bswap64(number);
    if (number >= end_) return;
    wrong_ += number != next_[range]++ || !value_belongs(number, value);
  }
  // Whether all were right, and the range had so many pairs, or ended with the last.
  bool is_right(size_t range, uint64_t first, uint64_t pairs) const {
    return wrong_ == 0 && next_[range] == std::min(first + pairs, end_);
  }

 private:
  std::vector<uint64_t> next_;
  uint64_t end_ = 0;
  uint64_t wrong_ = 0;
};

class DbSystem {
 public:
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  using Parts = std::vector<std::pair<std::string, uint64_t>>;  // nanoseconds
  virtual ~DbSystem() = default;
  virtual const char* name() const = 0;
  virtual bool get(std::string_view key, std::string& value) = 0;  // whether it is there
  virtual void put(std::string_view key, std::string_view value) = 0;
  virtual void add_one(std::string_view key) = 0;  // to a counter of 8 bytes
  virtual void erase(std::string_view key) = 0;
  virtual void range(std::string_view first, size_t most, Pairs& pairs) = 0;
  virtual void transaction(const std::vector<TransactionRow>& rows) = 0;
  // One call for all, or, where a system has none for both kinds, one for each kind.
  virtual void batch(std::vector<BatchRow>& rows) = 0;
  // Ranges from each of the keys on, in one call.
  virtual void ranges(const std::vector<std::string>& firsts, size_t most, SeenPairs& seen) = 0;
  virtual void flush() = 0;
  // Where the time of this thread's calls goes, where the system can tell.
  virtual void begin_parts() {}
  virtual Parts end_parts() { return {}; }
};

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

class RocksdbSystem final : public DbSystem {
 public:
  RocksdbSystem(const std::string& folder, uint64_t memory, bool transactions) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = std::max<uint64_t>(memory / 14, 64 << 10);
    options.max_write_buffer_number = 6;
    options.merge_operator = std::make_shared<Sum>();
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(memory * 8 / 14);
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::DB* db = nullptr;
    if (transactions) {
      check(rocksdb::OptimisticTransactionDB::Open(options, folder, &transactions_));
      db = transactions_;
    } else {
      check(rocksdb::DB::Open(options, folder, &db));
    }
    db_.reset(db);
  }
  const char* name() const override { return "rocksdb"; }
  bool get(std::string_view key, std::string& value) override {
    const rocksdb::Status status = db_->Get({}, slice(key), &value);
    if (status.IsNotFound()) return false;
    check(status);
    return true;
  }
  void put(std::string_view key, std::string_view value) override {
    check(db_->Put({}, slice(key), slice(value)));
  }
  void add_one(std::string_view key) override {
    check(db_->Merge({}, slice(key), rocksdb::Slice("\1\0\0\0\0\0\0\0", 8)));
  }
  void erase(std::string_view key) override { check(db_->Delete({}, slice(key))); }
  void range(std::string_view first, size_t most, Pairs& pairs) override {
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator({}));
    pairs.clear();
    for (at->Seek(slice(first)); at->Valid() && pairs.size() < most; at->Next()) {
      pairs.emplace_back(at->key().ToString(), at->value().ToString());
    }
    check(at->status());
  }
  void transaction(const std::vector<TransactionRow>& rows) override {
    const std::unique_ptr<rocksdb::Transaction> transaction(transactions_->BeginTransaction({}));
    std::string value;
    for (const TransactionRow& row : rows) {
      check(row.value.empty() ? transaction->Get({}, row.key, &value)
                              : transaction->Put(row.key, row.value));
    }
    check(transaction->Commit());
  }
  void batch(std::vector<BatchRow>& rows) override {
    rocksdb::WriteBatch puts;
    std::vector<rocksdb::Slice> keys;
    for (const BatchRow& row : rows) {
      if (row.puts) {
        check(puts.Put(slice(row.key), slice(row.value)));
      } else {
        keys.push_back(slice(row.key));
      }
    }
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<rocksdb::Status> statuses(keys.size());
    db_->MultiGet({}, db_->DefaultColumnFamily(), keys.size(), keys.data(), values.data(),
                  statuses.data());
    size_t next = 0;
    for (BatchRow& row : rows) {
      if (row.puts) continue;
      row.found = !statuses[next].IsNotFound();
      if (row.found) check(statuses[next]);
      row.value.assign(values[next].data(), values[next].size());
      ++next;
    }
    if (puts.Count() != 0) check(db_->Write({}, &puts));
  }
  void ranges(const std::vector<std::string>& firsts, size_t most, SeenPairs& seen) override {
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator({}));
    for (size_t i = 0; i < firsts.size(); ++i) {
      size_t left = most;
      for (at->Seek(slice(firsts[i])); at->Valid() && left != 0; at->Next(), --left) {
        seen.add(i, {at->key().data(), at->key().size()}, {at->value().data(), at->value().size()});
      }
      check(at->status());
    }
  }
  void flush() override { check(db_->Flush({})); }

  void begin_parts() override {
    rocksdb::SetPerfLevel(rocksdb::kEnableTimeExceptForMutex);
    rocksdb::get_perf_context()->Reset();
  }
  Parts end_parts() override {
    const rocksdb::PerfContext& spent = *rocksdb::get_perf_context();
    rocksdb::SetPerfLevel(rocksdb::kDisable);
    return {{"memtable", spent.write_memtable_time + spent.get_from_memtable_time},
            {"log", spent.write_wal_time},
            {"flush and compaction",
             spent.write_delay_time + spent.write_scheduling_flushes_compactions_time},
            {"files", spent.get_from_output_files_time},
            {"of them blocks that were read", spent.block_read_time}};
  }

 private:
  class Sum final : public rocksdb::AssociativeMergeOperator {
   public:
    const char* Name() const override { return "sum"; }
    bool Merge(const rocksdb::Slice& /*key*/, const rocksdb::Slice* is, const rocksdb::Slice& more,
               std::string* sum, rocksdb::Logger* /*log*/) const override {
      uint64_t a = 0;
      uint64_t b = 0;
      if (is != nullptr) std::memcpy(&a, is->data(), sizeof a);
      std::memcpy(&b, more.data(), sizeof b);
      a += b;
      sum->assign(reinterpret_cast<const char*>(&a), sizeof a);
      return true;
    }
  };
  static rocksdb::Slice slice(std::string_view text) { return {text.data(), text.size()}; }
  static void check(const rocksdb::Status& status) {
    if (!status.ok()) throw std::runtime_error("rocksdb: " + status.ToString());
  }

  rocksdb::OptimisticTransactionDB* transactions_ = nullptr;  // db_, or none
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace isotherm::bench
