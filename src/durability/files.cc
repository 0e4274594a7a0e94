#include "durability/files.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace isotherm {
namespace {

class SystemFiles final : public Files {
 public:
  int open(const std::string& path) override {
    constexpr int by_owner = 0640;
    return checked(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, by_owner));
  }
  void close(int file) override { ::close(file); }
  int allocate(int file, uint64_t bytes) override {
    return -::posix_fallocate(file, 0, static_cast<off_t>(bytes));
  }
  int64_t write(int file, const char* data, uint64_t bytes, uint64_t offset) override {
    const ssize_t written = ::pwrite(file, data, bytes, static_cast<off_t>(offset));
    return written < 0 ? -errno : written;
  }
  char* map(int file, uint64_t bytes, bool at_once) override {
    struct statfs status {};
    if (::fstatfs(file, &status) < 0 || status.f_type != TMPFS_MAGIC) return nullptr;
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) return nullptr;
    // Older systems refuse, and stores find the pages as they come.
    if (at_once) ::madvise(at, bytes, MADV_POPULATE_WRITE);
    return static_cast<char*>(at);
  }
  void unmap(char* at, uint64_t bytes) override { ::munmap(at, bytes); }
  int sync(int file) override { return checked(::fdatasync(file)); }
  bool has_name(int file) override {
    struct stat status {};
    return ::fstat(file, &status) != 0 || status.st_nlink != 0;
  }
  int rename(const std::string& from, const std::string& to) override {
    return checked(::rename(from.c_str(), to.c_str()));
  }
  int64_t copy(const std::string& from, const std::string& to) override {
    const int source = checked(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
    if (source < 0) return source;
    ::unlink(to.c_str());
    const int target = open(to);
    const int64_t copied = target < 0 ? target : copy(source, target);
    ::close(source);
    if (target >= 0) ::close(target);
    return copied;
  }
  int remove(const std::string& path) override { return checked(::unlink(path.c_str())); }
  int sync_folder(const std::string& path) override {
    const int folder = checked(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder < 0) return folder;
    const int synced = checked(::fsync(folder));
    ::close(folder);
    return synced;
  }
  int trim(int file, uint64_t offset) override {
    struct stat status {};
    if (const int result = checked(::fstat(file, &status)); result < 0) return result;
    const auto from = static_cast<off_t>(offset);
    if (from >= status.st_size) return 0;
    constexpr int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    return checked(::fallocate(file, mode, from, status.st_size - from));
  }
  int64_t room(const std::string& folder) override {
    struct statvfs status {};
    if (::statvfs(folder.c_str(), &status) < 0) return -errno;
    return static_cast<int64_t>(status.f_bavail * status.f_frsize);
  }

 private:
  // In pieces, so that syncs stay short.
  int64_t copy(int source, int target) {
    constexpr size_t piece = 16 << 20;
    if (::ioctl(target, FICLONE, source) == 0) {
      const int synced = sync(target);
      return synced < 0 ? synced : ::lseek(target, 0, SEEK_END);
    }
    for (int64_t copied = 0;;) {
      const ssize_t some = ::sendfile(target, source, nullptr, piece);
      if (some < 0 && errno == EINTR) continue;
      if (some < 0) return -errno;
      if (const int synced = sync(target); synced < 0) return synced;
      if (some == 0) return copied;
      copied += some;
    }
  }
  static int checked(int result) { return result < 0 ? -errno : result; }
};

}  // namespace

#if defined(ISOTHERM_BROKEN)
Files& with_kill_points(Files& files);  // tests/broken/kill_points.cc
#endif

Files& system_files() {
  static SystemFiles files;
#if defined(ISOTHERM_BROKEN)
  return with_kill_points(files);
#else
  return files;
#endif
}

}  // namespace isotherm
