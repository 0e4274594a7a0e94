// What a program written for RocksDB sees: the same calls on isotherm::open_rocksdb and on
// rocksdb::DB::Open, whose answers must be equal, line by line.
//
//   rocksdb-port [seed]
// Each behaviour is a function that says what it was answered; the last ones are random sequences.
#include <rocksdb/db.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/write_batch.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "isotherm/rocksdb.h"

namespace {

using rocksdb::ColumnFamilyHandle;
using rocksdb::Slice;
using rocksdb::Status;

// Operands are put behind each other, with commas.
class Listing final : public rocksdb::MergeOperator {
 public:
  const char* Name() const override { return "listing"; }
  bool FullMergeV2(const MergeOperationInput& in, MergeOperationOutput* out) const override {
    out->new_value = in.existing_value != nullptr ? in.existing_value->ToString() : std::string();
    for (const Slice& one : in.operand_list) {
      if (!out->new_value.empty()) out->new_value += ',';
      out->new_value.append(one.data(), one.size());
    }
    return true;
  }
};

rocksdb::Options options() {
  rocksdb::Options its;
  its.create_if_missing = true;
  its.merge_operator = std::make_shared<Listing>();
  its.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(1));
  return its;
}

// A database of one of the two kinds, and what it has answered.
class Port {
 public:
  Port(bool ours, std::string folder) : ours_(ours), folder_(std::move(folder)) { open(); }
  ~Port() { close(); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  void open() {
    close();
    rocksdb::DB* db = nullptr;
    say("open", open_as(options(), &db));
    if (db == nullptr) std::exit(1);
    db_.reset(db);
  }
  void close() {
    if (db_ != nullptr) say("close", db_->Close());
    db_.reset();
  }
  Status open_as(const rocksdb::Options& how, rocksdb::DB** db) {
    return ours_ ? isotherm::open_rocksdb(how, folder_, db, more())
                 : rocksdb::DB::Open(how, folder_, db);
  }
  Status open_families(const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
                       std::vector<ColumnFamilyHandle*>* handles) {
    close();
    rocksdb::DB* db = nullptr;
    const Status status =
        ours_ ? isotherm::open_rocksdb(options(), folder_, families, handles, &db, more())
              : rocksdb::DB::Open(options(), folder_, families, handles, &db);
    db_.reset(db);
    return status;
  }
  Status destroy() {
    return ours_ ? isotherm::destroy_rocksdb(folder_, {}) : rocksdb::DestroyDB(folder_, {});
  }
  const std::string& folder() const { return folder_; }
  rocksdb::DB* operator->() { return db_.get(); }
  rocksdb::DB* get() { return db_.get(); }

  void say(const std::string& what, const std::string& answer = {}) {
    said_.push_back(what + ": " + answer);
  }
  // By its code: texts are each one's own.
  void say(const std::string& what, const Status& status, const std::string& value = {}) {
    say(what, std::to_string(status.code()) + " " + (status.ok() ? value : std::string()));
  }
  void say_value(const Slice& key, const rocksdb::ReadOptions& how = {}) {
    std::string value;
    const Status status = db_->Get(how, key, &value);
    say("get " + key.ToString(), status, value);
  }
  void say_all(const rocksdb::ReadOptions& how = {}, ColumnFamilyHandle* family = nullptr) {
    if (family == nullptr) family = db_->DefaultColumnFamily();
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(how, family));
    std::string text;
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      text += at->key().ToString() + "=" + at->value().ToString() + " ";
    }
    say("forward", at->status(), text);
    text.clear();
    for (at->SeekToLast(); at->Valid(); at->Prev()) text += at->key().ToString() + " ";
    say("backward", at->status(), text);
  }
  const std::vector<std::string>& said() const { return said_; }

 private:
  static isotherm::DbOptions more() {
    isotherm::DbOptions its;
    its.memory = 4 << 20;
    its.sync = isotherm::DbSync::no;
    return its;
  }

  const bool ours_;
  const std::string folder_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<std::string> said_;
};

const rocksdb::WriteOptions write;
const rocksdb::ReadOptions read;

// ---- Behaviours ----

void single_calls(Port& db) {
  db.say_value("none");
  db.say("put", db->Put(write, "key", "1"));
  db.say("put", db->Put(write, "key", "2"));
  db.say_value("key");
  db.say("put", db->Put(write, "", "of the empty key"));
  db.say("put", db->Put(write, "empty", ""));
  db.say_value("");
  db.say_value("empty");
  const std::string binary("\0\xff\0", 3);
  db.say("put", db->Put(write, binary, binary));
  db.say_value(binary);
  const std::string large(3 << 20, 'v');
  db.say("put", db->Put(write, "large", large));
  db.say_value("large");
  db.say("delete", db->Delete(write, "key"));
  db.say("delete", db->Delete(write, "never there"));
  db.say("single", db->SingleDelete(write, "empty"));
  db.say_value("key");
  db.say("delete", db->Delete(write, "large"));
  rocksdb::PinnableSlice pinned;
  const Status status = db->Get(read, db->DefaultColumnFamily(), "", &pinned);
  db.say("pinned", status, pinned.ToString());
  rocksdb::WriteOptions synced;
  synced.sync = true;
  db.say("synced", db->Put(synced, "synced", "1"));
  std::string value;
  bool found = false;
  if (db->KeyMayExist(read, "synced", &value, &found) && found) db.say("may exist", value);
  db.say_all();
}

void iterators(Port& db) {
  for (const char* key : {"a", "b", "ba", "bb", "c", "d"}) db->Put(write, key, key);
  db->Delete(write, "c");
  db.say("flush", db->Flush(rocksdb::FlushOptions()));
  db->Put(write, "bab", "late");
  db->Delete(write, "d");
  db.say_all();
  const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator(read));
  const auto show = [&](const std::string& what) {
    db.say(what, at->status(), at->Valid() ? at->key().ToString() : "no more");
  };
  for (const char* key : {"", "b", "bz", "z"}) {
    at->Seek(key);
    show("seek");
    at->SeekForPrev(key);
    show("seek for prev");
  }
  at->Seek("ba");
  at->Next();
  show("next");
  at->Prev();
  at->Prev();
  show("prev");
  at->Next();
  show("turned");
  db->Put(write, "aa", "not seen");
  at->SeekToFirst();
  at->Next();
  show("old");
  db.say("refresh", at->Refresh());
  at->SeekToFirst();
  at->Next();
  show("new");
  rocksdb::ReadOptions bounded;
  const Slice lower("b");
  const Slice upper("bb");
  bounded.iterate_lower_bound = &lower;
  bounded.iterate_upper_bound = &upper;
  db.say_all(bounded);
  for (rocksdb::ReadOptions how : {read, bounded}) {
    how.prefix_same_as_start = true;
    db.say_all(how);
    const std::unique_ptr<rocksdb::Iterator> its(db->NewIterator(how));
    std::string text;
    for (its->Seek("ba"); its->Valid(); its->Next()) text += its->key().ToString() + " ";
    db.say("of a prefix", text);
  }
}

void snapshots(Port& db) {
  db->Put(write, "key", "1");
  db->Put(write, "gone", "1");
  const rocksdb::Snapshot* const first = db->GetSnapshot();
  db->Put(write, "key", "2");
  db->Delete(write, "gone");
  db.say("flush", db->Flush(rocksdb::FlushOptions()));
  const rocksdb::Snapshot* const second = db->GetSnapshot();
  db.say("close beside snapshots", db->Close());
  db->Put(write, "key", "3");
  db.say("numbers", std::to_string(first->GetSequenceNumber() < second->GetSequenceNumber()));
  for (const rocksdb::Snapshot* const one : {first, second}) {
    rocksdb::ReadOptions how;
    how.snapshot = one;
    db.say_value("key", how);
    db.say_value("gone", how);
    db.say_all(how);
    std::vector<std::string> values;
    for (const Status& status : db->MultiGet(how, {"key", "gone"}, &values))
      db.say("multi", status);
    const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator(how));
    at->SeekToFirst();
    db.say("first", at->key().ToString());
  }
  db.say_value("key");
  db->ReleaseSnapshot(first);
  db->ReleaseSnapshot(second);
  rocksdb::ManagedSnapshot managed(db.get());
  db.say("managed", std::to_string(managed.snapshot() != nullptr));
}

void batches(Port& db) {
  rocksdb::WriteBatch batch;
  for (auto* one : {&batch, decltype(&batch){}}) db.say("empty", db->Write(write, one));
  batch.Put("a", "1");
  batch.Put("b", "1");
  batch.Delete("a");
  batch.Put("c", "1");
  batch.Put("c", "2");
  batch.SetSavePoint();
  batch.Put("d", "1");
  batch.RollbackToSavePoint();
  batch.Merge("e", "x");
  batch.Merge("e", "y");
  batch.SingleDelete("b");
  batch.Put("b", "2");
  db.say("batch", db->Write(write, &batch));
  db.say_all();
  batch.Clear();
  batch.Put("r1", "1");
  batch.DeleteRange("r", "s");
  batch.Put("r2", "1");
  db.say("range in a batch", db->Write(write, &batch));
  db.say_all();
}

void multi_gets(Port& db) {
  db->Put(write, "a", "1");
  db->Put(write, "b", "");
  std::vector<std::string> values;
  const std::vector<Slice> keys{"a", "none", "b", "a"};
  const std::vector<Status> statuses = db->MultiGet(read, keys, &values);
  for (size_t i = 0; i < keys.size(); ++i) db.say("one", statuses[i], values[i]);
  rocksdb::PinnableSlice pinned[4];
  Status its[4];
  db->MultiGet(read, db->DefaultColumnFamily(), keys.size(), keys.data(), pinned, its);
  for (size_t i = 0; i < keys.size(); ++i) db.say("pinned", its[i], pinned[i].ToString());
}

void merges(Port& db) {
  db.say("merge", db->Merge(write, "list", "a"));
  db.say("merge", db->Merge(write, "list", "b"));
  db.say_value("list");
  db.say("flush", db->Flush(rocksdb::FlushOptions()));
  db.say("merge", db->Merge(write, "list", "c"));
  db->Put(write, "other", "0");
  db->Merge(write, "other", "1");
  db->Delete(write, "list");
  db->Merge(write, "list", "new");
  db.say_all();
}

void ranges(Port& db) {
  for (int i = 0; i < 30; ++i) db->Put(write, "key" + std::to_string(i), "1");
  ColumnFamilyHandle* const all = db->DefaultColumnFamily();
  db.say("range", db->DeleteRange(write, all, "key1", "key2"));
  db.say_all();
  db.say("nothing", db->DeleteRange(write, all, "key3", "key3"));
  db->Put(write, "key15", "again");
  db.say("flush", db->Flush(rocksdb::FlushOptions()));
  db.say("range", db->DeleteRange(write, all, "key2", "key25"));
  db.say_all();
  db.say("compact", db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
  db.say_all();
}

void properties(Port& db) {
  for (int i = 0; i < 1000; ++i) db->Put(write, "key" + std::to_string(i), std::string(100, 'v'));
  db.say("flush", db->Flush(rocksdb::FlushOptions()));
  std::string text;
  uint64_t number = 0;
  const bool there = db->GetProperty("rocksdb.estimate-num-keys", &text);
  // It is an estimate for both.
  db.say("keys", std::to_string(there && std::stoull(text) >= 1000 && std::stoull(text) < 1200));
  const bool size = db->GetIntProperty("rocksdb.total-sst-files-size", &number);
  db.say("bytes", std::to_string(size && number > 1000));
  db.say("none", std::to_string(db->GetProperty("rocksdb.no-such-property", &text)));
  db.say("name", std::to_string(db->GetName().ends_with("/db")));
  db.say("comparator", db->GetOptions().comparator->Name());
  db.say("sync", db->SyncWAL());
}

void reopening(Port& db) {
  for (int i = 0; i < 100; ++i) db->Put(write, "key" + std::to_string(i), std::to_string(i));
  db->Delete(write, "key50");
  db.open();
  db.say_all();
  db->Put(write, "key7", "new");
  db->Merge(write, "key8", "more");
  db.say("flush", db->Flush(rocksdb::FlushOptions()));
  db->Delete(write, "key9");
  db.open();
  db.say_all();
  db.close();
  rocksdb::DB* none = nullptr;
  rocksdb::Options how = options();
  how.error_if_exists = true;
  db.say("exists", db.open_as(how, &none));
  db.open();
}

void families(Port& db) {
  db->Put(write, "key", "of the default");
  ColumnFamilyHandle* other = nullptr;
  db.say("create", db->CreateColumnFamily(options(), "other", &other));
  db.say("put", db->Put(write, other, "key", "of the other"));
  rocksdb::WriteBatch batch;
  batch.Put(other, "key2", "1");
  batch.Put("key2", "2");
  batch.Merge(other, "list", "x");
  batch.Delete("never there");
  db.say("both", db->Write(write, &batch));
  db.say_all();
  db.say_all(read, other);
  const rocksdb::Snapshot* const snapshot = db->GetSnapshot();
  rocksdb::ReadOptions how;
  how.snapshot = snapshot;
  db->Put(write, other, "key", "new");
  db->Put(write, "key", "new");
  db.say_all(how);
  db.say_all(how, other);
  db->ReleaseSnapshot(snapshot);
  std::vector<std::string> values;
  for (const Status& status :
       db->MultiGet(read, {other, db->DefaultColumnFamily()}, {"list", "list"}, &values)) {
    db.say("multi", status);
  }
  db.say("flush", db->Flush(rocksdb::FlushOptions(), {db->DefaultColumnFamily(), other}));
  db.say("destroy", db->DestroyColumnFamilyHandle(other));
  db.close();
  rocksdb::DB* none = nullptr;
  db.say("not all", db.open_as(options(), &none));
  std::vector<ColumnFamilyHandle*> handles;
  db.say("open",
         db.open_families({{rocksdb::kDefaultColumnFamilyName, options()}, {"other", options()}},
                          &handles));
  db.say_all();
  db.say_all(read, handles[1]);
  db.say("drop", db->DropColumnFamily(handles[1]));
  for (ColumnFamilyHandle* const one : handles) db->DestroyColumnFamilyHandle(one);
  db.open();
  db.say_all();
}

void destroying(Port& db) {
  db->Put(write, "key", "value");
  db.say("destroy while it is open", db.destroy());
  db.open();
  db.say_value("key");
  db.close();
  const std::string others = db.folder() + "/others.txt";
  std::ofstream(others) << "file";
  db.say("destroy", db.destroy());
  db.say("others", std::filesystem::exists(others) ? "stay" : "gone");
  std::filesystem::remove_all(db.folder());
  db.say("destroy what is not there", db.destroy());
  db.open();
}

void random_calls(Port& db, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](uint64_t below) { return random() % below; };
  const auto key = [&] { return "key" + std::to_string(draw(150)); };
  for (int step = 0; step < 1500; ++step) {
    rocksdb::WriteBatch batch;
    switch (draw(12)) {
      case 0:
        db.say_all();
        break;
      case 1:
        if (draw(20) == 0) db.open();
        if (draw(5) == 0) db.say("flush", db->Flush(rocksdb::FlushOptions()));
        break;
      case 2: {
        std::string first = key();
        std::string end = key();
        if (end < first) first.swap(end);
        if (draw(4) == 0) db->DeleteRange(write, db->DefaultColumnFamily(), first, end);
        break;
      }
      case 3:
      case 4:
        db.say_value(key());
        break;
      case 5:
        db.say("merge", db->Merge(write, key(), "m" + std::to_string(draw(100))));
        break;
      case 6:
        db.say("delete", db->Delete(write, key()));
        break;
      default:
        for (uint64_t left = draw(30); left != 0; --left) {
          const std::string its = key();
          draw(4) == 0 ? batch.Delete(its) : batch.Put(its, std::string(draw(300), 'v'));
        }
        db.say("batch", db->Write(write, &batch));
    }
  }
  db.say_all();
}

}  // namespace

int main(int count, char** words) {
  const uint64_t seed = count > 1 ? std::stoull(words[1]) : 1;
  const std::pair<const char*, std::function<void(Port&)>> all[] = {
      {"single calls", single_calls},
      {"iterators", iterators},
      {"snapshots", snapshots},
      {"batches", batches},
      {"multi gets", multi_gets},
      {"merges", merges},
      {"ranges", ranges},
      {"properties", properties},
      {"reopening", reopening},
      {"families", families},
      {"destroying", destroying},
      {"random calls", [&](Port& db) { random_calls(db, seed); }},
  };
  int wrong = 0;
  for (const auto& [name, run] : all) {
    std::vector<std::string> said[2];
    for (const bool ours : {false, true}) {
      std::string folder = std::filesystem::temp_directory_path() / "isotherm-port-XXXXXX";
      if (::mkdtemp(folder.data()) == nullptr) return 1;
      {
        Port db(ours, folder + "/db");
        run(db);
        db.close();
        said[ours ? 1 : 0] = db.said();
      }
      std::filesystem::remove_all(folder);
    }
    size_t at = 0;
    while (at < said[0].size() && at < said[1].size() && said[0][at] == said[1][at]) ++at;
    if (at == said[0].size() && at == said[1].size()) continue;
    ++wrong;
    std::string line[2];
    for (int of = 0; of < 2; ++of) line[of] = at < said[of].size() ? said[of][at] : "nothing";
    size_t same = 0;
    while (same < line[0].size() && line[0][same] == line[1][same]) ++same;
    constexpr size_t before = 40;
    constexpr size_t shown = 120;
    const size_t from = same - std::min(same, before);
    std::cerr << name << ", answer " << at << ", byte " << same
              << "\n  RocksDB:  " << line[0].substr(from, shown)
              << "\n  Isotherm: " << line[1].substr(std::min(from, line[1].size()), shown) << "\n";
  }
  return wrong == 0 ? 0 : 1;
}
