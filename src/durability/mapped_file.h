// MappedFile: a file of the system's, mapped to be read, or read where that is safer.
//
// Its errors are of the type that its owner names, with the path in their text.
//
// Threads. Any read; nobody may cut the file meanwhile.
#pragma once

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/reason_of.h"

namespace isotherm {

template <class Error>
class MappedFile {
 public:
  // `kind`: what the texts of errors begin with.
  MappedFile(const std::string& kind, const std::string& path) : name_(kind + ": " + path) {
    // Of a pipe it would wait for who writes there.
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
      fail(errno == ENOENT ? "is missing" : "cannot be opened: " + reason_of(errno));
    }
    struct stat status {};
    const bool is_file = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
    if (is_file) bytes_ = static_cast<uint64_t>(status.st_size);
    if (bytes_ != 0) address_ = has_no_holes(status) ? map(file) : read(file);
    const int error = errno;
    written_bytes_ = end_of_data(file, bytes_);
    ::close(file);
    if (!is_file) fail("is a folder or a device, no file");
    if (address_ == MAP_FAILED) fail("cannot be read: " + reason_of(error));
  }
  ~MappedFile() { unmap(); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view text() const { return {static_cast<const char*>(address_), bytes_}; }
  // Behind so many of them are zeros that were reserved, as far as the file system knows.
  uint64_t written_bytes() const { return std::min(written_bytes_, bytes_); }
  // Of the file only its first `bytes` are wanted from now on; what was shown counts no more. Few
  // of them are copied: a process has some 65,000 maps, and there may be more files.
  void keep(uint64_t bytes) {
    constexpr uint64_t most_copied = 64 << 10;
    if (bytes > std::min(most_copied, bytes_)) return;
    auto copy = std::make_unique<char[]>(bytes);
    std::memcpy(copy.get(), address_, bytes);
    unmap();
    copy_ = std::move(copy);
    address_ = copy_.get();
    bytes_ = bytes;
  }
  [[noreturn]] void fail(const std::string& what) const { throw Error(name_ + " " + what); }

 private:
  void unmap() {
    if (copy_ == nullptr && address_ != nullptr) ::munmap(address_, bytes_);
  }
  static bool has_no_holes(const struct stat& status) {
    constexpr int64_t block = 512;
    return status.st_blocks * block >= status.st_size;
  }
  static uint64_t end_of_data(int file, uint64_t bytes) {
    uint64_t end = 0;
    while (end < bytes) {
      const off_t data = ::lseek(file, static_cast<off_t>(end), SEEK_DATA);
      if (data < 0) return errno == ENXIO ? end : bytes;
      const off_t hole = ::lseek(file, data, SEEK_HOLE);
      if (hole < 0) return bytes;
      end = static_cast<uint64_t>(hole);
    }
    return end;
  }
  void* map(int file) const { return ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file, 0); }
  // A look at a hole of a file in memory takes room of its disk, and is a signal where that is
  // full.
  void* read(int file) const {
    struct statfs disk {};
    if (::fstatfs(file, &disk) != 0 || disk.f_type != TMPFS_MAGIC) return map(file);
    void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (uint64_t at = 0; memory != MAP_FAILED && at < bytes_;) {
      const off_t data = ::lseek(file, static_cast<off_t>(at), SEEK_DATA);
      if (data < 0) break;
      at = static_cast<uint64_t>(data);
      const ssize_t some = ::pread(file, static_cast<char*>(memory) + at, bytes_ - at, data);
      if (some == 0) break;
      if (some < 0 && errno != EINTR) {
        ::munmap(memory, bytes_);
        return MAP_FAILED;
      }
      if (some > 0) at += static_cast<uint64_t>(some);
    }
    return memory;
  }

  const std::string name_;
  void* address_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t written_bytes_ = 0;
  std::unique_ptr<char[]> copy_;
};

}  // namespace isotherm
