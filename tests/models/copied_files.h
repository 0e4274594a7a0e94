// copy_files: copies of a store's files, as a crash would leave them, for tests.
//
// A segment of a journal is mostly reserved room. It is reserved in the copy, too, and only what
// was written is copied: the rest would take 64 MB of writes for each segment. Errors: a test fails
// where a file cannot be read or written.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

namespace isotherm {

inline void copy_written(int from, int to, off_t bytes) {
  constexpr size_t most = 1 << 16;
  std::vector<char> some(most);
  for (off_t at = ::lseek(from, 0, SEEK_DATA); at >= 0 && at < bytes;
       at = ::lseek(from, at, SEEK_DATA)) {
    const ssize_t got = ::pread(from, some.data(), most, at);
    ASSERT_GT(got, 0);
    ASSERT_EQ(::pwrite(to, some.data(), static_cast<size_t>(got), at), got);
    at += got;
  }
}

inline void copy_stored_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  const int source = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(source, 0) << from;
  const int target = ::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  EXPECT_GE(target, 0) << to;
  const off_t bytes = ::lseek(source, 0, SEEK_END);
  if (bytes > 0) {
    EXPECT_EQ(::posix_fallocate(target, 0, bytes), 0) << to;
    copy_written(source, target, bytes);
  }
  ::close(source);
  ::close(target);
}

// `to` is made; the folders in `from` are copied, too.
inline void copy_files(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::filesystem::create_directories(to);
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    const std::filesystem::path copy = to / entry.path().filename();
    if (entry.is_directory()) copy_files(entry.path(), copy);
    if (entry.is_regular_file()) copy_stored_file(entry.path(), copy);
  }
}

}  // namespace isotherm
