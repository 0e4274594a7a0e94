// SnapshotFile: a file that takes the place of the one of its name when it is whole.
//
// It is written beside, in pieces, and synced as it grows, so that the last sync is short; then the
// checksum, sync, the name, and sync of the folder. So there is always a whole one, if there ever
// was. What is not finished is removed, or by the next one written over.
//
// Errors come back as -errno, and every call behind one does nothing.
//
// Threads. One.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "durability/files.h"

namespace isotherm {

class SnapshotFile {
 public:
  SnapshotFile(Files& files, std::string folder, const std::string& name);
  // Removes what was not finished.
  ~SnapshotFile();
  SnapshotFile(const SnapshotFile&) = delete;
  SnapshotFile& operator=(const SnapshotFile&) = delete;

  int write(std::string_view bytes);
  // With the checksum of all of it behind.
  int finish();
  // 0: all has worked.
  int error() const { return error_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t sum() const { return crc_; }
  const std::string& path() const { return path_; }

 private:
  int note(int64_t result);
  int write_all(std::string_view bytes);

  Files& files_;
  const std::string folder_;
  const std::string path_;
  const std::string beside_;
  int file_ = -1;
  int error_ = 0;
  uint64_t bytes_ = 0;
  uint64_t synced_ = 0;
  uint64_t crc_ = 0;
};

}  // namespace isotherm
