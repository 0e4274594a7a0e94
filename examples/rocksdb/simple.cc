// A program that is written for RocksDB. What makes it one of Isotherm's is the call that opens.
#include <isotherm/rocksdb.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>
#include <stdlib.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

namespace {

bool worked(const rocksdb::Status& status) {
  if (!status.ok()) std::cerr << status.ToString() << "\n";
  return status.ok();
}

bool run(rocksdb::DB& db) {
  const rocksdb::WriteOptions write;
  const rocksdb::ReadOptions read;
  std::string value;
  if (!worked(db.Put(write, "key1", "value")) || !worked(db.Get(read, "key1", &value)))
    return false;
  rocksdb::WriteBatch batch;
  batch.Delete("key1");
  batch.Put("key2", value);
  if (!worked(db.Write(write, &batch))) return false;
  if (!db.Get(read, "key1", &value).IsNotFound()) return false;
  rocksdb::PinnableSlice pinned;
  if (!worked(db.Get(read, db.DefaultColumnFamily(), "key2", &pinned))) return false;
  std::cout << "key2: " << pinned.ToString() << "\n";
  const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator(read));
  for (at->SeekToFirst(); at->Valid(); at->Next()) std::cout << at->key().ToString() << "\n";
  return worked(at->status());
}

}  // namespace

int main() {
  std::string folder = std::filesystem::temp_directory_path() / "isotherm-rocksdb-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* opened = nullptr;
  bool right = worked(isotherm::open_rocksdb(options, folder + "/db", &opened));
  const std::unique_ptr<rocksdb::DB> db(opened);
  right = right && run(*db);
  std::filesystem::remove_all(folder);
  return right ? 0 : 1;
}
