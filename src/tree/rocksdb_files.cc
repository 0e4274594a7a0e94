// The only file that is compiled with RocksDB's headers (and tree/rocksdb_disk.h), and a library of
// its own (cmake/IsothermTree.cmake).
#include <rocksdb/compaction_filter.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tree/rocksdb_disk.h"
#include "tree/tree_files.h"
#include "tree/tree_record.h"

namespace isotherm {
namespace {

constexpr const char* incoming = "/incoming";
constexpr double filter_bits = 10;
// Fewer are not worth a file.
constexpr size_t least_per_file = 4096;
constexpr size_t keys_per_read = 128;

rocksdb::Slice slice(std::string_view text) { return {text.data(), text.size()}; }
std::string_view text_in(const rocksdb::Slice& text) { return {text.data(), text.size()}; }
std::string text_of(const rocksdb::Status& status) {
  return status.ok() ? std::string() : "tree: " + status.ToString();
}

// What has expired goes for good.
class ExpiryFilter final : public rocksdb::CompactionFilter {
 public:
  explicit ExpiryFilter(std::function<int64_t()> now_ms) : now_ms_(std::move(now_ms)) {}
  const char* Name() const override { return "isotherm.expiry"; }
  bool Filter(int /*level*/, const rocksdb::Slice& key, const rocksdb::Slice& value,
              std::string* /*new_value*/, bool* /*value_changed*/) const override {
    TreeRecord record;
    return text_in(key) != TreeRecord::meta_key && record.read(text_in(value)) &&
           record.expired(now_ms_());
  }

 private:
  const std::function<int64_t()> now_ms_;
};

class RocksdbCursor final : public TreeCursor {
 public:
  RocksdbCursor(rocksdb::DB& db, const rocksdb::Snapshot* snapshot, std::string_view first,
                std::string_view end)
      : first_(first), end_(end), first_slice_(first_), end_slice_(end_) {
    rocksdb::ReadOptions how;
    how.snapshot = snapshot;
    how.total_order_seek = true;
    how.iterate_lower_bound = &first_slice_;
    how.iterate_upper_bound = &end_slice_;
    at_.reset(db.NewIterator(how));
  }
  void seek(std::string_view key) override {
    at_->Seek(slice(key));
    look();
  }
  // Most often the key is not there, and it has found what is before.
  void seek_before(std::string_view key) override {
    at_->SeekForPrev(slice(key));
    if (at_->Valid() && text_in(at_->key()) == key) at_->Prev();
    look();
  }
  void next() override {
    at_->Next();
    look();
  }
  void prev() override {
    at_->Prev();
    look();
  }
  bool valid() const override { return valid_; }
  std::string_view key() const override { return key_; }
  std::string_view value() const override { return value_; }
  std::string error() const override { return text_of(at_->status()); }

 private:
  // Each question goes through several calls there, and is asked here again and again.
  void look() {
    valid_ = at_->Valid();
    if (!valid_) return;
    key_ = text_in(at_->key());
    value_ = text_in(at_->value());
  }

  const std::string first_;
  const std::string end_;
  const rocksdb::Slice first_slice_;
  const rocksdb::Slice end_slice_;
  std::unique_ptr<rocksdb::Iterator> at_;
  bool valid_ = false;
  std::string_view key_;
  std::string_view value_;
};

class RocksdbView final : public TreeView {
 public:
  explicit RocksdbView(rocksdb::DB& db) : db_(db), snapshot_(db.GetSnapshot()) {}
  ~RocksdbView() override { db_.ReleaseSnapshot(snapshot_); }
  RocksdbView(const RocksdbView&) = delete;
  RocksdbView& operator=(const RocksdbView&) = delete;

  void read(std::string_view key, TreeRead& read) override {
    using enum TreeRead::State;
    rocksdb::ReadOptions how;
    how.snapshot = snapshot_;
    const rocksdb::Status status = db_.Get(how, slice(key), &read.value);
    read.state = status.ok() ? found : status.IsNotFound() ? absent : failed;
  }
  std::unique_ptr<TreeCursor> cursor(std::string_view first, std::string_view end) override {
    return std::make_unique<RocksdbCursor>(db_, snapshot_, first, end);
  }

 private:
  rocksdb::DB& db_;
  const rocksdb::Snapshot* const snapshot_;
};

class RocksdbFiles final : public TreeFiles {
 public:
  RocksdbFiles(std::string folder, const std::string& options, uint64_t cache_bytes,
               std::function<int64_t()> now_ms)
      : folder_(std::move(folder)), filter_(std::move(now_ms)) {
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
    // What RocksDB counts in files it means of memtables, and a run is several files, none of which
    // has keys of another: as many runs, before they are merged, and before others wait.
    const int files = static_cast<int>(files_per_run());
    options_.level0_file_num_compaction_trigger = 4 * files;
    options_.level0_slowdown_writes_trigger = 12 * files;
    options_.level0_stop_writes_trigger = 20 * files;
    options_.max_background_jobs =
        static_cast<int>(std::clamp(std::thread::hardware_concurrency() / 2, 2u, 8u));
    options_.max_subcompactions = 4;
    rocksdb::Options its;
    check(rocksdb::GetOptionsFromString(rocksdb::ConfigOptions(), options_, options, &its));
    options_ = its;
    make_incoming();
    options_.info_log = std::make_shared<RocksdbLog>(folder_ + "/LOG");
    rocksdb::DB* db = nullptr;
    check(rocksdb::DB::Open(options_, folder_, &db));
    db_.reset(db);
  }
  ~RocksdbFiles() override { db_->Close(); }

  // Where what is in memory cannot be made sense of, `read` tells of it: KeyMayExist would say that
  // there is no such key.
  Glance glance(std::string_view key, std::string& value) override {
    rocksdb::ReadOptions cached;
    cached.read_tier = rocksdb::kBlockCacheTier;
    const rocksdb::Status status = db_->Get(cached, slice(key), &value);
    if (status.IsNotFound()) return Glance::absent;
    return status.ok() ? Glance::found : Glance::maybe;
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
    const std::string_view record(reinterpret_cast<const char*>(&meta), sizeof meta);
    const size_t files = std::clamp<size_t>(entries.size() / least_per_file, 1, threads);
    std::vector<std::string> paths;
    std::vector<rocksdb::Status> statuses(files);
    for (size_t i = 0; i < files; ++i) {
      paths.push_back(next_path());
    }
    const auto write = [&](size_t i) {
      const size_t first = entries.size() * i / files;
      const size_t end = entries.size() * (i + 1) / files;
      statuses[i] = write_file(paths[i], entries.subspan(first, end - first),
                               i + 1 == files ? record : std::string_view());
    };
    std::vector<std::thread> writers;
    for (size_t i = 1; i < files; ++i) writers.emplace_back(write, i);
    write(0);
    for (std::thread& writer : writers) writer.join();
    rocksdb::Status status;
    for (const rocksdb::Status& one : statuses) {
      if (!one.ok()) status = one;
    }
    return take_in(paths, status);
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
    return take_in(paths, status);
  }

  std::string walk(std::string_view from, std::string_view end, const Visit& visit) override {
    rocksdb::ReadOptions how;
    const rocksdb::Slice bound = slice(end);
    how.iterate_upper_bound = &bound;
    how.fill_cache = false;
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(how));
    for (at->Seek(slice(from)); at->Valid(); at->Next()) {
      if (!visit(text_in(at->key()), text_in(at->value()))) break;
    }
    return text_of(at->status());
  }

  std::unique_ptr<TreeView> view(bool /*sorted*/) override {
    return std::make_unique<RocksdbView>(*db_);
  }

  std::string checkpoint(const std::string& folder) override {
    rocksdb::Checkpoint* maker = nullptr;
    rocksdb::Status status = rocksdb::Checkpoint::Create(db_.get(), &maker);
    const std::unique_ptr<rocksdb::Checkpoint> owner(maker);
    if (status.ok()) status = maker->CreateCheckpoint(folder);
    return text_of(status);
  }

  bool load(TreeMeta& meta) override {
    std::string value;
    const rocksdb::Status status =
        db_->Get(rocksdb::ReadOptions(), slice(TreeRecord::meta_key), &value);
    if (status.IsNotFound()) return false;
    check(status);
    if (value.size() != sizeof meta)
      throw TreeError("tree: " + folder_ + " is not of this program");
    std::memcpy(&meta, value.data(), sizeof meta);
    return true;
  }

  uint64_t memory() override {
    uint64_t readers = 0;
    db_->GetIntProperty(rocksdb::DB::Properties::kEstimateTableReadersMem, &readers);
    return readers + cache_->GetUsage();
  }
  uint64_t disk_bytes() override { return property(rocksdb::DB::Properties::kTotalSstFilesSize); }
  uint64_t keys() override { return property(rocksdb::DB::Properties::kEstimateNumKeys); }

 private:
  static void check(const rocksdb::Status& status) {
    if (!status.ok()) throw TreeError(text_of(status));
  }
  uint64_t property(const std::string& name) {
    uint64_t value = 0;
    db_->GetIntProperty(name, &value);
    return value;
  }

  std::string next_path() { return folder_ + incoming + "/" + std::to_string(++number_) + ".sst"; }

  // The files, if they could be written, all together; they are gone afterwards. Where RocksDB has
  // stopped behind an error it says so, and a thread of its own goes on as soon as the disk does.
  std::string take_in(const std::vector<std::string>& paths, rocksdb::Status status) {
    if (status.ok()) {
      rocksdb::IngestExternalFileOptions how;
      how.move_files = true;
      how.failed_move_fall_back_to_copy = true;
      status = db_->IngestExternalFile(paths, how);
    }
    std::error_code ignored;
    for (const std::string& path : paths) std::filesystem::remove(path, ignored);
    return text_of(status);
  }

  // What a crash has left there belongs to nobody.
  void make_incoming() const {
    std::error_code error;
    std::filesystem::remove_all(folder_ + incoming, error);
    std::filesystem::create_directories(folder_ + incoming, error);
    if (error) throw TreeError("tree: cannot make " + folder_ + incoming + ": " + error.message());
  }

  rocksdb::Status write_file(const std::string& path, std::span<const TreeEntry> entries,
                             std::string_view meta) const {
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options_);
    rocksdb::Status status = writer.Open(path);
    for (const TreeEntry& entry : entries) {
      if (!status.ok()) return status;
      status = entry.value.empty() ? writer.Delete(slice(entry.key))
                                   : writer.Put(slice(entry.key), slice(entry.value));
    }
    if (status.ok() && !meta.empty()) status = writer.Put(slice(TreeRecord::meta_key), slice(meta));
    return status.ok() ? writer.Finish() : status;
  }

  const std::string folder_;
  const std::unique_ptr<rocksdb::Env> disk_ =
      rocksdb::NewCompositeEnv(std::make_shared<RocksdbDisk>());
  const ExpiryFilter filter_;
  rocksdb::Options options_;
  std::shared_ptr<rocksdb::Cache> cache_;
  std::unique_ptr<rocksdb::DB> db_;
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
