// RocksdbDisk, RocksdbLog: the file system as RocksDB is to see it, and where its warnings go, so
// that a disk that fails for a while is no more than that. For tree/rocksdb_files.cc only.
//
// Errors. Whatever fails is told of as an error that passes, so that a thread of RocksDB's tries
// again until it does not. As they are RocksDB takes some for the end, and others, a full disk
// among them, it only goes on from by halves when it is told to (Resume, as of 7.8: it stays
// stopped, without an error).
//
// The manifest. Where a record of it could not be written, or synced, nobody knows whether it is
// there, and so whether the files that it names belong to the tree. RocksDB removes those that it
// was taking in; if the record is there then, no start can open the tree any more. So no file of
// items is removed from then on until there is another manifest. What is left over the next start
// removes. And what is synced together is one write: a loss of power may leave the end of it torn,
// which a start passes over, but not a torn record before a whole one, which is refused.
//
// Threads. Any.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <utility>

namespace isotherm {

class RocksdbDisk final : public rocksdb::FileSystemWrapper {
 public:
  using Status = rocksdb::IOStatus;
  using Options = rocksdb::IOOptions;
  using Context = rocksdb::IODebugContext;

  RocksdbDisk() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "isotherm.disk"; }

  Status NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                         std::unique_ptr<rocksdb::FSWritableFile>* file,
                         Context* context) override {
    return wrap(path, target()->NewWritableFile(path, options, file, context), file);
  }
  Status ReopenWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                            std::unique_ptr<rocksdb::FSWritableFile>* file,
                            Context* context) override {
    return wrap(path, target()->ReopenWritableFile(path, options, file, context), file);
  }
  Status NewRandomAccessFile(const std::string& path, const rocksdb::FileOptions& options,
                             std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                             Context* context) override {
    Status status = target()->NewRandomAccessFile(path, options, file, context);
    if (status.ok()) *file = std::make_unique<ReadFile>(std::move(*file));
    return passing(std::move(status));
  }
  Status NewDirectory(const std::string& path, const Options& options,
                      std::unique_ptr<rocksdb::FSDirectory>* folder, Context* context) override {
    Status status = target()->NewDirectory(path, options, folder, context);
    if (status.ok()) *folder = std::make_unique<Folder>(std::move(*folder));
    return passing(std::move(status));
  }
  Status RenameFile(const std::string& from, const std::string& to, const Options& options,
                    Context* context) override {
    Status status = target()->RenameFile(from, to, options, context);
    if (status.ok() && to.ends_with("/CURRENT")) manifest_is_doubtful_ = false;
    return passing(std::move(status));
  }
  Status LinkFile(const std::string& from, const std::string& to, const Options& options,
                  Context* context) override {
    Status status = target()->LinkFile(from, to, options, context);
    return status.IsNotSupported() ? status : passing(std::move(status));
  }
  Status DeleteFile(const std::string& path, const Options& options, Context* context) override {
    if (manifest_is_doubtful_ && path.ends_with(".sst")) return Status::OK();
    return target()->DeleteFile(path, options, context);
  }

 private:
  static Status passing(Status status) {
    if (status.ok() || status.IsNotFound() || status.IsPathNotFound()) return status;
    Status passes = Status::IOError(status.ToString());
    passes.SetRetryable(true);
    return passes;
  }

  class ReadFile final : public rocksdb::FSRandomAccessFileOwnerWrapper {
   public:
    explicit ReadFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file)
        : FSRandomAccessFileOwnerWrapper(std::move(file)) {}
    Status Read(uint64_t offset, size_t bytes, const Options& options, rocksdb::Slice* result,
                char* buffer, Context* context) const override {
      return passing(target()->Read(offset, bytes, options, result, buffer, context));
    }
  };

  class Folder final : public rocksdb::FSDirectoryWrapper {
   public:
    explicit Folder(std::unique_ptr<rocksdb::FSDirectory> folder)
        : FSDirectoryWrapper(std::move(folder)) {}
    Status Fsync(const Options& options, Context* context) override {
      return passing(FSDirectoryWrapper::Fsync(options, context));
    }
    Status FsyncWithDirOptions(const Options& options, Context* context,
                               const rocksdb::DirFsyncOptions& how) override {
      return passing(FSDirectoryWrapper::FsyncWithDirOptions(options, context, how));
    }
  };

  class File final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    // `doubtful`: of a manifest, is set when something fails; null: of another file.
    File(std::unique_ptr<rocksdb::FSWritableFile> file, std::atomic<bool>* doubtful)
        : FSWritableFileOwnerWrapper(std::move(file)), doubtful_(doubtful) {}

    Status Append(const rocksdb::Slice& data, const Options& options, Context* context) override {
      if (holds(data)) return Status::OK();
      return behind_held(options, context,
                         [&] { return target()->Append(data, options, context); });
    }
    Status Append(const rocksdb::Slice& data, const Options& options,
                  const rocksdb::DataVerificationInfo& sums, Context* context) override {
      if (holds(data)) return Status::OK();
      return behind_held(options, context,
                         [&] { return target()->Append(data, options, sums, context); });
    }
    Status Flush(const Options& options, Context* context) override {
      return noted(target()->Flush(options, context));
    }
    Status Sync(const Options& options, Context* context) override {
      return behind_held(options, context, [&] { return target()->Sync(options, context); });
    }
    Status Fsync(const Options& options, Context* context) override {
      return behind_held(options, context, [&] { return target()->Fsync(options, context); });
    }
    Status RangeSync(uint64_t offset, uint64_t bytes, const Options& options,
                     Context* context) override {
      return noted(target()->RangeSync(offset, bytes, options, context));
    }
    Status Close(const Options& options, Context* context) override {
      return behind_held(options, context, [&] { return target()->Close(options, context); });
    }

   private:
    // Of a manifest: until it is synced. False: there is no memory for it, or it is another file.
    bool holds(const rocksdb::Slice& data) try {
      if (doubtful_ == nullptr) return false;
      held_.append(data.data(), data.size());
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
    template <class Call>
    Status behind_held(const Options& options, Context* context, const Call& call) {
      Status status;
      if (!held_.empty()) status = target()->Append(held_, options, context);
      held_.clear();
      return noted(status.ok() ? call() : std::move(status));
    }
    Status noted(Status status) {
      if (!status.ok() && doubtful_ != nullptr) *doubtful_ = true;
      return passing(std::move(status));
    }
    std::atomic<bool>* const doubtful_;
    std::string held_;
  };

  Status wrap(const std::string& path, Status status,
              std::unique_ptr<rocksdb::FSWritableFile>* file) {
    const bool is_manifest = path.find("/MANIFEST-") != std::string::npos;
    if (status.ok()) {
      *file =
          std::make_unique<File>(std::move(*file), is_manifest ? &manifest_is_doubtful_ : nullptr);
    }
    return passing(std::move(status));
  }

  std::atomic<bool> manifest_is_doubtful_{false};
};

// RocksDB's warnings, in the file where it would write them itself: its own log ends the process
// when the disk of this file fails, where RocksDB is built with assertions, as Debian's is.
class RocksdbLog final : public rocksdb::Logger {
 public:
  // Nowhere.
  RocksdbLog() : Logger(rocksdb::WARN_LEVEL) {}
  // Takes the place of the file, which is renamed.
  explicit RocksdbLog(const std::string& path) : RocksdbLog() {
    std::error_code ignored;
    std::filesystem::rename(path, path + ".old", ignored);
    file_.reset(std::fopen(path.c_str(), "we"));
  }
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    char line[1024];
    std::vsnprintf(line, sizeof line, format, arguments);
    if (file_ == nullptr) return;
    std::fprintf(file_.get(), "%lld %s\n", static_cast<long long>(std::time(nullptr)), line);
    std::fflush(file_.get());
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace isotherm
