// A Db (isotherm/db.h) beside RocksDB, tuned: transactions of millions, and starts.
//
//   db_limits_bench [--records=2000000] [--transaction=5000000] [--group=1000] [--memory=4096]
//                   [--rounds=3] [--spread=2] [--threads=0] [--rows-a-call=65536]
//                   [--folder=/dev/shm] [--rows=transaction,batched,recovery]
//
// 8-byte keys and values, uniform; `records` are there before, put in groups of `group`.
// transaction: half of the operations read, half put, of keys drawn anew, and one commit; RocksDB's
// is a WriteBatch, with its reads by Get before. Keys are drawn of `spread` times the records, so
// with 2 half of the reads find nothing. batched: the same, where a Db's come `rows-a-call` at a
// time (DbRows), and run by so many threads (0: those of the machine). recovery: the start on what
// a kill leaves behind the last record, when no run waits: a Db has the last run in its journal,
// RocksDB the last memtables in its log.
//
// RocksDB: memtables of 512 MB, of which five wait, a block cache of `memory` MiB, filters of ten
// bits, parallelism of the machine. Neither syncs. Each row shows medians over `rounds`, and the
// median of the ratios.
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "bench_support.h"
#include "isotherm/db.h"
#include "isotherm/db_transaction.h"
#include "program_flags.h"

namespace isotherm::bench {
namespace {

struct Wanted {
  uint64_t records = 2'000'000;
  uint64_t transaction = 5'000'000;
  uint64_t group = 1000;
  uint64_t memory = 4096;
  uint64_t rounds = 3;
  uint64_t spread = 2;
  uint64_t threads = 0;
  uint64_t rows_a_call = 65536;
  std::string folder = "/dev/shm";
  std::string rows = "transaction,batched,recovery";

  bool has(const std::string& row) const {
    return ("," + rows + ",").find("," + row + ",") != std::string::npos;
  }
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "db_limits_bench: %s\n", what.c_str());
  std::exit(1);
}
void expect(const DbStatus& status) {
  if (!status.ok()) fail(status.text());
}
void expect(const rocksdb::Status& status) {
  if (!status.ok()) fail(status.ToString());
}

struct Key {
  explicit Key(uint64_t number) {
    const uint64_t mixed = scramble(number + 1);
    std::memcpy(text, &mixed, sizeof text);
  }
  std::string_view view() const { return {text, sizeof text}; }
  rocksdb::Slice slice() const { return {text, sizeof text}; }
  char text[8];
};

// ---- The two, with the same calls ----

class Ours {
 public:
  Ours(const Wanted& wanted, std::string folder) : folder_(std::move(folder)) {
    options_.memory = wanted.memory << 20;
    options_.sync = DbSync::no;
    options_.start_threads = std::max(1u, std::thread::hardware_concurrency());
  }
  void open() {
    db_.reset();
    expect(Db::open(options_, folder_, db_));
  }
  void write(const std::vector<Key>& keys) {
    group_.clear();
    for (const Key& key : keys) group_.put(key.view(), key.view());
    expect(db_->write(group_));
  }
  size_t read(const std::vector<Key>& keys) {
    std::vector<std::string_view> asked;
    asked.reserve(keys.size());
    for (const Key& key : keys) asked.push_back(key.view());
    std::vector<std::string> values;
    const auto statuses = db_->multi_get(asked, values);
    return static_cast<size_t>(std::count_if(statuses.begin(), statuses.end(),
                                             [](const DbStatus& one) { return one.ok(); }));
  }
  void transact(const std::vector<Key>& keys) {
    std::unique_ptr<DbTransaction> transaction;
    expect(db_->begin({}, transaction));
    std::string value;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i % 2 == 0) {
        if (const DbStatus status = transaction->get(keys[i].view(), value);
            !status.is_not_found()) {
          expect(status);
        }
      } else {
        expect(transaction->put(keys[i].view(), keys[i].view()));
      }
    }
    expect(transaction->commit());
  }
  void transact_batched(const std::vector<Key>& keys, const Wanted& wanted) {
    std::unique_ptr<DbTransaction> transaction;
    expect(db_->begin({.threads = static_cast<uint32_t>(wanted.threads)}, transaction));
    DbRows rows;
    for (size_t first = 0; first < keys.size(); first += wanted.rows_a_call) {
      const size_t end = std::min<size_t>(keys.size(), first + wanted.rows_a_call);
      for (size_t i = first; i < end; ++i) {
        i % 2 == 0 ? rows.get(keys[i].view()) : rows.put(keys[i].view(), keys[i].view());
      }
      expect(transaction->run(rows));
      for (size_t i = first; i < end; ++i) {
        const auto row = static_cast<DbRows::Row>(i - first);
        if (i % 2 == 0 && rows.found(row) && rows.value(row) != keys[i].view()) fail("wrong");
      }
      rows.clear();
    }
    expect(transaction->commit());
  }
  // What a crash of the process leaves.
  void leave(const std::string& to) {
    while (db_->statistics().runs != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::filesystem::copy(folder_, to, std::filesystem::copy_options::recursive);
  }

 private:
  const std::string folder_;
  DbOptions options_;
  std::unique_ptr<Db> db_;
  WriteGroup group_;
};

class Theirs {
 public:
  Theirs(const Wanted& wanted, std::string folder) : folder_(std::move(folder)) {
    options_.create_if_missing = true;
    options_.IncreaseParallelism(static_cast<int>(std::thread::hardware_concurrency()));
    options_.write_buffer_size = 512 << 20;
    options_.max_write_buffer_number = 6;
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(wanted.memory << 20);
    constexpr double filter_bits = 10;
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(filter_bits));
    options_.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  }
  void open() {
    db_.reset();
    rocksdb::DB* db = nullptr;
    expect(rocksdb::DB::Open(options_, folder_, &db));
    db_.reset(db);
  }
  void write(const std::vector<Key>& keys) {
    rocksdb::WriteBatch batch;
    for (const Key& key : keys) batch.Put(key.slice(), key.slice());
    expect(db_->Write(rocksdb::WriteOptions(), &batch));
  }
  size_t read(const std::vector<Key>& keys) {
    std::vector<rocksdb::Slice> asked;
    asked.reserve(keys.size());
    for (const Key& key : keys) asked.push_back(key.slice());
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<rocksdb::Status> statuses(keys.size());
    db_->MultiGet(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), keys.size(), asked.data(),
                  values.data(), statuses.data());
    return static_cast<size_t>(std::count_if(statuses.begin(), statuses.end(),
                                             [](const rocksdb::Status& one) { return one.ok(); }));
  }
  void transact(const std::vector<Key>& keys) {
    rocksdb::WriteBatch batch;
    std::string value;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i % 2 == 0) {
        static_cast<void>(db_->Get(rocksdb::ReadOptions(), keys[i].slice(), &value));
      } else {
        batch.Put(keys[i].slice(), keys[i].slice());
      }
    }
    expect(db_->Write(rocksdb::WriteOptions(), &batch));
  }
  void transact_batched(const std::vector<Key>& keys, const Wanted& /*wanted*/) { transact(keys); }
  void leave(const std::string& to) {
    std::filesystem::copy(folder_, to, std::filesystem::copy_options::recursive);
  }

 private:
  const std::string folder_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DB> db_;
};

// ---- Rows ----

template <class Store>
void fill(Store& store, uint64_t records, uint64_t group) {
  std::vector<Key> keys;
  for (uint64_t i = 0; i < records; ++i) {
    keys.emplace_back(i);
    if (keys.size() == group || i + 1 == records) {
      store.write(keys);
      keys.clear();
    }
  }
}

std::vector<Key> draw(std::mt19937_64& random, uint64_t count, uint64_t below) {
  std::vector<Key> keys;
  keys.reserve(count);
  for (uint64_t i = 0; i < count; ++i) keys.emplace_back(random() % below);
  return keys;
}

// Operations a second of one round.
template <class Store>
double transact(Store& store, const Wanted& wanted, uint64_t round, bool batched) {
  std::mt19937_64 random(round);
  const std::vector<Key> keys = draw(random, wanted.transaction, wanted.spread * wanted.records);
  const double took =
      seconds([&] { batched ? store.transact_batched(keys, wanted) : store.transact(keys); });
  return static_cast<double>(keys.size()) / took;
}

template <class Store>
double recover(Store& store, const Wanted& wanted, const std::string& left) {
  store.leave(left);
  Store again(wanted, left);
  const double took = seconds([&] { again.open(); });
  std::vector<Key> last{Key(wanted.records - 1)};
  if (again.read(last) != 1) fail("a record is missing");
  return static_cast<double>(wanted.records) / took;
}

void show(const std::string& row, const std::vector<double>& ours,
          const std::vector<double>& theirs) {
  std::vector<double> ratios;
  for (size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / theirs[i]);
  constexpr double million = 1e6;
  std::printf("%-12s %10.3f %10.3f %8.2f\n", row.c_str(), median(ours) / million,
              median(theirs) / million, median(ratios));
  std::fflush(stdout);
}

void run_all(const Wanted& wanted, const std::string& folder) {
  std::printf("%-12s %10s %10s %8s\n", "row", "Db, M/s", "RocksDB", "ratio");
  Ours ours(wanted, folder + "/ours");
  Theirs theirs(wanted, folder + "/theirs");
  ours.open();
  theirs.open();
  fill(ours, wanted.records, wanted.group);
  fill(theirs, wanted.records, wanted.group);
  if (wanted.has("recovery")) {
    std::vector<double> of_ours;
    std::vector<double> of_theirs;
    for (uint64_t round = 0; round < wanted.rounds; ++round) {
      const std::string left = folder + "/left" + std::to_string(round);
      of_ours.push_back(recover(ours, wanted, left + "ours"));
      of_theirs.push_back(recover(theirs, wanted, left + "theirs"));
      std::filesystem::remove_all(left + "ours");
      std::filesystem::remove_all(left + "theirs");
    }
    show("recovery", of_ours, of_theirs);
  }
  for (const std::string row : {"transaction", "batched"}) {
    if (!wanted.has(row)) continue;
    std::vector<double> of_ours;
    std::vector<double> of_theirs;
    for (uint64_t round = 0; round < wanted.rounds; ++round) {
      of_ours.push_back(transact(ours, wanted, round, row == "batched"));
      of_theirs.push_back(transact(theirs, wanted, round, row == "batched"));
    }
    show(row, of_ours, of_theirs);
  }
}

void take_flags(int argc, char** argv, Wanted& wanted) {
  ProgramFlags flags("A Db beside RocksDB, tuned: transactions of millions, and starts.");
  flags.add("--records", wanted.records, "that are there before");
  flags.add("--transaction", wanted.transaction, "operations, half of them reads");
  flags.add("--group", wanted.group, "records that are put together");
  flags.add("--memory", wanted.memory, "MiB");
  flags.add("--rounds", wanted.rounds);
  flags.add("--spread", wanted.spread, "times the records, of which keys are drawn");
  flags.add("--threads", wanted.threads, "of the row batched; 0: those of the machine");
  flags.add("--rows-a-call", wanted.rows_a_call, "of the row batched");
  flags.add("--folder", wanted.folder);
  flags.add("--rows", wanted.rows);
  flags.take(argc, argv);
}

}  // namespace
}  // namespace isotherm::bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  Wanted wanted;
  take_flags(argc, argv, wanted);
  print_environment("db_limits_bench");
  std::string folder = wanted.folder + "/isotherm-db-bench-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) fail("no folder in " + wanted.folder);
  run_all(wanted, folder);
  std::filesystem::remove_all(folder);
  return 0;
}
