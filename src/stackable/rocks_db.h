// RocksDb: what isotherm::open_rocksdb (isotherm/rocksdb.h) opens.
//
//   default column family ─▶ Db (isotherm/db.h)
//   others, and all the rest ─▶ StackableDB ─▶ a database of RocksDB's own
// What would show, copy or check the default column family by way of RocksDB's own files is
// refused, since there is nothing of it: a copy without it would be worse than none.
//
// Threads. Any.
#pragma once

#include <rocksdb/utilities/stackable_db.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "isotherm/db.h"
#include "stackable/both_writer.h"

namespace isotherm {

class RocksDb final : public rocksdb::StackableDB {
 public:
  using Status = rocksdb::Status;
  using Slice = rocksdb::Slice;
  using Family = rocksdb::ColumnFamilyHandle;

  // `families` becomes its own. `syncs`: the Db syncs all that it writes.
  RocksDb(std::unique_ptr<Db> db, rocksdb::DB* families, std::string name, bool syncs);
  ~RocksDb() override;
  // Once, before all else, with those that RocksDB has opened.
  Status finish_writes(const std::vector<Family*>& families) {
    both_.note_families(families);
    return both_.finish();
  }
  RocksDb(const RocksDb&) = delete;
  RocksDb& operator=(const RocksDb&) = delete;

  const std::string& GetName() const override { return name_; }
  Status Close() override;

  using StackableDB::Put;
  Status Put(const rocksdb::WriteOptions& how, Family* family, const Slice& key,
             const Slice& value) override;
  using StackableDB::PutEntity;
  Status PutEntity(const rocksdb::WriteOptions& how, Family* family, const Slice& key,
                   const rocksdb::WideColumns& columns) override;
  using StackableDB::Delete;
  Status Delete(const rocksdb::WriteOptions& how, Family* family, const Slice& key) override;
  using StackableDB::SingleDelete;
  Status SingleDelete(const rocksdb::WriteOptions& how, Family* family, const Slice& key) override;
  using StackableDB::DeleteRange;
  Status DeleteRange(const rocksdb::WriteOptions& how, Family* family, const Slice& first,
                     const Slice& end) override;
  using StackableDB::Merge;
  Status Merge(const rocksdb::WriteOptions& how, Family* family, const Slice& key,
               const Slice& operand) override;
  Status Write(const rocksdb::WriteOptions& how, rocksdb::WriteBatch* updates) override;

  using StackableDB::Get;
  Status Get(const rocksdb::ReadOptions& how, Family* family, const Slice& key,
             rocksdb::PinnableSlice* value) override;
  using StackableDB::GetEntity;
  Status GetEntity(const rocksdb::ReadOptions& how, Family* family, const Slice& key,
                   rocksdb::PinnableWideColumns* columns) override;
  using StackableDB::GetMergeOperands;
  Status GetMergeOperands(const rocksdb::ReadOptions& how, Family* family, const Slice& key,
                          rocksdb::PinnableSlice* operands,
                          rocksdb::GetMergeOperandsOptions* options, int* count) override;
  using StackableDB::MultiGet;
  std::vector<Status> MultiGet(const rocksdb::ReadOptions& how,
                               const std::vector<Family*>& families, const std::vector<Slice>& keys,
                               std::vector<std::string>* values) override;
  void MultiGet(const rocksdb::ReadOptions& how, Family* family, size_t count, const Slice* keys,
                rocksdb::PinnableSlice* values, Status* statuses, bool sorted) override;
  using StackableDB::KeyMayExist;
  bool KeyMayExist(const rocksdb::ReadOptions& how, Family* family, const Slice& key,
                   std::string* value, bool* found) override;
  using StackableDB::NewIterator;
  rocksdb::Iterator* NewIterator(const rocksdb::ReadOptions& how, Family* family) override;
  Status NewIterators(const rocksdb::ReadOptions& how, const std::vector<Family*>& families,
                      std::vector<rocksdb::Iterator*>* iterators) override;
  const rocksdb::Snapshot* GetSnapshot() override;
  void ReleaseSnapshot(const rocksdb::Snapshot* snapshot) override;

  Status CreateColumnFamily(const rocksdb::ColumnFamilyOptions& options, const std::string& name,
                            Family** family) override;
  Status CreateColumnFamilies(const rocksdb::ColumnFamilyOptions& options,
                              const std::vector<std::string>& names,
                              std::vector<Family*>* families) override;
  Status CreateColumnFamilies(const std::vector<rocksdb::ColumnFamilyDescriptor>& descriptors,
                              std::vector<Family*>* families) override;
  Status CreateColumnFamilyWithImport(const rocksdb::ColumnFamilyOptions& options,
                                      const std::string& name,
                                      const rocksdb::ImportColumnFamilyOptions& how,
                                      const rocksdb::ExportImportFilesMetaData& files,
                                      Family** family) override;
  Status DropColumnFamily(Family* family) override;
  Status DropColumnFamilies(const std::vector<Family*>& families) override;

  using StackableDB::Flush;
  Status Flush(const rocksdb::FlushOptions& how, Family* family) override;
  Status Flush(const rocksdb::FlushOptions& how, const std::vector<Family*>& families) override;
  Status SyncWAL() override { return FlushWAL(true); }
  Status FlushWAL(bool sync) override;
  using StackableDB::CompactRange;
  Status CompactRange(const rocksdb::CompactRangeOptions& how, Family* family, const Slice* first,
                      const Slice* end) override;
  Status SuggestCompactRange(Family* family, const Slice* first, const Slice* end) override;
  using StackableDB::GetProperty;
  bool GetProperty(Family* family, const Slice& property, std::string* value) override;
  using StackableDB::GetMapProperty;
  bool GetMapProperty(Family* family, const Slice& property,
                      std::map<std::string, std::string>* value) override;
  using StackableDB::GetIntProperty;
  bool GetIntProperty(Family* family, const Slice& property, uint64_t* value) override;
  bool GetAggregatedIntProperty(const Slice& property, uint64_t* value) override;
  rocksdb::SequenceNumber GetLatestSequenceNumber() const override;

  // Refused of the default column family, or as a whole. This one of no column family: so begins
  // TransactionDB::WrapDB where nobody has asked for allow_2pc. Its writes go to RocksDB's own
  // files, whoever is between, and would never be seen again.
  Status EnableAutoCompaction(const std::vector<Family*>& families) override {
    return families.empty() ? not_mine() : db_->EnableAutoCompaction(families);
  }
  using StackableDB::GetApproximateSizes;
  Status GetApproximateSizes(const rocksdb::SizeApproximationOptions& how, Family* family,
                             const rocksdb::Range* ranges, int count, uint64_t* sizes) override;
  using StackableDB::IngestExternalFile;
  Status IngestExternalFile(Family* family, const std::vector<std::string>& files,
                            const rocksdb::IngestExternalFileOptions& how) override;
  Status IngestExternalFiles(const std::vector<rocksdb::IngestExternalFileArg>& args) override;
  using StackableDB::GetPropertiesOfAllTables;
  Status GetPropertiesOfAllTables(Family* family,
                                  rocksdb::TablePropertiesCollection* properties) override;
  Status GetPropertiesOfTablesInRange(Family* family, const rocksdb::Range* ranges, size_t count,
                                      rocksdb::TablePropertiesCollection* properties) override;
  Status PromoteL0(Family* family, int level) override;
  Status GetLiveFiles(std::vector<std::string>& files, uint64_t* manifest_bytes,
                      bool flushes) override;
  Status GetLiveFilesStorageInfo(const rocksdb::LiveFilesStorageInfoOptions& how,
                                 std::vector<rocksdb::LiveFileStorageInfo>* files) override;
  Status GetLiveFilesChecksumInfo(rocksdb::FileChecksumList* /*sums*/) override {
    return not_mine();
  }
  Status GetSortedWalFiles(rocksdb::VectorLogPtr& /*files*/) override { return not_mine(); }
  Status LockWAL() override { return not_mine(); }
  Status UnlockWAL() override { return not_mine(); }
  Status VerifyChecksum() override { return not_mine(); }
  Status VerifyChecksum(const rocksdb::ReadOptions& /*how*/) override { return not_mine(); }
  Status VerifyFileChecksums(const rocksdb::ReadOptions& /*how*/) override { return not_mine(); }
  Status GetUpdatesSince(rocksdb::SequenceNumber number,
                         std::unique_ptr<rocksdb::TransactionLogIterator>* iterator,
                         const rocksdb::TransactionLogIterator::ReadOptions& how) override;

 private:
  class BothSnapshots;

  static bool is_mine(const Family* family) { return family == nullptr || family->GetID() == 0; }
  static const DbSnapshot* mine(const rocksdb::ReadOptions& how);
  static rocksdb::ReadOptions others(const rocksdb::ReadOptions& how);
  // Not after `Close`.
  bool is_open() const { return mine_ != nullptr; }
  static Status closed() { return Status::Aborted("the database is closed"); }
  static Status not_mine() {
    return Status::NotSupported("of the default column family, which is a Db of Isotherm");
  }
  Status write(const rocksdb::WriteOptions& how, const WriteGroup& group);
  Status get(const rocksdb::ReadOptions& how, const Slice& key, std::string& value);
  Status made(Status status, Family** family);
  Status flush();
  bool number_of(const Slice& property, uint64_t& value);

  std::unique_ptr<Db> mine_;
  const std::string name_;
  const bool syncs_;
  const bool merges_;
  BothWriter both_;
  std::atomic<uint64_t> snapshots_{0};  // that are not released
  std::atomic<uint64_t> changes_{0};    // of this process, as a part of the sequence number
};

}  // namespace isotherm
