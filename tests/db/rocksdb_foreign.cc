// What open_rocksdb, and a store with a tree, refuse: databases that are RocksDB's own, which stay
// as they are, options that they could not keep, and calls behind Close. A line is printed for
// whatever is not so.
#include <rocksdb/compaction_filter.h>
#include <rocksdb/comparator.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/utilities/transaction_db.h>
#include <rocksdb/write_batch.h>
#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "isotherm/rocksdb.h"
#include "isotherm/store.h"

namespace {

class DropsAll final : public rocksdb::CompactionFilter {
 public:
  const char* Name() const override { return "drops all"; }
};

int wrong = 0;

void expect(bool right, const std::string& what) {
  if (right) return;
  ++wrong;
  std::cerr << what << "\n";
}

rocksdb::Options options() {
  rocksdb::Options its;
  its.create_if_missing = true;
  return its;
}

rocksdb::Status open_ours(const rocksdb::Options& how, const std::string& folder) {
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = isotherm::open_rocksdb(how, folder, &db);
  const std::unique_ptr<rocksdb::DB> owner(db);
  return status;
}

// What its owner finds in it.
std::string foreign_value(const std::string& folder) {
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options(), folder, &db);
  const std::unique_ptr<rocksdb::DB> owner(db);
  if (!status.ok()) return status.ToString();
  std::string value;
  static_cast<void>(db->Get({}, "key", &value));
  return value;
}

void refuses_foreign(const std::string& folder) {
  {
    rocksdb::DB* db = nullptr;
    expect(rocksdb::DB::Open(options(), folder, &db).ok(), "RocksDB does not open");
    const std::unique_ptr<rocksdb::DB> owner(db);
    expect(db->Put({}, "key", "value").ok(), "RocksDB does not put");
  }
  expect(open_ours(options(), folder).IsInvalidArgument(), "open_rocksdb takes a foreign database");
  expect(foreign_value(folder) == "value", "open_rocksdb has changed it");
  isotherm::Options store;
  store.maxmemory = 16 << 20;
  store.maxmemory_policy = isotherm::EvictionPolicy::allkeys_lru;
  store.tree = folder;
  try {
    const isotherm::Store opened(store);
    expect(false, "a store takes a foreign database for its tree");
  } catch (const std::exception&) {
  }
  expect(foreign_value(folder) == "value", "a tree has changed it: " + foreign_value(folder));
  // Who looks into it has no place for a log, and must take none.
  expect(std::filesystem::is_character_file("/dev/null"), "a log has taken the place of /dev/null");
}

void refuses_options(const std::string& folder) {
  const DropsAll drops;
  const std::unique_ptr<rocksdb::Env> memory(rocksdb::NewMemEnv(rocksdb::Env::Default()));
  const std::function<void(rocksdb::Options&)> bad[] = {
      [&](rocksdb::Options& its) { its.compaction_filter = &drops; },
      [](rocksdb::Options& its) { its.compaction_style = rocksdb::kCompactionStyleFIFO; },
      [&](rocksdb::Options& its) { its.env = memory.get(); },
      [](rocksdb::Options& its) { its.allow_2pc = true; },
      [](rocksdb::Options& its) { its.comparator = rocksdb::ReverseBytewiseComparator(); }};
  for (const auto& set : bad) {
    rocksdb::Options its = options();
    set(its);
    expect(open_ours(its, folder).IsNotSupported(), "an option is taken and not kept");
  }
  const rocksdb::Status status = open_ours(options(), folder);
  expect(status.ok(), "good options are refused: " + status.ToString());
}

// What would look at RocksDB's own files alone, and say that all is well.
void refuses_what_passes_it_by(const std::string& folder) {
  rocksdb::DB* db = nullptr;
  expect(isotherm::open_rocksdb(options(), folder, &db).ok(), "it does not open");
  const std::unique_ptr<rocksdb::DB> owner(db);
  expect(db->Put({}, "key", "value").ok(), "Put");
  expect(db->VerifyChecksum().IsNotSupported(), "VerifyChecksum");
  expect(db->VerifyChecksum({}).IsNotSupported(), "VerifyChecksum");
  expect(db->VerifyFileChecksums({}).IsNotSupported(), "VerifyFileChecksums");
  expect(db->LockWAL().IsNotSupported() && db->UnlockWAL().IsNotSupported(), "LockWAL");
  rocksdb::VectorLogPtr logs;
  expect(db->GetSortedWalFiles(logs).IsNotSupported(), "GetSortedWalFiles");
  const rocksdb::Range all("a", "z");
  rocksdb::TablePropertiesCollection tables;
  expect(db->GetPropertiesOfTablesInRange(nullptr, &all, 1, &tables).IsNotSupported(),
         "GetPropertiesOfTablesInRange");
  const std::unique_ptr<rocksdb::FileChecksumList> sums(rocksdb::NewFileChecksumList());
  expect(db->GetLiveFilesChecksumInfo(sums.get()).IsNotSupported(), "GetLiveFilesChecksumInfo");
}

// RocksDB takes the database and its handles, and ends them where it fails.
void refuses_transactions_over_it(const std::string& folder) {
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  expect(isotherm::open_rocksdb(options(), folder, {{"default", {}}}, &handles, &db).ok(), "open");
  rocksdb::TransactionDB* over = nullptr;
  expect(rocksdb::TransactionDB::WrapDB(db, {}, {}, handles, &over).IsNotSupported(), "WrapDB");
}

// RepairDB makes an empty database where it finds none: what is to go is named, and all is there
// when it has gone.
void names_what_repairs_leave(const std::string& folder) {
  rocksdb::DB* db = nullptr;
  expect(isotherm::open_rocksdb(options(), folder, &db).ok(), "it does not open");
  expect(db->Put({}, "key", "value").ok(), "Put");
  delete db;
  expect(rocksdb::RepairDB(folder, options()).ok(), "RepairDB");
  const rocksdb::Status status = open_ours(options(), folder);
  expect(status.IsInvalidArgument() &&
             status.ToString().find("move CURRENT, MANIFEST-*,") != std::string::npos,
         "behind RepairDB: " + status.ToString());
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const auto begins = [&](const char* with) { return name.starts_with(with); };
    if (begins("CURRENT") || begins("MANIFEST-") || begins("OPTIONS-") || begins("IDENTITY")) {
      std::filesystem::remove(entry.path());
    }
  }
  expect(isotherm::open_rocksdb(options(), folder, &db).ok(), "what RepairDB left is gone");
  const std::unique_ptr<rocksdb::DB> owner(db);
  std::string value;
  expect(db->Get({}, "key", &value).ok() && value == "value", "a key is lost behind RepairDB");
}

// What RocksDB finds out about a batch when it has written it down is found before: the Db's part
// would be there, and RocksDB's refused again at every open.
void refuses_batches_before_it_writes(const std::string& folder) {
  rocksdb::DB* db = nullptr;
  expect(isotherm::open_rocksdb(options(), folder, &db).ok(), "it does not open");
  std::unique_ptr<rocksdb::DB> owner(db);
  rocksdb::ColumnFamilyHandle* other = nullptr;
  rocksdb::ColumnFamilyHandle* dropped = nullptr;
  expect(db->CreateColumnFamily(rocksdb::ColumnFamilyOptions(), "other", &other).ok(), "family");
  expect(db->CreateColumnFamily(rocksdb::ColumnFamilyOptions(), "dropped", &dropped).ok(),
         "family");
  expect(db->DropColumnFamily(dropped).ok(), "drop");
  rocksdb::ColumnFamilyOptions backwards;
  backwards.comparator = rocksdb::ReverseBytewiseComparator();
  rocksdb::ColumnFamilyHandle* reverse = nullptr;
  expect(db->CreateColumnFamily(backwards, "reverse", &reverse).ok(), "family");
  const std::function<void(rocksdb::WriteBatch&)> bad[] = {
      [&](rocksdb::WriteBatch& batch) { batch.Put(dropped, "key", "new"); },
      [&](rocksdb::WriteBatch& batch) { batch.DeleteRange(other, "z", "a"); },
      [&](rocksdb::WriteBatch& batch) { batch.Merge(other, "key", "operand"); }};
  std::string value;
  for (const auto& add : bad) {
    rocksdb::WriteBatch batch;
    batch.Put("key", "new");
    batch.Put(other, "key", "new");
    add(batch);
    expect(db->Write({}, &batch).IsInvalidArgument(), "a bad batch is taken");
    expect(
        db->Get({}, "key", &value).IsNotFound() && db->Get({}, other, "key", &value).IsNotFound(),
        "a part of a bad batch is written");
  }
  rocksdb::WriteBatch columns;
  columns.PutEntity(other, "entity", {{"name", "value"}});
  expect(db->Write({}, &columns).ok(), "a batch of wide columns of others is refused");
  columns.Put("key", "new");
  expect(db->Write({}, &columns).IsNotSupported(), "a batch of wide columns and others is taken");
  rocksdb::WriteBatch good;
  good.Put("key", "good");
  good.Put(other, "key", "good");
  good.DeleteRange(reverse, "z", "a");
  expect(db->Write({}, &good).ok(), "a good batch is refused");
  for (rocksdb::ColumnFamilyHandle* const one : {other, dropped, reverse}) {
    expect(db->DestroyColumnFamilyHandle(one).ok(), "handle");
  }
  owner.reset();
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const rocksdb::ColumnFamilyOptions plain;
  expect(isotherm::open_rocksdb(options(), folder,
                                {{"default", plain}, {"other", plain}, {"reverse", backwards}},
                                &handles, &db)
             .ok(),
         "it does not open again");
  owner.reset(db);
  expect(db->Get({}, handles[1], "key", &value).ok() && value == "good", "what was good is lost");
  for (rocksdb::ColumnFamilyHandle* const one : handles) {
    expect(db->DestroyColumnFamilyHandle(one).ok(), "handle");
  }
}

// A status, and no exception.
void refuses_names(const std::string& folder) {
  expect(open_ours(options(), folder + "/" + std::string(300, 'n')).IsIOError(), "a long name");
}

// By whatever name: two of them on the same files would destroy each other's.
void refuses_what_is_open(const std::string& folder) {
  rocksdb::DB* db = nullptr;
  expect(isotherm::open_rocksdb(options(), folder, &db).ok(), "it does not open");
  std::unique_ptr<rocksdb::DB> owner(db);
  std::filesystem::create_directory_symlink(folder, folder + "-link");
  for (const std::string& name : {folder, folder + "/", folder + "/../open", folder + "-link"}) {
    expect(open_ours(options(), name).IsIOError(), name + " is opened twice");
  }
  rocksdb::ColumnFamilyHandle* family = nullptr;
  expect(db->CreateColumnFamily(rocksdb::ColumnFamilyOptions(), "other", &family).ok(), "family");
  expect(db->Put({}, "key", "value").ok() && db->Put({}, family, "key", "value").ok(), "Put");
  expect(db->DestroyColumnFamilyHandle(family).ok(), "handle");
  owner.reset();
  std::vector<std::string> names;
  expect(isotherm::list_rocksdb_families(options(), folder, &names).ok() && names.size() == 2,
         "what was open has lost a column family");
}

// RocksDB's own may do anything then.
void refuses_what_is_closed(const std::string& folder) {
  rocksdb::DB* db = nullptr;
  expect(isotherm::open_rocksdb(options(), folder, &db).ok(), "it does not open");
  const std::unique_ptr<rocksdb::DB> owner(db);
  expect(db->Write({}, nullptr).IsInvalidArgument(), "there is no batch");
  expect(db->Put({}, "key", "value").ok() && db->Close().ok(), "it does not close");
  std::string value;
  rocksdb::WriteBatch batch;
  batch.Put("key", "new");
  expect(db->Get({}, "key", &value).IsAborted(), "Get");
  expect(db->Put({}, "key", "new").IsAborted(), "Put");
  expect(db->Delete({}, "key").IsAborted(), "Delete");
  expect(db->Merge({}, "key", "new").IsAborted(), "Merge");
  rocksdb::ColumnFamilyHandle* const family = nullptr;
  expect(db->DeleteRange({}, family, "a", "z").IsAborted(), "DeleteRange");
  expect(db->Write({}, &batch).IsAborted(), "Write");
  expect(db->Flush({}, family).IsAborted(), "Flush");
  expect(db->FlushWAL(true).IsAborted(), "FlushWAL");
  expect(db->GetSnapshot() == nullptr, "GetSnapshot");
  std::vector<std::string> values;
  expect(db->MultiGet({}, {family}, {"key"}, &values).front().IsAborted(), "MultiGet");
  const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}, family));
  at->SeekToFirst();
  expect(!at->Valid() && at->status().IsAborted(), "NewIterator");
  uint64_t number = 0;
  expect(!db->GetIntProperty(family, rocksdb::DB::Properties::kEstimateNumKeys, &number),
         "GetIntProperty");
  expect(db->Close().ok(), "it does not close twice");
}

}  // namespace

int main() {
  std::string folder = std::filesystem::temp_directory_path() / "isotherm-foreign-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  refuses_foreign(folder + "/foreign");
  refuses_options(folder + "/ours");
  refuses_what_passes_it_by(folder + "/passed");
  refuses_transactions_over_it(folder + "/transactions");
  names_what_repairs_leave(folder + "/repaired");
  refuses_batches_before_it_writes(folder + "/batches");
  refuses_names(folder);
  refuses_what_is_open(folder + "/open");
  refuses_what_is_closed(folder + "/closed");
  std::filesystem::remove_all(folder);
  return wrong == 0 ? 0 : 1;
}
