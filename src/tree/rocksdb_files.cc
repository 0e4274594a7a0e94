// The only file that is compiled with RocksDB's headers (and tree/rocksdb_disk.h, rocksdb_views.h,
// expiry_filter.h), and a library of its own (cmake/IsothermTree.cmake).
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/worker_pool.h"
#include "tree/descriptors.h"
#include "tree/disk_reserve.h"
#include "tree/expiry_filter.h"
#include "tree/leaf_cache.h"
#include "tree/rocksdb_disk.h"
#include "tree/rocksdb_views.h"
#include "tree/tree_files.h"
#include "tree/tree_record.h"

namespace isotherm {
namespace {

constexpr const char* incoming = "/incoming";
constexpr double filter_bits = 10;
// Fewer are not worth a file.
constexpr size_t least_per_file = 16 << 10;
constexpr size_t keys_per_read = 128;
constexpr uint64_t few_descriptors = 4096;

uint64_t descriptor_limit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : tree_descriptors::many;
}

uint64_t files_in(const std::string& folder) {
  std::error_code error;
  uint64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    count += entry.path().extension() == ".sst" ? 1 : 0;
  }
  return count;
}

// Of files that were merged.
class MergeListener final : public rocksdb::EventListener {
 public:
  // Null: to nobody.
  void tell(RocksdbViews* views) {
    const std::lock_guard guard(mutex_);
    views_ = views;
  }
  void OnCompactionCompleted(rocksdb::DB* /*db*/,
                             const rocksdb::CompactionJobInfo& /*job*/) override {
    const std::lock_guard guard(mutex_);
    if (views_ != nullptr) views_->note_change(false);
  }

 private:
  std::mutex mutex_;
  RocksdbViews* views_ = nullptr;
};

class RocksdbFiles final : public TreeFiles {
 public:
  RocksdbFiles(const std::string& folder, const std::string& options, uint64_t cache_bytes,
               std::function<int64_t()> now_ms)
      : folder_(made(folder)), filter_(std::move(now_ms)), leaves_(2 * cache_bytes) {
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = cache_ = rocksdb::NewLRUCache(cache_bytes);
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(filter_bits));
    options_.create_if_missing = true;
    options_.env = disk_.get();
    options_.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    options_.compaction_filter = &filter_;
    options_.bgerror_resume_retry_interval = 100'000;  // microseconds
    // All writes are ingested files, and what is behind waits until they are merged.
    options_.write_buffer_size = 1 << 20;
    // It would take as much as the reserve has.
    options_.manifest_preallocation_size = 64 << 10;
    // What RocksDB counts in files it means of memtables, and a run is several files, none of which
    // has keys of another: as many runs, before they are merged, and before others wait.
    const int files = static_cast<int>(files_per_run());
    options_.level0_file_num_compaction_trigger = 4 * files;
    options_.level0_slowdown_writes_trigger = 12 * files;
    options_.level0_stop_writes_trigger = 20 * files;
    // About as large as the runs that are merged into it together, each a 20th of the cap, of which
    // the cache is an 8th: out of a smaller level records soon go on, and are written once more.
    options_.max_bytes_for_level_base =
        std::max(options_.max_bytes_for_level_base, 2 * cache_bytes);
    // Each shard keeps a file open, so that many shards exceed a small share.
    if (limit_ < few_descriptors) options_.table_cache_numshardbits = 2;
    options_.max_background_jobs =
        static_cast<int>(std::clamp(std::thread::hardware_concurrency() / 2, 2u, 8u));
    options_.max_subcompactions = 4;
    options_.listeners = {listener_};
    rocksdb::Options its;
    check(rocksdb::GetOptionsFromString(rocksdb::ConfigOptions(), options_, options, &its));
    options_ = its;
    check_options();
    all_open_ = options_.max_open_files == -1;
    if (all_open_ && !tree_descriptors::may_all_be_open(files_in(folder_), limit_)) {
      all_open_ = false;
      options_.max_open_files = most_open();
    }
    check_owner();
    make_incoming();
    DiskReserve reserve(system_files(), folder_);
    options_.info_log = std::make_shared<RocksdbLog>(folder_ + "/LOG");
    options_.create_missing_column_families = true;
    std::vector<rocksdb::ColumnFamilyHandle*> families;
    rocksdb::DB* db = nullptr;
    const rocksdb::Status opened = rocksdb::DB::Open(
        options_, folder_, {{rocksdb::kDefaultColumnFamilyName, options_}, {"meta", {}}}, &families,
        &db);
    check_lock(opened);
    check(opened);
    db_.reset(db);
    check(db_->DestroyColumnFamilyHandle(families.front()));
    // Families go before their database, also where what comes behind throws.
    meta_ = {families.back(),
             [db](auto* one) { std::ignore = db->DestroyColumnFamilyHandle(one); }};
    views_ = std::make_unique<RocksdbViews>(*db_);
    remove_leftovers();
    reserve.take();
    listener_->tell(views_.get());
  }
  ~RocksdbFiles() override {
    listener_->tell(nullptr);
    views_.reset();
    meta_.reset();
    db_->Close();
  }

  // Where what is in memory cannot be made sense of, `read` tells of it: KeyMayExist would say that
  // there is no such key. Of a file that is not open (max_open_files) RocksDB says that the key was
  // found, and leaves the value as it is; no value that was found is empty.
  Glance glance(std::string_view key, std::string& value) override {
    rocksdb::ReadOptions cached;
    cached.read_tier = rocksdb::kBlockCacheTier;
    value.clear();
    const rocksdb::Status status = db_->Get(cached, slice(key), &value);
    if (status.IsNotFound()) return Glance::absent;
    return status.ok() && !value.empty() ? Glance::found : Glance::maybe;
  }

  void read(std::span<const std::string_view> keys, TreeRead* reads) override {
    rocksdb::Slice slices[keys_per_read];
    rocksdb::PinnableSlice values[keys_per_read];
    rocksdb::Status statuses[keys_per_read];
    while (!keys.empty()) {
      const size_t count = std::min(keys.size(), keys_per_read);
      for (size_t i = 0; i < count; ++i) {
        slices[i] = slice(keys[i]);
        values[i].Reset();
      }
      db_->MultiGet(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), count, slices, values,
                    statuses);
      for (size_t i = 0; i < count; ++i) {
        using enum TreeRead::State;
        reads[i].state = statuses[i].ok() ? found : statuses[i].IsNotFound() ? absent : failed;
        if (statuses[i].ok()) reads[i].value.assign(values[i].data(), values[i].size());
      }
      keys = keys.subspan(count);
      reads += count;
    }
  }

  // Ingestion itself does not wait for compaction, so runs do, and with them writers.
  std::string ingest(std::span<const TreeEntry> entries, const TreeMeta& meta,
                     uint32_t threads) override {
    const int most_tries = 1000;
    for (int i = 0; i < most_tries && property(rocksdb::DB::Properties::kIsWriteStopped) != 0;
         ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const size_t files =
        entries.empty() ? 0 : std::clamp<size_t>(entries.size() / least_per_file, 1, threads);
    std::vector<std::string> paths;
    std::vector<rocksdb::Status> statuses(files + 1);
    for (size_t i = 0; i < statuses.size(); ++i) {
      paths.push_back(next_path());
    }
    const auto write = [&](size_t i) {
      const size_t first = entries.size() * i / files;
      const size_t end = entries.size() * (i + 1) / files;
      statuses[i] = write_file(paths[i], nullptr, entries.subspan(first, end - first));
    };
    WorkerPool pool(static_cast<uint32_t>(files));
    pool.run(static_cast<uint32_t>(files), [&](uint32_t i, uint32_t) { write(i); });
    const std::string_view record(reinterpret_cast<const char*>(&meta), sizeof meta);
    const TreeEntry its_entry{TreeRecord::meta_key, record};
    statuses.back() = write_file(paths.back(), meta_.get(), {&its_entry, 1});
    rocksdb::Status status;
    for (const rocksdb::Status& one : statuses) {
      if (!one.ok()) status = one;
    }
    std::vector<rocksdb::IngestExternalFileArg> args(1);
    args[0].column_family = meta_.get();
    args[0].external_files = {paths.back()};
    paths.pop_back();
    if (!paths.empty()) args.push_back(files_of_items(std::move(paths)));
    const LeafCache::Change change(leaves_, entries);
    std::string problem = take_in(args, status);
    limit_open_files();
    if (problem.empty() && std::exchange(is_checkpoint_, false)) {
      problem = text_of(options_.env->DeleteFile(mark_in(folder_)));
    }
    return problem;
  }

  // By a file as well, so that RocksDB's own log is never written: its torn tail and its corrupt
  // middle look alike to RocksDB, which then leaves out the rest, and what was erased would be
  // back.
  std::string erase_range(std::string_view first, std::string_view end) override {
    const std::vector<std::string> paths{next_path()};
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options_);
    rocksdb::Status status = writer.Open(paths.front());
    if (status.ok()) status = writer.DeleteRange(slice(first), slice(end));
    if (status.ok()) status = writer.Finish();
    std::vector<rocksdb::IngestExternalFileArg> args{files_of_items(paths)};
    const LeafCache::Change change(leaves_, first, end);
    return take_in(args, status);
  }

  std::string walk(std::string_view from, std::string_view end, const Visit& visit) override {
    rocksdb::ReadOptions how;
    const rocksdb::Slice bound = slice(end);
    how.iterate_upper_bound = &bound;
    how.fill_cache = false;
    how.total_order_seek = true;  // whatever prefix_extractor says
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(how));
    for (at->Seek(slice(from)); at->Valid(); at->Next()) {
      if (!visit(text_in(at->key()), text_in(at->value()))) break;
    }
    return text_of(at->status());
  }

  std::unique_ptr<TreeView> view(bool /*sorted*/) override {
    return leaves_.view([this] { return views_->view(); });
  }

  std::string checkpoint(const std::string& folder) override {
    rocksdb::Checkpoint* maker = nullptr;
    rocksdb::Status status = rocksdb::Checkpoint::Create(db_.get(), &maker);
    const std::unique_ptr<rocksdb::Checkpoint> owner(maker);
    if (status.ok()) status = maker->CreateCheckpoint(folder);
    if (status.ok()) status = rocksdb::WriteStringToFile(options_.env, {}, mark_in(folder), true);
    return text_of(status);
  }

  bool load(TreeMeta& meta) override {
    std::string value;
    const rocksdb::Status status =
        db_->Get(rocksdb::ReadOptions(), meta_.get(), slice(TreeRecord::meta_key), &value);
    if (!status.IsNotFound()) check(status);
    // Items come with it.
    if (value.size() != sizeof meta && (status.ok() || has_items())) throw_foreign();
    if (!status.ok()) return false;
    std::memcpy(&meta, value.data(), sizeof meta);
    is_checkpoint_ = std::filesystem::exists(mark_in(folder_));
    if (is_checkpoint_) meta.lsn = TreeMeta::all_of_it;
    return true;
  }

  uint64_t memory() override {
    uint64_t readers = 0;
    db_->GetIntProperty(rocksdb::DB::Properties::kEstimateTableReadersMem, &readers);
    return readers + cache_->GetUsage() + leaves_.bytes();
  }
  uint64_t disk_bytes() override { return property(rocksdb::DB::Properties::kTotalSstFilesSize); }
  uint64_t keys() override { return property(rocksdb::DB::Properties::kEstimateNumKeys); }

 private:
  // A checkpoint has all that its journal had, until it is written to for the first time.
  static std::string mark_in(const std::string& folder) { return folder + "/ISOTHERM-CHECKPOINT"; }
  static void check(const rocksdb::Status& status) {
    if (!status.ok()) throw TreeError(text_of(status));
  }
  // Its one name: RocksDB knows by the name that this program has a folder open already, and would
  // open it again by another. It stays when the program goes to another folder, too.
  static std::string made(const std::string& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    std::string its;
    if (!error) its = std::filesystem::canonical(folder, error).string();
    if (error) throw TreeError("tree: cannot make " + folder + ": " + error.message());
    return its;
  }
  // Those by which keys would be lost, or runs never be taken in, or RocksDB end the program.
  void check_options() const {
    if (options_.comparator != rocksdb::BytewiseComparator()) {
      throw TreeError("tree: keys are in the order of their bytes, and by no other comparator");
    }
    if (options_.compaction_style == rocksdb::kCompactionStyleFIFO) {
      throw TreeError("tree: compaction_style FIFO would drop keys");
    }
    if (!options_.table_factory->IsInstanceOf(rocksdb::TableFactory::kBlockBasedTableName())) {
      throw TreeError("tree: files are BlockBasedTable, and of no other table_factory");
    }
    using Table = rocksdb::BlockBasedTableOptions;
    if (options_.table_factory->GetOptions<Table>()->index_type == Table::kHashSearch) {
      throw TreeError("tree: index_type kHashSearch is for keys that all have a prefix");
    }
  }
  // RocksDB tells of the lock, and not of what that means.
  void check_lock(const rocksdb::Status& status) const {
    const std::string text = status.ToString();
    const bool here = text.find("lock hold by current process") != std::string::npos;
    const bool elsewhere = status.IsIOError() && text.find("While lock file") != std::string::npos;
    if (!here && !elsewhere) return;
    throw TreeError("tree: " + folder_ + " is open already, in " +
                    (here ? "this program: use what has it open, or close that before"
                          : "another program: end that before, or choose another folder"));
  }
  // Nothing is changed in a database of another program, which could not open it again.
  void check_owner() {
    if (!std::filesystem::exists(folder_ + "/CURRENT")) return;
    std::vector<std::string> names;
    check(rocksdb::DB::ListColumnFamilies(options_, folder_, &names));
    if (std::find(names.begin(), names.end(), "meta") != names.end()) return;
    // One whose first start was cut off has nothing yet.
    rocksdb::Options reading;
    reading.info_log = std::make_shared<RocksdbLog>();
    reading.max_open_files = options_.max_open_files;
    rocksdb::DB* db = nullptr;
    if (names.size() == 1) check(rocksdb::DB::OpenForReadOnly(reading, folder_, &db));
    db_.reset(db);
    const bool foreign = db == nullptr || has_items();
    db_.reset();
    if (foreign) throw_foreign();
  }
  [[noreturn]] void throw_foreign() const {
    throw TreeError("tree: " + folder_ + " is not of this program, or of another version of it");
  }
  bool has_items() {
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(rocksdb::ReadOptions()));
    at->SeekToFirst();
    check(at->status());
    return at->Valid();
  }
  uint64_t property(const std::string& name) {
    uint64_t value = 0;
    db_->GetIntProperty(name, &value);
    return value;
  }

  int most_open() const {
    return static_cast<int>(
        std::min<uint64_t>(tree_descriptors::share_of(limit_), std::numeric_limits<int>::max()));
  }
  // There may have become too many; those that are open already stay so until they are merged.
  void limit_open_files() {
    if (!all_open_) return;
    uint64_t files = 0;
    for (int level = 0; level < options_.num_levels; ++level) {
      std::string count;
      const std::string name =
          rocksdb::DB::Properties::kNumFilesAtLevelPrefix + std::to_string(level);
      if (!db_->GetProperty(name, &count)) continue;
      files += std::strtoull(count.c_str(), nullptr, 10);
    }
    if (tree_descriptors::may_all_be_open(files, limit_)) return;
    all_open_ = false;
    static_cast<void>(db_->SetDBOptions({{"max_open_files", std::to_string(most_open())}}));
  }

  std::string next_path() { return folder_ + incoming + "/" + std::to_string(++number_) + ".sst"; }

  rocksdb::IngestExternalFileArg files_of_items(std::vector<std::string> paths) {
    rocksdb::IngestExternalFileArg files;
    files.column_family = db_->DefaultColumnFamily();
    files.external_files = std::move(paths);
    return files;
  }

  // The files, if they could be written, all together; they are gone afterwards. Where RocksDB has
  // stopped behind an error it says so, and a thread of its own goes on as soon as the disk does.
  std::string take_in(std::vector<rocksdb::IngestExternalFileArg>& files, rocksdb::Status status) {
    for (rocksdb::IngestExternalFileArg& one : files) {
      one.options.move_files = true;
      one.options.failed_move_fall_back_to_copy = true;
    }
    if (status.ok()) {
      views_->note_change(true);  // a snapshot that nobody needs costs the files' keys a number
      status = db_->IngestExternalFiles(files);
      views_->note_change(true);
    }
    std::error_code ignored;
    for (const rocksdb::IngestExternalFileArg& one : files) {
      for (const std::string& path : one.external_files) std::filesystem::remove(path, ignored);
    }
    return text_of(status);
  }

  // RocksDB 7.8 keeps the log of every start, though it is empty and passed over, and options that
  // a kill has left half written: a folder would have a file more with each start.
  void remove_leftovers() const {
    std::unique_ptr<rocksdb::LogFile> log;
    std::vector<std::string> names;
    if (!db_->GetCurrentWalFile(&log).ok() || !options_.env->GetChildren(folder_, &names).ok()) {
      return;
    }
    for (const std::string& name : names) {
      const std::string path = folder_ + "/" + name;
      uint64_t number = 0;
      uint64_t bytes = 0;
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
      const bool is_old_log =
          error == std::errc() && std::string_view(end, name.data() + name.size()) == ".log" &&
          number < log->LogNumber() && options_.env->GetFileSize(path, &bytes).ok() && bytes == 0;
      if (is_old_log || (name.starts_with("OPTIONS-") && name.ends_with(".dbtmp"))) {
        static_cast<void>(options_.env->DeleteFile(path));
      }
    }
  }

  // What a crash has left there belongs to nobody.
  void make_incoming() const {
    std::error_code error;
    std::filesystem::remove_all(folder_ + incoming, error);
    std::filesystem::create_directories(folder_ + incoming, error);
    if (error) throw TreeError("tree: cannot make " + folder_ + incoming + ": " + error.message());
  }

  // Null: of items.
  rocksdb::Status write_file(const std::string& path, rocksdb::ColumnFamilyHandle* family,
                             std::span<const TreeEntry> entries) const {
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options_, family);
    rocksdb::Status status = writer.Open(path);
    for (size_t i = 0; status.ok() && i < entries.size(); ++i) {
      const TreeEntry& later = entries[std::min(i + 8, entries.size() - 1)];
      __builtin_prefetch(later.key.data());  // texts lie anywhere
      __builtin_prefetch(later.value.data());
      const auto& [key, value] = entries[i];
      status = value.empty() ? writer.Delete(slice(key)) : writer.Put(slice(key), slice(value));
    }
    return status.ok() ? writer.Finish() : status;
  }

  const std::string folder_;
  const uint64_t limit_ = descriptor_limit();
  const std::unique_ptr<rocksdb::Env> disk_ =
      rocksdb::NewCompositeEnv(std::make_shared<RocksdbDisk>());
  const ExpiryFilter filter_;
  rocksdb::Options options_;
  std::shared_ptr<rocksdb::Cache> cache_;
  bool is_checkpoint_ = false;
  bool all_open_ = true;  // all files are
  const std::shared_ptr<MergeListener> listener_ = std::make_shared<MergeListener>();
  std::unique_ptr<rocksdb::DB> db_;
  // Of the meta record alone. Beside the items it would lie behind them all, so that a file with it
  // overlapped those that come later, and each run lay on a level of its own.
  std::shared_ptr<rocksdb::ColumnFamilyHandle> meta_;
  std::unique_ptr<RocksdbViews> views_;
  LeafCache leaves_;
  std::atomic<uint64_t> number_{0};
};

}  // namespace

// What the linker is told to take (cmake/IsothermTree.cmake).
extern "C" const char isotherm_tree_part;
const char isotherm_tree_part = 0;

std::unique_ptr<TreeFiles> open_tree_files(const std::string& folder, const std::string& options,
                                           uint64_t cache_bytes, std::function<int64_t()> now_ms) {
  return std::make_unique<RocksdbFiles>(folder, options, cache_bytes, std::move(now_ms));
}

}  // namespace isotherm
