#include "durability/snapshot_file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/crc64.h"
#include "durability/rdb_format.h"

namespace isotherm {

SnapshotFile::SnapshotFile(Files& files, std::string folder, const std::string& name)
    : files_(files),
      folder_(std::move(folder)),
      path_(folder_ + "/" + name),
      beside_(path_ + ".new") {
  files_.remove(beside_);  // of an attempt that ended early
  file_ = files_.open(beside_);
  if (file_ < 0) error_ = file_;
}

SnapshotFile::~SnapshotFile() {
  if (file_ < 0) return;
  files_.close(file_);
  files_.remove(beside_);
}

int SnapshotFile::note(int64_t result) {
  if (result < 0) error_ = static_cast<int>(result);
  return error_;
}

int SnapshotFile::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const int64_t written = files_.write(file_, bytes.data(), bytes.size(), bytes_);
    if (written == -EINTR) continue;
    if (written <= 0) return note(written == 0 ? -EIO : written);
    bytes_ += static_cast<uint64_t>(written);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

// A long value goes in pieces, so that syncs stay short.
int SnapshotFile::write(std::string_view bytes) {
  constexpr uint64_t sync_every = 16 << 20;
  while (!bytes.empty() && error_ == 0) {
    const std::string_view piece = bytes.substr(0, sync_every);
    bytes.remove_prefix(piece.size());
    crc_ = crc64(piece, crc_);
    if (write_all(piece) < 0) break;
    if (bytes_ - synced_ < sync_every) continue;
    note(files_.sync(file_));
    synced_ = bytes_;
  }
  return error_;
}

int SnapshotFile::finish() {
  std::string sum;
  rdb::put_little(crc_, rdb::checksum_bytes, sum);
  if (error_ == 0) write_all(sum);
  if (error_ == 0) note(files_.sync(file_));
  if (error_ == 0) note(files_.rename(beside_, path_));
  if (error_ != 0) return error_;
  files_.close(std::exchange(file_, -1));
  return note(files_.sync_folder(folder_));
}

}  // namespace isotherm
