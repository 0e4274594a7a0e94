#include "durability/segment_writer.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace isotherm {

// Otherwise a segment may begin behind records that a loss of power takes away.
int SegmentWriter::sync_last(uint64_t used_bytes, uint64_t oldest) {
  const int file = files_.open(segment_path(base_, manifest_.last));
  if (file < 0) return file;
  const int result = files_.sync(file);
  files_.trim(file, used_bytes);
  files_.close(file);
  remove_dropped(oldest);
  return result;
}

bool SegmentWriter::has_disk_for(uint64_t bytes) const {
  const int64_t room = files_.room(folder_);
  return room < 0 || static_cast<uint64_t>(room) >= bytes + 2 * segment_bytes_;
}

int SegmentWriter::begin(uint64_t first_lsn, uint64_t first_version, uint64_t least_bytes) {
  Manifest next = manifest_;
  ++next.last;
  SegmentHeader header{};
  header.store = next.store;
  header.number = next.last;
  header.first_lsn = first_lsn;
  header.first_version = first_version;
  const uint64_t bytes = std::max(segment_bytes_, sizeof header + least_bytes);
  header.bytes = bytes;
  seal_header(header);

  int made = -1;
  int result = make(segment_path(base_, next.last), &header, sizeof header, bytes, made);
  if (result >= 0) result = write_manifest(next);
  if (result < 0) {
    if (made >= 0) files_.close(made);
    return result;
  }
  if (file_ >= 0) files_.trim(file_, sizeof header + (first_lsn - first_lsn_));
  close();
  file_ = made;
  capacity_ = bytes;
  first_lsn_ = first_lsn;
  manifest_ = next;
  return 0;
}

int SegmentWriter::write_manifest(Manifest& manifest) {
  seal_header(manifest);
  int file = -1;
  const int result = make(manifest_path(base_), &manifest, sizeof manifest, sizeof manifest, file);
  if (file >= 0) files_.close(file);
  return result;
}

int SegmentWriter::drop_before(uint64_t number) {
  Manifest next = manifest_;
  next.first = number;
  if (const int result = write_manifest(next); result < 0) return result;
  const uint64_t oldest = std::exchange(manifest_, next).first;
  remove_dropped(oldest);
  return 0;
}

// As far as they are there: a crash leaves some.
void SegmentWriter::remove_dropped(uint64_t oldest) {
  for (uint64_t number = oldest; number < manifest_.first; ++number) {
    files_.remove(segment_path(base_, number));
  }
}

// `file` stays open, also where this fails later.
int SegmentWriter::make(const std::string& path, const void* header, uint64_t header_bytes,
                        uint64_t bytes, int& file) {
  const std::string beside = path + ".new";
  files_.remove(beside);  // of an attempt that failed
  file = files_.open(beside);
  if (file < 0) return file;
  int result = files_.allocate(file, bytes);
  if (result >= 0) result = write_at(file, static_cast<const char*>(header), header_bytes, 0);
  if (result >= 0) result = files_.sync(file);
  if (result >= 0) result = files_.rename(beside, path);
  if (result < 0) {
    files_.remove(beside);
    return result;
  }
  return files_.sync_folder(folder_);
}

int SegmentWriter::write(uint64_t lsn, const char* data, uint64_t bytes) {
  return write_at(file_, data, bytes, sizeof(SegmentHeader) + (lsn - first_lsn_));
}

int SegmentWriter::write_at(int file, const char* data, uint64_t bytes, uint64_t offset) {
  while (bytes != 0) {
    const int64_t written = files_.write(file, data, bytes, offset);
    if (written == -EINTR) continue;
    if (written < 0) return static_cast<int>(written);
    if (written == 0) return -EIO;
    data += written;
    offset += static_cast<uint64_t>(written);
    bytes -= static_cast<uint64_t>(written);
  }
  return 0;
}

}  // namespace isotherm
