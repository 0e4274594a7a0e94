#include <fcntl.h>
#include <rocksdb/compaction_filter.h>
#include <rocksdb/comparator.h>
#include <rocksdb/env.h>
#include <rocksdb/merge_operator.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "isotherm/rocksdb.h"
#include "stackable/rocks_batch.h"
#include "stackable/rocks_db.h"
#include "stackable/rocks_words.h"

namespace isotherm {
namespace {

using Status = rocksdb::Status;
using MergeOperator = rocksdb::MergeOperator;
using Descriptors = std::vector<rocksdb::ColumnFamilyDescriptor>;

std::string families_of(const std::string& name) { return name + "/families"; }

// The operator with one operand.
MergeFunction function_of(std::shared_ptr<MergeOperator> by) {
  return [by = std::move(by)](std::string_view key, std::optional<std::string_view> existing,
                              std::string_view operand, std::string& result) {
    const rocksdb::Slice its_key = slice_of(key);
    const rocksdb::Slice value = slice_of(existing.value_or(std::string_view()));
    const std::vector<rocksdb::Slice> operands{slice_of(operand)};
    rocksdb::Slice chosen(nullptr, 0);
    const MergeOperator::MergeOperationInput in(its_key, existing ? &value : nullptr, operands,
                                                nullptr);
    MergeOperator::MergeOperationOutput out(result, chosen);
    result.clear();
    if (!by->FullMergeV2(in, &out)) return false;
    if (chosen.data() != nullptr) result.assign(chosen.data(), chosen.size());
    return true;
  };
}

// The folder is there when it has a database of RocksDB's own.
Status check(const rocksdb::DBOptions& options, const std::string& name,
             const rocksdb::ColumnFamilyOptions& family) {
  if (family.comparator != rocksdb::BytewiseComparator()) {
    return Status::NotSupported("a comparator of the default column family");
  }
  if (family.compaction_filter != nullptr || family.compaction_filter_factory != nullptr) {
    return Status::NotSupported("a compaction filter of the default column family");
  }
  if (family.compaction_style == rocksdb::kCompactionStyleFIFO) {
    return Status::NotSupported("FIFO compaction of the default column family, which drops keys");
  }
  if (options.env != rocksdb::Env::Default()) {
    return Status::NotSupported("an env for the default column family, which lies on the disk");
  }
  // Their commits go to RocksDB's own files, where nobody looks for the default column family.
  if (options.allow_2pc) {
    return Status::NotSupported("a TransactionDB over the default column family (allow_2pc)");
  }
  std::error_code error;
  const bool there = std::filesystem::exists(families_of(name) + "/CURRENT", error);
  if (std::filesystem::exists(name + "/CURRENT", error)) {
    return Status::InvalidArgument(
        name, there ? "has a database of RocksDB's own beside this one, as RepairDB makes it: move "
                      "CURRENT, MANIFEST-*, OPTIONS-*, IDENTITY and *.sst out of the folder"
                    : "is a database of RocksDB's own; copy its keys into a database in another "
                      "folder");
  }
  if (there && options.error_if_exists) {
    return Status::InvalidArgument(name, "exists (error_if_exists is true)");
  }
  if (!there && !options.create_if_missing) {
    return Status::InvalidArgument(name, "does not exist (create_if_missing is false)");
  }
  std::filesystem::create_directories(name, error);
  return error ? Status::IOError(name, error.message()) : Status::OK();
}

// The lock that a database holds while it is open.
class OpenLock {
 public:
  explicit OpenLock(const std::string& path) : file_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    taken_ = file_ >= 0 && ::flock(file_, LOCK_EX | LOCK_NB) != 0;
  }
  ~OpenLock() {
    if (file_ >= 0) ::close(file_);
  }
  OpenLock(const OpenLock&) = delete;
  OpenLock& operator=(const OpenLock&) = delete;

  bool is_taken() const { return taken_; }

 private:
  const int file_;
  bool taken_;
};

}  // namespace

Status open_rocksdb(const rocksdb::DBOptions& options, const std::string& name,
                    const Descriptors& families, std::vector<rocksdb::ColumnFamilyHandle*>* handles,
                    rocksdb::DB** db, const DbOptions& more) {
  *db = nullptr;
  const rocksdb::ColumnFamilyOptions* mine = nullptr;
  for (const auto& one : families) {
    if (one.name == rocksdb::kDefaultColumnFamilyName) mine = &one.options;
  }
  if (mine == nullptr) return Status::InvalidArgument("Default column family not specified");
  if (Status status = check(options, name, *mine); !status.ok()) return status;
  rocksdb::DB* others = nullptr;
  // By the one name of the folder, as RocksDB takes another for another database.
  std::error_code error;
  const std::string folder = std::filesystem::canonical(name, error).string();
  if (error) return Status::IOError(name, error.message());
  Status status = rocksdb::DB::Open(options, families_of(folder), families, handles, &others);
  if (!status.ok()) return status;
  DbOptions its = more;
  if (mine->merge_operator != nullptr) {
    its.merges[RocksBatch::merge] = function_of(mine->merge_operator);
  }
  std::unique_ptr<rocksdb::DB> owner;
  std::unique_ptr<Db> opened;
  status = rocks_status(Db::open(its, folder, opened));
  if (status.ok()) {
    const bool syncs = more.sync == DbSync::always;
    auto both = std::make_unique<RocksDb>(std::move(opened), others, name, syncs);
    status = both->finish_writes(*handles);
    owner = std::move(both);
  } else {
    owner.reset(others);
  }
  if (status.ok()) {
    *db = owner.release();
    return status;
  }
  for (rocksdb::ColumnFamilyHandle* const one : *handles) {
    static_cast<void>(owner->DestroyColumnFamilyHandle(one));
  }
  handles->clear();
  return status;
}

Status open_rocksdb(const rocksdb::Options& options, const std::string& name, rocksdb::DB** db,
                    const DbOptions& more) {
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const Descriptors families{
      {rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions(options)}};
  Status status = open_rocksdb(rocksdb::DBOptions(options), name, families, &handles, db, more);
  if (status.ok()) status = (*db)->DestroyColumnFamilyHandle(handles.front());
  return status;
}

Status list_rocksdb_families(const rocksdb::DBOptions& options, const std::string& name,
                             std::vector<std::string>* families) {
  return rocksdb::DB::ListColumnFamilies(options, families_of(name), families);
}

// Nothing goes while the database is open, nor what belongs to somebody else.
Status destroy_rocksdb(const std::string& name, const rocksdb::Options& options) {
  std::error_code error;
  if (!std::filesystem::exists(name, error)) return Status::OK();
  const OpenLock lock(name + "/journal.lock");
  if (lock.is_taken()) return Status::IOError(name, "lock hold by another: the database is open");
  for (const std::string& folder : {families_of(name), name + "/tree"}) {
    if (!std::filesystem::exists(folder, error)) continue;
    if (Status status = rocksdb::DestroyDB(folder, options); !status.ok()) return status;
    std::filesystem::remove_all(folder, error);
    if (error) return Status::IOError(folder, error.message());
  }
  for (const auto& entry : std::filesystem::directory_iterator(name, error)) {
    if (!entry.path().filename().string().starts_with("journal.")) continue;
    if (!std::filesystem::remove(entry.path(), error))
      return Status::IOError(name, error.message());
  }
  std::filesystem::remove(name, error);  // if it is empty
  return Status::OK();
}

}  // namespace isotherm
