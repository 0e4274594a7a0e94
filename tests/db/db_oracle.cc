// The same random calls to a Db (isotherm/db.h) and to RocksDB itself: every answer must be equal.
//
//   db-oracle [seed [histories [MB of a GPU's memory]]]
// A history has groups of one to many changes, merges, reads of one and of many keys, ranges,
// batches of all of these, iterators that go both ways, snapshots, transactions, flushes,
// checkpoints and reopens, on few keys, so that many are on one. Memory is small, so runs are taken
// in and keys forgotten. With a GPU's memory the Db has a sorted copy of its files there.
// ISOTHERM_TEST_LONG=1: more histories.
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>
#include <stdlib.h>

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "db/oracle_merges.h"
#include "device_checks/test_size.h"
#include "isotherm/db.h"
#include "isotherm/db_batch.h"
#include "isotherm/db_transaction.h"
#include "items/poison.h"

namespace {

using isotherm::Db;
using isotherm::DbStatus;
using isotherm::OracleMerges;
using isotherm::reverse_of_both;
using isotherm::reversed;

[[noreturn]] void fail(const std::string& what) {
  std::cerr << "db-oracle: " << what << "\n";
  std::exit(1);
}
void expect(bool holds, const std::string& what) {
  if (!holds) fail(what);
}
void expect_ok(const DbStatus& status, const std::string& what) {
  expect(status.ok(), what + ": " + std::string(to_string(status.code())) + ": " + status.text());
}
void expect_ok(const rocksdb::Status& status, const std::string& what) {
  expect(status.ok(), what + ": " + status.ToString());
}

rocksdb::Slice slice(std::string_view text) { return {text.data(), text.size()}; }
std::string_view view(const rocksdb::Slice& text) { return {text.data(), text.size()}; }

// One history on both.
class History {
 public:
  History(uint64_t seed, std::string folder, uint64_t gpu_memory)
      : random_(seed), folder_(std::move(folder)) {
    options_.memory = 2 << 20;
    options_.gpu_memory = gpu_memory;
    options_.sync = isotherm::DbSync::no;
    options_.merges[reverse_of_both] = [](std::string_view, std::optional<std::string_view> is,
                                          std::string_view operand, std::string& result) {
      result = reversed(is.value_or(std::string_view()), operand);
      return true;
    };
    rocks_options_.create_if_missing = true;
    rocks_options_.merge_operator = std::make_shared<OracleMerges>();
    keys_ = draw(3) == 0 ? 3 : 10 + draw(300);
    largest_value_ = draw(3) == 0 ? 60'000 : 60;
    open();
  }

  void run(int steps) {
    for (step_ = 0; step_ < steps; ++step_) one_step();
    reopen();
    walk_all("at the end");
  }
  // Keys that memory had not, and that were read from files.
  uint64_t file_reads() const { return file_reads_; }
  ~History() {
    forget_snapshots();
    db_.reset();
  }
  History(const History&) = delete;
  History& operator=(const History&) = delete;

 private:
  // The same moment of both.
  struct Moment {
    std::unique_ptr<const isotherm::DbSnapshot> ours;
    const rocksdb::Snapshot* its;
  };

  uint64_t draw(uint64_t below) { return random_() % below; }
  std::string at() const { return "step " + std::to_string(step_); }

  void open() {
    expect_ok(Db::open(options_, folder_ + "/ours", db_), "open");
    rocksdb::DB* db = nullptr;
    expect_ok(rocksdb::DB::Open(rocks_options_, folder_ + "/its", &db), "open");
    rocks_.reset(db);
  }
  void forget_snapshots() {
    for (Moment& one : snapshots_) rocks_->ReleaseSnapshot(one.its);
    snapshots_.clear();
  }
  void reopen() {
    forget_snapshots();
    file_reads_ += db_->statistics().file_reads;
    db_.reset();
    rocks_.reset();
    open();
  }

  // Keys of numbers begin with 'n'; one is empty, and some have zeros and the last byte there is.
  std::string a_key() {
    const uint64_t number = draw(5) == 0 ? 0 : draw(keys_);
    switch (number % 7) {
      case 0:
        return number == 0 ? std::string() : "n" + std::to_string(number);
      case 1:
        return std::string("z\0", 2) + std::to_string(number);
      case 2:
        return "\xff\xff" + std::string(number % 3, '\xff') + std::to_string(number);
      case 3:
        return "n" + std::to_string(number);
      default:
        return "k" + std::to_string(number);
    }
  }
  static bool is_number(const std::string& key) { return key.starts_with('n'); }
  std::string a_number() {
    const uint64_t number = random_() >> draw(64);
    return {reinterpret_cast<const char*>(&number), sizeof number};
  }
  std::string a_value(const std::string& key) {
    if (is_number(key)) return a_number();
    std::string value(draw(5) == 0 ? draw(largest_value_) : draw(12), 'v');
    for (size_t i = 0; i < value.size() && i < 8; ++i) value[i] = static_cast<char>(random_());
    return value;
  }

  void add_change(isotherm::WriteGroup& ours, rocksdb::WriteBatch& its, const std::string& key) {
    const uint64_t kind = draw(10);
    if (kind < 5) {
      const std::string value = a_value(key);
      ours.put(key, value);
      expect_ok(its.Put(slice(key), slice(value)), "Put");
    } else if (kind < 7) {
      ours.erase(key);
      expect_ok(its.Delete(slice(key)), "Delete");
    } else {
      using namespace isotherm::merge_by;
      constexpr uint32_t of_text[] = {append, min, max, reverse_of_both};
      const uint32_t function = is_number(key) ? add_u64 : of_text[draw(4)];
      const std::string operand = is_number(key) ? a_number() : a_value(key).substr(0, 30);
      ours.merge(key, function, operand);
      expect_ok(its.Merge(slice(key), slice(static_cast<char>(function) + operand)), "Merge");
    }
  }

  void write() {
    isotherm::WriteGroup ours;
    rocksdb::WriteBatch its;
    const uint64_t kind = draw(20);
    const uint64_t size = kind < 12 ? 1 : kind < 19 ? 1 + draw(20) : 1 + draw(800);
    const std::string one = a_key();
    const bool all_on_one = draw(6) == 0;
    for (uint64_t i = 0; i < size; ++i) add_change(ours, its, all_on_one ? one : a_key());
    expect_ok(db_->write(ours), at() + " write");
    expect_ok(rocks_->Write({}, &its), "Write");
  }

  void transaction() {
    isotherm::WriteGroup ours;
    rocksdb::WriteBatch its;
    std::unique_ptr<isotherm::DbTransaction> mine;
    expect_ok(db_->begin({.locks = draw(2) == 0, .snapshot = draw(2) == 0}, mine), "begin");
    for (uint64_t i = 1 + draw(8); i != 0; --i) {
      const std::string key = a_key();
      std::string value;
      const DbStatus status =
          draw(2) == 0 ? mine->get_for_update(key, value) : mine->get(key, value);
      expect(status.ok() || status.is_not_found(), at() + " " + status.text());
      if (i == 3) expect_ok(mine->set_savepoint(), "savepoint");
      if (draw(2) == 0) expect_ok(mine->put(key, value + "t"), at() + " put");
    }
    if (draw(2) == 0) {
      const DbStatus status = mine->rollback_to_savepoint();
      expect(status.ok() || status.is_not_found(), at() + " rollback");
    }
    mine->rollback();
    // What is committed.
    const uint32_t threads = draw(2) == 0 ? 1 : 3;
    expect_ok(db_->begin({.locks = draw(2) == 0, .threads = threads}, mine), "begin");
    for (uint64_t i = 1 + draw(8); i != 0; --i) add_change(ours, its, a_key());
    isotherm::DbRows rows;  // of several changes one behind the other, or none
    const bool by_rows = draw(2) == 0;
    const auto run = [&] {
      if (rows.size() != 0) expect_ok(mine->run(rows), at() + " rows");
      rows.clear();
    };
    for (size_t i = 0; i < ours.size(); ++i) {
      const isotherm::WriteGroup::Row row = ours.row(i);
      using Kind = isotherm::WriteGroup::Kind;
      if (by_rows && row.kind != Kind::merge) {
        row.kind == Kind::put ? rows.put(row.key, row.value) : rows.erase(row.key);
        continue;
      }
      run();
      if (row.kind == Kind::put) expect_ok(mine->put(row.key, row.value), at());
      if (row.kind == Kind::erase) expect_ok(mine->erase(row.key), at());
      if (row.kind == Kind::merge) expect_ok(mine->merge(row.key, row.function, row.value), at());
    }
    run();
    expect_ok(rocks_->Write({}, &its), "Write");
    const std::string key(ours.row(0).key);
    std::string seen;
    std::string right;
    const bool there = mine->get(key, seen).ok();
    expect(rocks_->Get({}, slice(key), &right).ok() == there && (!there || seen == right),
           at() + " a transaction sees its own changes");
    const auto again = rows.get(key);
    expect_ok(mine->run(rows), at() + " rows");
    expect(rows.found(again) == there && (!there || rows.value(again) == right),
           at() + " rows of a transaction see its changes");
    expect_ok(mine->commit(), at() + " commit");
  }

  const Moment* a_moment() {
    return snapshots_.empty() || draw(2) == 0 ? nullptr : &snapshots_[draw(snapshots_.size())];
  }
  static rocksdb::ReadOptions reads(const Moment* moment) {
    rocksdb::ReadOptions how;
    if (moment != nullptr) how.snapshot = moment->its;
    return how;
  }

  void get() {
    const Moment* const moment = a_moment();
    const auto* const snapshot = moment != nullptr ? moment->ours.get() : nullptr;
    std::vector<std::string> keys;
    for (uint64_t i = draw(3) == 0 ? 1 + draw(30) : 1; i != 0; --i) keys.push_back(a_key());
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    std::vector<std::string> values(1);
    std::vector<DbStatus> statuses(1);
    if (keys.size() == 1) {
      statuses[0] = db_->get(keys[0], values[0], {.snapshot = snapshot});
    } else {
      statuses = db_->multi_get(views, values, {.snapshot = snapshot});
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      std::string right;
      const rocksdb::Status status = rocks_->Get(reads(moment), slice(keys[i]), &right);
      if (status.ok()) {
        expect_ok(statuses[i], at() + " get " + keys[i]);
        expect(values[i] == right, at() + " get " + keys[i] + ": " + values[i]);
      } else {
        expect(status.IsNotFound() && statuses[i].is_not_found(), at() + " get " + keys[i]);
      }
    }
  }

  void expect_same(const isotherm::DbIterator& ours, const rocksdb::Iterator& its,
                   const std::string& what) {
    expect_ok(ours.status(), at() + what);
    expect_ok(its.status(), what);
    expect(ours.valid() == its.Valid(), at() + what + ": one is valid");
    if (!ours.valid()) return;
    expect(ours.key() == view(its.key()),
           at() + what + ": key " + std::string(ours.key()) + " for " + its.key().ToString());
    expect(ours.value() == view(its.value()), at() + what + ": value of " + its.key().ToString());
  }

  void iterate() {
    const Moment* const moment = a_moment();
    isotherm::DbRange range;
    if (moment != nullptr) range.snapshot = moment->ours.get();
    rocksdb::ReadOptions how = reads(moment);
    rocksdb::Slice lower;
    rocksdb::Slice upper;
    if (draw(3) == 0) range.lower = a_key();
    if (draw(3) == 0) range.upper = a_key();
    if (range.lower && range.upper && *range.upper < *range.lower)
      std::swap(range.lower, range.upper);
    if (range.lower) how.iterate_lower_bound = &(lower = slice(*range.lower));
    if (range.upper) how.iterate_upper_bound = &(upper = slice(*range.upper));
    std::unique_ptr<isotherm::DbIterator> ours;
    expect_ok(db_->iterate(range, ours), at() + " iterate");
    const std::unique_ptr<rocksdb::Iterator> its(rocks_->NewIterator(how));
    expect(!ours->valid(), "it stands nowhere");
    // What is written behind it is not shown.
    if (draw(2) == 0) write();
    for (uint64_t moves = 1 + draw(40); moves != 0; --moves) {
      uint64_t kind = draw(12);
      if (!ours->valid()) kind %= 4;
      std::string what = " move " + std::to_string(kind);
      if (kind == 0) ours->seek_to_first(), its->SeekToFirst();
      if (kind == 1) ours->seek_to_last(), its->SeekToLast();
      if (kind == 2 || kind == 3) {
        const std::string key = a_key();
        kind == 2 ? ours->seek(key) : ours->seek_for_prev(key);
        kind == 2 ? its->Seek(slice(key)) : its->SeekForPrev(slice(key));
        what += " " + key;
      }
      if (kind > 3 && kind % 2 == forwards_) ours->next(), its->Next();
      if (kind > 3 && kind % 2 != forwards_) ours->prev(), its->Prev();
      if (draw(10) == 0) forwards_ = 1 - forwards_;
      expect_same(*ours, *its, what);
    }
  }

  // Pairs of both between two keys, or with a prefix.
  void range() {
    const Moment* const moment = a_moment();
    const auto* const snapshot = moment != nullptr ? moment->ours.get() : nullptr;
    const std::string first = a_key();
    const std::string end = draw(2) == 0 ? std::string() : a_key();
    const size_t limit = draw(60);
    Db::Pairs pairs;
    expect_ok(db_->range(first, end, limit, pairs, {.snapshot = snapshot}), at() + " range");
    const std::unique_ptr<rocksdb::Iterator> its(rocks_->NewIterator(reads(moment)));
    size_t count = 0;
    for (its->Seek(slice(first)); its->Valid() && count < limit; its->Next(), ++count) {
      if (!end.empty() && view(its->key()) >= end) break;
      expect(count < pairs.size(), at() + " range: too few");
      expect(pairs[count].first == view(its->key()) && pairs[count].second == view(its->value()),
             at() + " range at " + its->key().ToString());
    }
    expect(pairs.size() == count, at() + " range: too many");
    constexpr std::string_view prefixes[] = {"k1", "n", "\xff", "\xff\xff", "z", "", "q"};
    const std::string prefix(prefixes[draw(7)]);
    std::unique_ptr<isotherm::DbIterator> ours;
    isotherm::DbRange with;
    with.prefix = prefix;
    with.snapshot = snapshot;
    expect_ok(db_->iterate(with, ours), at() + " iterate");
    its->Seek(slice(prefix));
    for (ours->seek_to_first(); ours->valid(); ours->next(), its->Next()) {
      expect_same(*ours, *its, " prefix " + prefix);
    }
    expect(!its->Valid() || !view(its->key()).starts_with(prefix), at() + " prefix: too few");
  }

  // Requests in one call, as if they ran one by one. Keys and values stay for as long as it runs.
  void batch() {
    isotherm::DbBatch ours(*db_);
    std::deque<std::string> texts;
    const auto kept = [&](std::string text) -> std::string_view {
      return texts.emplace_back(std::move(text));
    };
    std::vector<std::pair<isotherm::DbBatch::Row, std::optional<std::string>>> gets;
    std::vector<std::pair<isotherm::DbBatch::RangeRow, std::string>> ranges;
    const uint64_t writes = draw(3) * 2;
    for (uint64_t left = 1 + draw(60); left != 0; --left) {
      const std::string_view key = kept(a_key());
      const uint64_t kind = draw(6 + writes);
      if (kind < 4) {
        std::string right;
        const bool there = rocks_->Get({}, slice(key), &right).ok();
        gets.emplace_back(ours.get(key), there ? std::optional(right) : std::nullopt);
      } else if (kind < 6) {
        const std::string_view end = draw(2) == 0 ? std::string_view() : kept(a_key());
        const auto limit = static_cast<uint32_t>(draw(60));
        ranges.emplace_back(ours.range(key, end, limit), its_range(key, end, limit));
      } else if (kind % 2 == 0) {
        const std::string_view value = kept(a_value(texts.back()));
        ours.put(key, value);
        expect_ok(rocks_->Put({}, slice(key), slice(value)), "Put");
      } else {
        ours.erase(key);
        expect_ok(rocks_->Delete({}, slice(key)), "Delete");
      }
    }
    expect_ok(ours.run(), at() + " batch");
    for (const auto& [row, right] : gets) {
      expect(ours.status(row).ok() == right.has_value(), at() + " whether a key is there");
      expect(!right || ours.value(row) == *right, at() + " a get of a batch");
    }
    for (const auto& [row, right] : ranges) {
      std::string text;
      for (const auto& [key, value] : ours.pairs(row)) append_pair(key, value, text);
      expect(text == right, at() + " a range of a batch");
    }
  }
  static void append_pair(std::string_view key, std::string_view value, std::string& to) {
    to.append(std::to_string(key.size())).append(key).append(value).append("\n");
  }
  std::string its_range(std::string_view first, std::string_view end, uint32_t limit) {
    std::string text;
    const std::unique_ptr<rocksdb::Iterator> its(rocks_->NewIterator({}));
    for (its->Seek(slice(first)); its->Valid() && limit-- != 0; its->Next()) {
      if (!end.empty() && view(its->key()) >= end) break;
      append_pair(view(its->key()), view(its->value()), text);
    }
    return text;
  }

  void walk_all(const std::string& what) { walk_all(*db_, what); }
  void walk_all(Db& db, const std::string& what) {
    std::unique_ptr<isotherm::DbIterator> ours;
    expect_ok(db.iterate({}, ours), what);
    const std::unique_ptr<rocksdb::Iterator> its(rocks_->NewIterator({}));
    ours->seek_to_first();
    for (its->SeekToFirst(); its->Valid(); its->Next(), ours->next())
      expect_same(*ours, *its, what);
    expect_same(*ours, *its, what);
  }

  void checkpoint() {
    const std::string folder = folder_ + "/checkpoint";
    expect_ok(db_->checkpoint(folder), at() + " checkpoint");
    std::unique_ptr<Db> other;
    expect_ok(Db::open(options_, folder, other), at() + " open the checkpoint");
    walk_all(*other, "checkpoint");
    other.reset();
    std::filesystem::remove_all(folder);
  }

  void one_step() {
    const uint64_t kind = draw(200);
    if (kind < 90) return write();
    if (kind < 130) return get();
    if (kind < 150) return iterate();
    if (kind < 160) return range();
    if (kind < 170) return batch();
    if (kind < 177) return transaction();
    if (kind < 185) {
      if (snapshots_.size() == 5) {
        rocks_->ReleaseSnapshot(snapshots_.front().its);
        snapshots_.pop_front();
      }
      Moment moment{nullptr, rocks_->GetSnapshot()};
      expect_ok(db_->snapshot(moment.ours), at() + " snapshot");
      snapshots_.push_back(std::move(moment));
      return;
    }
    if (kind < 188) return expect_ok(db_->flush(), at() + " flush");
    if (kind == 188 && draw(2) == 0) return checkpoint();
    if (kind == 189 && draw(4) == 0) return reopen();
    walk_all("walk");
  }

  std::mt19937_64 random_;
  const std::string folder_;
  isotherm::DbOptions options_;
  rocksdb::Options rocks_options_;
  std::unique_ptr<Db> db_;
  std::unique_ptr<rocksdb::DB> rocks_;
  std::deque<Moment> snapshots_;
  uint64_t keys_ = 0;
  uint64_t largest_value_ = 0;
  uint64_t forwards_ = 0;
  uint64_t file_reads_ = 0;
  int step_ = 0;
};

}  // namespace

int main(int count, char** arguments) {
  const uint64_t first = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 1;
  const uint64_t histories = count > 2
                                 ? std::strtoull(arguments[2], nullptr, 10)
                                 : isotherm::test_size(isotherm::poison::sanitized ? 2 : 4, 200);
  const uint64_t gpu_memory = count > 3 ? std::strtoull(arguments[3], nullptr, 10) << 20 : 0;
  constexpr int steps = 600;
  uint64_t file_reads = 0;
  for (uint64_t seed = first; seed < first + histories; ++seed) {
    std::string folder = std::filesystem::temp_directory_path() / "isotherm-oracle-XXXXXX";
    expect(mkdtemp(folder.data()) != nullptr, "no folder");
    std::cout << "seed " << seed << std::endl;
    {
      History history(seed, folder, gpu_memory);
      history.run(steps);
      file_reads += history.file_reads();
    }
    std::filesystem::remove_all(folder);
  }
  std::cout << file_reads << " keys were read from files" << std::endl;
  expect(file_reads != 0, "memory has never forgotten anything");
  return 0;
}
