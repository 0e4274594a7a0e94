// A library that is loaded before the system's (LD_PRELOAD), so that a test sees each call by which
// a server changes its files, and can have calls fail. tests/python/recorded_files.py is the other
// side.
//
//   ISOTHERM_RECORD_IN   the folder; what lies elsewhere is left alone
//   ISOTHERM_RECORD_TO   the record: of each call that worked, Entry, its path and its bytes, in
//   the
//                        order in which the calls took effect. Syncs are recorded and not made:
//                        what a loss of power leaves is computed from the record.
//   ISOTHERM_FAULTS      a file that is a Faults: which calls fail. The test writes to it at any
//   time.
// Without a record no call waits for another.
//
// Not seen: what is written through mapped memory or a FILE. RocksDB's own log is, and the journal
// would be where its files lie in memory, so they are said to lie elsewhere.
//
// Threads. Any.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace {

struct Entry {
  uint64_t offset;
  uint64_t bytes;  // behind the path, or what a size becomes
  int32_t file;
  uint32_t path_bytes;
  char call;
  char zero[7];
};

struct Faults {
  std::atomic<int64_t> calls;   // that work, until
  std::atomic<int64_t> faults;  // so many fail
  std::atomic<int64_t> error;
  std::atomic<int64_t> met;
  std::atomic<int64_t> reads;  // 1: calls that read are counted, 0: those that write
  char in[88];                 // only where the path has this
};
static_assert(sizeof(Faults) == 128);

template <class Call>
Call* system_call(const char* name) {
  return reinterpret_cast<Call*>(::dlsym(RTLD_NEXT, name));
}
#define SYSTEM(name) static auto* const system_##name = system_call<decltype(::name)>(#name)

class Recorder {
 public:
  Recorder() {
    SYSTEM(open);
    if (const char* const in = std::getenv("ISOTHERM_RECORD_IN")) folder_ = in;
    if (const char* const to = std::getenv("ISOTHERM_RECORD_TO")) {
      record_ = system_open(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    if (const char* const faults = std::getenv("ISOTHERM_FAULTS")) {
      const int file = system_open(faults, O_RDWR | O_CLOEXEC);
      void* const memory =
          ::mmap(nullptr, sizeof(Faults), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      if (memory != MAP_FAILED) faults_ = static_cast<Faults*>(memory);
    }
  }

  bool records() const { return record_ >= 0; }
  bool has(std::string_view path) const {
    return !folder_.empty() && path.size() > folder_.size() && path.starts_with(folder_) &&
           path[folder_.size()] == '/';
  }
  std::string path_of(int file) {
    const std::lock_guard guard(paths_mutex_);
    const auto at = paths_.find(file);
    return at != paths_.end() ? at->second : std::string();
  }
  void name(int file, const std::string& path) {
    const std::lock_guard guard(paths_mutex_);
    if (has(path) || path == folder_) {
      paths_[file] = path;
    } else {
      paths_.erase(file);
    }
  }
  void forget(int file) {
    const std::lock_guard guard(paths_mutex_);
    paths_.erase(file);
  }

  // Whether this call has to fail; errno is set.
  bool fails(const std::string& path, bool reads) {
    if (faults_ == nullptr || path.empty() || faults_->reads.load() != (reads ? 1 : 0))
      return false;
    if (path.find(faults_->in) == std::string::npos || faults_->faults.load() <= 0) return false;
    if (faults_->calls.fetch_sub(1) > 0) return false;
    if (faults_->faults.fetch_sub(1) <= 0) return false;
    faults_->met.fetch_add(1);
    errno = static_cast<int>(faults_->error.load());
    return true;
  }

  std::unique_lock<std::recursive_mutex> lock() {
    return records() ? std::unique_lock(mutex_) : std::unique_lock<std::recursive_mutex>();
  }
  void note(char call, int file, const std::string& path, uint64_t offset, uint64_t bytes,
            const void* data = nullptr) {
    if (!records() || path.empty()) return;
    SYSTEM(write);
    const Entry entry{offset, bytes, file, static_cast<uint32_t>(path.size()), call, {}};
    std::string text(reinterpret_cast<const char*>(&entry), sizeof entry);
    text += path;
    if (data != nullptr) text.append(static_cast<const char*>(data), bytes);
    if (system_write(record_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      std::abort();
    }
  }

 private:
  std::string folder_;
  int record_ = -1;
  Faults* faults_ = nullptr;
  std::recursive_mutex mutex_;  // of the record
  std::mutex paths_mutex_;      // of what follows
  std::map<int, std::string> paths_;
};

// Never destroyed: threads go on while the process ends.
Recorder& recorder() {
  static Recorder& it = *new Recorder;
  return it;
}

int open_named(const char* path, int flags, mode_t mode) {
  SYSTEM(open);
  Recorder& its = recorder();
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  if (its.has(path) && writes && its.fails(path, false)) return -1;
  const auto guard = its.lock();
  const int file = system_open(path, flags, mode);
  if (file < 0) return file;
  its.name(file, path);
  its.note((flags & O_CREAT) != 0 ? 'C' : 'O', file, its.path_of(file), 0,
           (flags & O_TRUNC) != 0 ? 1 : 0);
  return file;
}

// What changes the size of a file that is open.
template <class Call>
int resize(char kind, int file, uint64_t offset, uint64_t bytes, const Call& call) {
  Recorder& its = recorder();
  const std::string path = its.path_of(file);
  if (its.fails(path, false)) return -1;
  const auto guard = its.lock();
  const int result = call();
  if (result == 0) its.note(kind, file, path, offset, bytes);
  return result;
}

int sync(int file, int (*call)(int)) {
  Recorder& its = recorder();
  const std::string path = its.path_of(file);
  if (its.fails(path, false)) return -1;
  if (!its.records() || path.empty()) return call(file);
  const auto guard = its.lock();
  its.note('S', file, path, 0, 0);
  return 0;
}

// What changes names.
template <class Call>
int change(char kind, const char* from, const char* to, const Call& call) {
  Recorder& its = recorder();
  const bool ours = its.has(from);
  if (ours && kind != 'U' && its.fails(from, false)) return -1;
  const auto guard = its.lock();
  const int result = call();
  if (result == 0 && ours) its.note(kind, -1, from, 0, std::strlen(to), to);
  return result;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_named(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_named(path, flags, mode);
}
int close(int file) {
  SYSTEM(close);
  recorder().forget(file);
  return system_close(file);
}
ssize_t write(int file, const void* data, size_t bytes) {
  SYSTEM(write);
  Recorder& its = recorder();
  const std::string path = its.path_of(file);
  if (path.empty()) return system_write(file, data, bytes);
  if (its.fails(path, false)) return -1;
  const auto guard = its.lock();
  struct stat status {};
  ::fstat(file, &status);
  const off_t offset =
      (::fcntl(file, F_GETFL) & O_APPEND) != 0 ? status.st_size : ::lseek(file, 0, SEEK_CUR);
  const ssize_t written = system_write(file, data, bytes);
  if (written > 0) {
    its.note('W', file, path, static_cast<uint64_t>(offset), static_cast<uint64_t>(written), data);
  }
  return written;
}
ssize_t pwrite(int file, const void* data, size_t bytes, off_t offset) {
  SYSTEM(pwrite);
  Recorder& its = recorder();
  const std::string path = its.path_of(file);
  if (its.fails(path, false)) return -1;
  const auto guard = its.lock();
  const ssize_t written = system_pwrite(file, data, bytes, offset);
  if (written > 0) {
    its.note('W', file, path, static_cast<uint64_t>(offset), static_cast<uint64_t>(written), data);
  }
  return written;
}
// Of files in memory, too, the journal is to be seen writing (durability/files.h).
int fstatfs(int file, struct statfs* status) noexcept {
  SYSTEM(fstatfs);
  const int result = system_fstatfs(file, status);
  if (result == 0 && !recorder().path_of(file).empty()) status->f_type = 0;
  return result;
}
int fstatfs64(int file, struct statfs64* status) noexcept {
  return fstatfs(file, reinterpret_cast<struct statfs*>(status));
}
ssize_t pwrite64(int file, const void* data, size_t bytes, off64_t offset) {
  return pwrite(file, data, bytes, offset);
}
ssize_t pread(int file, void* data, size_t bytes, off_t offset) {
  SYSTEM(pread);
  if (recorder().fails(recorder().path_of(file), true)) return -1;
  return system_pread(file, data, bytes, offset);
}
int ftruncate(int file, off_t size) noexcept {
  SYSTEM(ftruncate);
  return resize('T', file, 0, static_cast<uint64_t>(size),
                [&] { return system_ftruncate(file, size); });
}
int ftruncate64(int file, off64_t size) noexcept { return ftruncate(file, size); }
int posix_fallocate(int file, off_t offset, off_t bytes) {
  SYSTEM(posix_fallocate);
  const int result = resize('A', file, 0, static_cast<uint64_t>(offset + bytes),
                            [&] { return system_posix_fallocate(file, offset, bytes); });
  return result < 0 ? errno : result;
}
int posix_fallocate64(int file, off64_t offset, off64_t bytes) {
  return posix_fallocate(file, offset, bytes);
}
int fallocate(int file, int mode, off_t offset, off_t bytes) {
  SYSTEM(fallocate);
  const auto call = [&] { return system_fallocate(file, mode, offset, bytes); };
  const auto from = static_cast<uint64_t>(offset);
  const auto count = static_cast<uint64_t>(bytes);
  if ((mode & FALLOC_FL_PUNCH_HOLE) != 0) return resize('H', file, from, count, call);
  if ((mode & FALLOC_FL_KEEP_SIZE) != 0) return resize('K', file, from, count, call);
  return resize('A', file, 0, from + count, call);
}
int fallocate64(int file, int mode, off64_t offset, off64_t bytes) {
  return fallocate(file, mode, offset, bytes);
}
int fsync(int file) {
  SYSTEM(fsync);
  return sync(file, system_fsync);
}
int fdatasync(int file) {
  SYSTEM(fdatasync);
  return sync(file, system_fdatasync);
}
// Copies are made of writes.
ssize_t sendfile(int /*to*/, int /*from*/, off_t* /*offset*/, size_t /*bytes*/) noexcept;
ssize_t sendfile(int to, int from, off_t* /*offset*/, size_t bytes) noexcept {
  SYSTEM(read);
  char piece[1 << 14];
  const ssize_t some = system_read(from, piece, bytes < sizeof piece ? bytes : sizeof piece);
  return some <= 0 ? some : write(to, piece, static_cast<size_t>(some));
}
int ioctl(int file, unsigned long request, ...) noexcept {
  SYSTEM(ioctl);
  va_list rest;
  va_start(rest, request);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  if (request == FICLONE) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return system_ioctl(file, request, argument);
}
int rename(const char* from, const char* to) noexcept {
  SYSTEM(rename);
  return change('R', from, to, [&] { return system_rename(from, to); });
}
int link(const char* from, const char* to) noexcept {
  SYSTEM(link);
  return change('L', from, to, [&] { return system_link(from, to); });
}
int unlink(const char* path) noexcept {
  SYSTEM(unlink);
  return change('U', path, "", [&] { return system_unlink(path); });
}
int remove(const char* path) noexcept {
  SYSTEM(remove);
  return change('U', path, "", [&] { return system_remove(path); });
}
int unlinkat(int folder, const char* path, int flags) noexcept {
  SYSTEM(unlinkat);
  std::string whole = path;
  if (path[0] != '/' && folder != AT_FDCWD) {
    char link[PATH_MAX];
    const std::string name = "/proc/self/fd/" + std::to_string(folder);
    const ssize_t bytes = ::readlink(name.c_str(), link, sizeof link);
    if (bytes > 0) whole = std::string(link, static_cast<size_t>(bytes)) + "/" + path;
  }
  return change((flags & AT_REMOVEDIR) != 0 ? 'D' : 'U', whole.c_str(), "",
                [&] { return system_unlinkat(folder, path, flags); });
}
int mkdir(const char* path, mode_t mode) noexcept {
  SYSTEM(mkdir);
  return change('M', path, "", [&] { return system_mkdir(path, mode); });
}

}  // extern "C"
