#include "stackable/rocks_db.h"

#include <rocksdb/snapshot.h>
#include <rocksdb/wide_columns.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string_view>
#include <utility>

#include "stackable/rocks_batch.h"
#include "stackable/rocks_iterator.h"
#include "stackable/rocks_words.h"

namespace isotherm {

// Of the Db, and of RocksDB's own, taken one behind the other.
class RocksDb::BothSnapshots final : public rocksdb::Snapshot {
 public:
  BothSnapshots(std::unique_ptr<const DbSnapshot> of_db, const rocksdb::Snapshot* of_others,
                uint64_t number)
      : mine(std::move(of_db)), others(of_others), number_(number) {}
  rocksdb::SequenceNumber GetSequenceNumber() const override { return number_; }
  int64_t GetUnixTime() const override { return others->GetUnixTime(); }
  uint64_t GetTimestamp() const override { return others->GetTimestamp(); }

  const std::unique_ptr<const DbSnapshot> mine;
  const rocksdb::Snapshot* const others;

 private:
  const uint64_t number_;
};

RocksDb::RocksDb(std::unique_ptr<Db> db, rocksdb::DB* families, std::string name, bool syncs)
    : StackableDB(families),
      mine_(std::move(db)),
      name_(std::move(name)),
      syncs_(syncs),
      merges_(families->GetOptions().merge_operator != nullptr),
      both_(*mine_, *families, syncs) {}

RocksDb::~RocksDb() = default;

rocksdb::Status RocksDb::Close() {
  if (mine_ == nullptr) return Status::OK();
  if (snapshots_ != 0) return Status::Aborted("Cannot close DB with unreleased snapshot.");
  Status flushed = flush();
  mine_.reset();
  Status closed = db_->Close();
  return flushed.ok() ? closed : flushed;
}

const DbSnapshot* RocksDb::mine(const rocksdb::ReadOptions& how) {
  if (how.snapshot == nullptr) return nullptr;
  return static_cast<const BothSnapshots*>(how.snapshot)->mine.get();
}

rocksdb::ReadOptions RocksDb::others(const rocksdb::ReadOptions& how) {
  rocksdb::ReadOptions its = how;
  if (how.snapshot != nullptr)
    its.snapshot = static_cast<const BothSnapshots*>(how.snapshot)->others;
  return its;
}

// ---- Writes ----

rocksdb::Status RocksDb::write(const rocksdb::WriteOptions& how, const WriteGroup& group) {
  if (!is_open()) return closed();
  Status status = rocks_status(mine_->write(group));
  if (!status.ok()) return status;
  changes_.fetch_add(group.size(), std::memory_order_relaxed);
  return how.sync && !syncs_ ? rocks_status(mine_->sync()) : status;
}

rocksdb::Status RocksDb::Put(const rocksdb::WriteOptions& how, Family* family, const Slice& key,
                             const Slice& value) {
  if (!is_mine(family)) return db_->Put(how, family, key, value);
  WriteGroup group;
  group.put(view_of(key), view_of(value));
  return write(how, group);
}

rocksdb::Status RocksDb::PutEntity(const rocksdb::WriteOptions& how, Family* family,
                                   const Slice& key, const rocksdb::WideColumns& columns) {
  return is_mine(family) ? not_mine() : db_->PutEntity(how, family, key, columns);
}

rocksdb::Status RocksDb::Delete(const rocksdb::WriteOptions& how, Family* family,
                                const Slice& key) {
  if (!is_mine(family)) return db_->Delete(how, family, key);
  WriteGroup group;
  group.erase(view_of(key));
  return write(how, group);
}

rocksdb::Status RocksDb::SingleDelete(const rocksdb::WriteOptions& how, Family* family,
                                      const Slice& key) {
  return is_mine(family) ? Delete(how, family, key) : db_->SingleDelete(how, family, key);
}

rocksdb::Status RocksDb::DeleteRange(const rocksdb::WriteOptions& how, Family* family,
                                     const Slice& first, const Slice& end) {
  if (!is_mine(family)) return db_->DeleteRange(how, family, first, end);
  if (!is_open()) return closed();
  RocksBatch batch(*mine_, merges_);
  Status filled = batch.DeleteRangeCF(0, first, end);
  return filled.ok() ? write(how, batch.group()) : filled;
}

rocksdb::Status RocksDb::Merge(const rocksdb::WriteOptions& how, Family* family, const Slice& key,
                               const Slice& operand) {
  if (!is_mine(family)) return db_->Merge(how, family, key, operand);
  if (!is_open()) return closed();
  RocksBatch batch(*mine_, merges_);
  Status filled = batch.MergeCF(0, key, operand);
  return filled.ok() ? write(how, batch.group()) : filled;
}

// Where it has changes of others alone it goes on as it is.
rocksdb::Status RocksDb::Write(const rocksdb::WriteOptions& how, rocksdb::WriteBatch* updates) {
  if (updates == nullptr) return Status::InvalidArgument("Batch is nullptr!");
  if (!is_open()) return closed();
  RocksBatch batch(*mine_, merges_);
  Status status = updates->Iterate(&batch);
  if (!status.ok()) return status;
  if (batch.group().empty()) return db_->Write(how, updates);
  if (batch.has_entities()) {
    return Status::NotSupported("wide columns in a batch that changes the default column family");
  }
  if (batch.others().Count() == 0) return write(how, batch.group());
  status = both_.write(how, batch.group(), batch.others());
  changes_.fetch_add(batch.group().size(), std::memory_order_relaxed);
  return status;
}

// ---- Reads ----

rocksdb::Status RocksDb::get(const rocksdb::ReadOptions& how, const Slice& key,
                             std::string& value) {
  if (!is_open()) return closed();
  return rocks_status(mine_->get(view_of(key), value, {.snapshot = mine(how)}));
}

rocksdb::Status RocksDb::Get(const rocksdb::ReadOptions& how, Family* family, const Slice& key,
                             rocksdb::PinnableSlice* value) {
  if (!is_mine(family)) return db_->Get(others(how), family, key, value);
  value->Reset();
  Status status = get(how, key, *value->GetSelf());
  if (status.ok()) value->PinSelf();
  return status;
}

rocksdb::Status RocksDb::GetEntity(const rocksdb::ReadOptions& how, Family* family,
                                   const Slice& key, rocksdb::PinnableWideColumns* columns) {
  if (!is_mine(family)) return db_->GetEntity(others(how), family, key, columns);
  std::string value;
  columns->Reset();
  Status status = get(how, key, value);
  if (status.ok()) columns->SetPlainValue(value);
  return status;
}

rocksdb::Status RocksDb::GetMergeOperands(const rocksdb::ReadOptions& how, Family* family,
                                          const Slice& key, rocksdb::PinnableSlice* operands,
                                          rocksdb::GetMergeOperandsOptions* options, int* count) {
  if (is_mine(family)) return not_mine();
  return db_->GetMergeOperands(others(how), family, key, operands, options, count);
}

// Those of the Db, which are of one moment, and the others, key by key.
std::vector<rocksdb::Status> RocksDb::MultiGet(const rocksdb::ReadOptions& how,
                                               const std::vector<Family*>& families,
                                               const std::vector<Slice>& keys,
                                               std::vector<std::string>* values) {
  values->assign(keys.size(), {});
  if (!is_open()) return std::vector<Status>(keys.size(), closed());
  std::vector<Status> statuses(keys.size());
  std::vector<std::string_view> asked;
  std::vector<size_t> places;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (is_mine(families[i])) {
      asked.push_back(view_of(keys[i]));
      places.push_back(i);
    } else {
      statuses[i] = db_->Get(others(how), families[i], keys[i], &(*values)[i]);
    }
  }
  std::vector<std::string> found;
  const std::vector<DbStatus> all = mine_->multi_get(asked, found, {.snapshot = mine(how)});
  for (size_t i = 0; i < places.size(); ++i) {
    statuses[places[i]] = rocks_status(all[i]);
    (*values)[places[i]] = std::move(found[i]);
  }
  return statuses;
}

void RocksDb::MultiGet(const rocksdb::ReadOptions& how, Family* family, size_t count,
                       const Slice* keys, rocksdb::PinnableSlice* values, Status* statuses,
                       bool sorted) {
  if (!is_mine(family)) {
    return db_->MultiGet(others(how), family, count, keys, values, statuses, sorted);
  }
  std::vector<std::string> found;
  const std::vector<Status> all =
      MultiGet(how, std::vector<Family*>(count, family), {keys, keys + count}, &found);
  for (size_t i = 0; i < count; ++i) {
    statuses[i] = all[i];
    values[i].Reset();
    if (all[i].ok()) values[i].PinSelf(found[i]);
  }
}

bool RocksDb::KeyMayExist(const rocksdb::ReadOptions& how, Family* family, const Slice& key,
                          std::string* value, bool* found) {
  if (!is_mine(family)) return db_->KeyMayExist(others(how), family, key, value, found);
  std::string its;
  Status status = get(how, key, its);
  if (found != nullptr) *found = status.ok();
  if (status.ok() && value != nullptr) *value = std::move(its);
  return !status.IsNotFound();
}

rocksdb::Iterator* RocksDb::NewIterator(const rocksdb::ReadOptions& how, Family* family) {
  if (!is_mine(family)) return db_->NewIterator(others(how), family);
  if (!is_open()) return rocksdb::NewErrorIterator(closed());
  return new RocksIterator(*mine_, how, mine(how), GetOptions(family).prefix_extractor);
}

rocksdb::Status RocksDb::NewIterators(const rocksdb::ReadOptions& how,
                                      const std::vector<Family*>& families,
                                      std::vector<rocksdb::Iterator*>* iterators) {
  iterators->clear();
  const auto turn = both_.turn();
  for (Family* const family : families) iterators->push_back(NewIterator(how, family));
  return Status::OK();
}

const rocksdb::Snapshot* RocksDb::GetSnapshot() {
  const auto turn = both_.turn();
  std::unique_ptr<const DbSnapshot> mine;
  if (!is_open() || !mine_->snapshot(mine).ok()) return nullptr;
  snapshots_.fetch_add(1);
  return new BothSnapshots(std::move(mine), db_->GetSnapshot(), GetLatestSequenceNumber());
}

void RocksDb::ReleaseSnapshot(const rocksdb::Snapshot* snapshot) {
  if (snapshot == nullptr) return;
  const auto* const both = static_cast<const BothSnapshots*>(snapshot);
  db_->ReleaseSnapshot(both->others);
  delete both;
  snapshots_.fetch_sub(1);
}

// ---- Column families ----

rocksdb::Status RocksDb::CreateColumnFamily(const rocksdb::ColumnFamilyOptions& options,
                                            const std::string& name, Family** family) {
  return made(db_->CreateColumnFamily(options, name, family), family);
}

rocksdb::Status RocksDb::CreateColumnFamilies(const rocksdb::ColumnFamilyOptions& options,
                                              const std::vector<std::string>& names,
                                              std::vector<Family*>* families) {
  Status status = db_->CreateColumnFamilies(options, names, families);
  both_.note_families(*families);
  return status;
}

rocksdb::Status RocksDb::CreateColumnFamilies(
    const std::vector<rocksdb::ColumnFamilyDescriptor>& descriptors,
    std::vector<Family*>* families) {
  Status status = db_->CreateColumnFamilies(descriptors, families);
  both_.note_families(*families);
  return status;
}

rocksdb::Status RocksDb::CreateColumnFamilyWithImport(
    const rocksdb::ColumnFamilyOptions& options, const std::string& name,
    const rocksdb::ImportColumnFamilyOptions& how, const rocksdb::ExportImportFilesMetaData& files,
    Family** family) {
  return made(db_->CreateColumnFamilyWithImport(options, name, how, files, family), family);
}

rocksdb::Status RocksDb::made(Status status, Family** family) {
  if (status.ok()) both_.note_families({*family});
  return status;
}

rocksdb::Status RocksDb::DropColumnFamily(Family* family) {
  return both_.drop({family}, [&] { return db_->DropColumnFamily(family); });
}

rocksdb::Status RocksDb::DropColumnFamilies(const std::vector<Family*>& families) {
  return both_.drop(families, [&] { return db_->DropColumnFamilies(families); });
}

// ---- Files and figures ----

rocksdb::Status RocksDb::flush() { return is_open() ? rocks_status(mine_->flush()) : closed(); }

rocksdb::Status RocksDb::Flush(const rocksdb::FlushOptions& how, Family* family) {
  return is_mine(family) ? flush() : db_->Flush(how, family);
}

rocksdb::Status RocksDb::Flush(const rocksdb::FlushOptions& how,
                               const std::vector<Family*>& families) {
  if (std::any_of(families.begin(), families.end(), is_mine)) {
    if (Status status = flush(); !status.ok()) return status;
  }
  return db_->Flush(how, families);
}

rocksdb::Status RocksDb::FlushWAL(bool sync) {
  if (!is_open()) return closed();
  if (sync && !syncs_) {
    if (Status status = rocks_status(mine_->sync()); !status.ok()) return status;
  }
  return db_->FlushWAL(sync);
}

rocksdb::Status RocksDb::CompactRange(const rocksdb::CompactRangeOptions& how, Family* family,
                                      const Slice* first, const Slice* end) {
  return is_mine(family) ? flush() : db_->CompactRange(how, family, first, end);
}

rocksdb::Status RocksDb::SuggestCompactRange(Family* family, const Slice* first, const Slice* end) {
  return is_mine(family) ? Status::OK() : db_->SuggestCompactRange(family, first, end);
}

// Of the files, which have all when the Db was flushed.
bool RocksDb::number_of(const Slice& property, uint64_t& value) {
  const std::string name = property.ToString();
  const bool of_files =
      name == Properties::kEstimateNumKeys || name == Properties::kTotalSstFilesSize ||
      name == Properties::kLiveSstFilesSize || name == Properties::kEstimateLiveDataSize;
  const bool of_memory = name == Properties::kCurSizeAllMemTables ||
                         name == Properties::kSizeAllMemTables ||
                         name == Properties::kCurSizeActiveMemTable;
  if (!of_files && !of_memory) return false;
  if (!is_open() || (of_files && !flush().ok())) return false;
  const DbStatistics its = mine_->statistics();
  value = of_memory                              ? its.memory
          : name == Properties::kEstimateNumKeys ? its.file_keys
                                                 : its.file_bytes;
  return true;
}

bool RocksDb::GetIntProperty(Family* family, const Slice& property, uint64_t* value) {
  return is_mine(family) ? number_of(property, *value)
                         : db_->GetIntProperty(family, property, value);
}

bool RocksDb::GetProperty(Family* family, const Slice& property, std::string* value) {
  if (!is_mine(family)) return db_->GetProperty(family, property, value);
  uint64_t number = 0;
  if (!number_of(property, number)) return false;
  *value = std::to_string(number);
  return true;
}

bool RocksDb::GetMapProperty(Family* family, const Slice& property,
                             std::map<std::string, std::string>* value) {
  return !is_mine(family) && db_->GetMapProperty(family, property, value);
}

bool RocksDb::GetAggregatedIntProperty(const Slice& property, uint64_t* value) {
  uint64_t number = 0;
  if (!number_of(property, number) || !db_->GetAggregatedIntProperty(property, value)) return false;
  *value += number;
  return true;
}

rocksdb::SequenceNumber RocksDb::GetLatestSequenceNumber() const {
  return db_->GetLatestSequenceNumber() + changes_.load(std::memory_order_relaxed);
}

// ---- What there is not ----

rocksdb::Status RocksDb::GetApproximateSizes(const rocksdb::SizeApproximationOptions& how,
                                             Family* family, const rocksdb::Range* ranges,
                                             int count, uint64_t* sizes) {
  return is_mine(family) ? not_mine() : db_->GetApproximateSizes(how, family, ranges, count, sizes);
}

rocksdb::Status RocksDb::IngestExternalFile(Family* family, const std::vector<std::string>& files,
                                            const rocksdb::IngestExternalFileOptions& how) {
  return is_mine(family) ? not_mine() : db_->IngestExternalFile(family, files, how);
}

rocksdb::Status RocksDb::IngestExternalFiles(
    const std::vector<rocksdb::IngestExternalFileArg>& args) {
  const bool any = std::any_of(args.begin(), args.end(),
                               [](const auto& one) { return is_mine(one.column_family); });
  return any ? not_mine() : db_->IngestExternalFiles(args);
}

rocksdb::Status RocksDb::GetPropertiesOfAllTables(Family* family,
                                                  rocksdb::TablePropertiesCollection* properties) {
  return is_mine(family) ? not_mine() : db_->GetPropertiesOfAllTables(family, properties);
}

rocksdb::Status RocksDb::GetPropertiesOfTablesInRange(
    Family* family, const rocksdb::Range* ranges, size_t count,
    rocksdb::TablePropertiesCollection* properties) {
  return is_mine(family) ? not_mine()
                         : db_->GetPropertiesOfTablesInRange(family, ranges, count, properties);
}

rocksdb::Status RocksDb::PromoteL0(Family* family, int level) {
  return is_mine(family) ? not_mine() : db_->PromoteL0(family, level);
}

rocksdb::Status RocksDb::GetLiveFiles(std::vector<std::string>& /*files*/,
                                      uint64_t* /*manifest_bytes*/, bool /*flushes*/) {
  return not_mine();
}

rocksdb::Status RocksDb::GetLiveFilesStorageInfo(
    const rocksdb::LiveFilesStorageInfoOptions& /*how*/,
    std::vector<rocksdb::LiveFileStorageInfo>* /*files*/) {
  return not_mine();
}

rocksdb::Status RocksDb::GetUpdatesSince(
    rocksdb::SequenceNumber /*number*/, std::unique_ptr<rocksdb::TransactionLogIterator>* /*at*/,
    const rocksdb::TransactionLogIterator::ReadOptions& /*how*/) {
  return not_mine();
}

}  // namespace isotherm
