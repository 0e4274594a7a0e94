#include "durability/segment_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/reserve_more.h"

namespace isotherm {

// Otherwise a segment may begin behind records that a loss of power takes away.
int SegmentWriter::sync_last(uint64_t used_bytes, uint64_t oldest) {
  const int file = files_.open(segment_path(base_, manifest_.last));
  if (file < 0) return file;
  const int result = files_.sync(file);
  files_.trim(file, used_bytes);
  files_.close(file);
  remove_dropped(oldest, manifest_.last + 1);
  takes_last_ = used_bytes == sizeof(SegmentHeader);
  return result;
}

bool SegmentWriter::has_disk_for(uint64_t bytes) const {
  const int64_t room = files_.room(folder_);
  return room < 0 || static_cast<uint64_t>(room) >= bytes + 2 * segment_bytes_;
}

uint64_t SegmentWriter::size_of_next(uint64_t least_bytes) const {
  uint64_t bytes = segment_bytes_;
  if (const int64_t room = prepared_ < 0 ? files_.room(folder_) : -1; room >= 0) {
    const uint64_t least = std::min(segment_bytes_, least_segment);
    bytes = std::clamp(static_cast<uint64_t>(room) / 2, least, segment_bytes_);
  }
  return std::max(bytes, sizeof(SegmentHeader) + least_bytes);
}

int SegmentWriter::begin(uint64_t first_lsn, uint64_t first_version, uint64_t least_bytes) {
  Manifest next = manifest_;
  if (!takes_last_) ++next.last;
  // Nothing behind this takes memory.
  const FileName its(segment_path(base_, next.last));
  reserve_more(lsns_, 1);
  SegmentHeader header{};
  header.store = next.store;
  header.number = next.last;
  header.first_lsn = first_lsn;
  header.first_version = first_version;
  const bool prepares = prepared_ >= 0 || (file_ >= 0 && !has_room(first_lsn + least_bytes));
  uint64_t bytes = size_of_next(least_bytes);
  if (prepared_ >= 0 && lengthen_prepared(bytes)) bytes = prepared_bytes_;
  header.bytes = bytes;
  seal_header(header);

  int made = std::exchange(prepared_, -1);
  Mapping mapped = std::exchange(prepared_map_, {});
  int result = made < 0 ? make(its, &header, sizeof header, bytes, made)
                        : name(its, &header, sizeof header, made);
  if (result >= 0 && !takes_last_) {
    begins_ = true;
    result = write_manifest(next);
  }
  if (result < 0) {
    unmap(mapped);
    if (made >= 0) files_.close(made);
    return result;
  }
  if (file_ >= 0) files_.trim(file_, sizeof header + (first_lsn - first_lsn_));
  if (writes_ != 0) by_calls_ = (first_lsn - first_lsn_) / writes_ >= worth_a_call;
  writes_ = 0;
  unmap(left_);
  left_ = std::exchange(mapped_, {});
  close();
  file_ = made;
  // Each page that was not made ready would be a fault.
  mapped_ = mapped;
  if (mapped_.at == nullptr && bytes <= segment_bytes_ && !by_calls_) {
    mapped_ = {files_.map(file_, bytes, false), bytes};
  }
  begins_ = false;
  is_gone_ = false;
  prepares_ = prepares;
  capacity_ = bytes;
  first_lsn_ = first_lsn;
  manifest_ = next;
  if (!std::exchange(takes_last_, false)) lsns_.push_back(first_lsn);
  return 0;
}

bool SegmentWriter::take_back(uint64_t lsn) {
  if (!begun() || begins_ || lsn != first_lsn_ || segments() == 1) return false;
  Manifest before = manifest_;
  --before.last;
  if (write_manifest(before) < 0) return false;
  drop_prepared();
  close();
  files_.remove(segment_path(base_, manifest_.last));
  manifest_ = before;
  lsns_.pop_back();
  return true;
}

void SegmentWriter::prepare(uint64_t lsn, uint64_t expected) {
  unmap(left_);
  const uint64_t bytes = sizeof(SegmentHeader) + expected;
  const bool is_large = begun() && bytes > segment_bytes_ && !has_room(lsn + expected);
  if (is_large && prepared_ >= 0) return static_cast<void>(lengthen_prepared(bytes));
  if (!prepares_ && !is_large) return;
  prepared_name_ = FileName(segment_path(base_, manifest_.last + 1));
  prepares_ = false;
  prepared_bytes_ = is_large ? bytes : segment_bytes_;
  if (make_room(prepared_name_, prepared_bytes_, prepared_) < 0) return drop_prepared();
  if (by_calls_ || is_large) return;
  prepared_map_ = {files_.map(prepared_, segment_bytes_, true), segment_bytes_};
}

// False: there is none any more.
bool SegmentWriter::lengthen_prepared(uint64_t bytes) {
  if (bytes <= prepared_bytes_) return true;
  unmap(prepared_map_);
  prepared_bytes_ = bytes;
  const bool longer = files_.allocate(prepared_, bytes) >= 0;
  if (!longer) drop_prepared();
  return longer;
}

void SegmentWriter::drop_prepared() {
  if (prepared_ < 0) return;
  unmap(prepared_map_);
  files_.close(std::exchange(prepared_, -1));
  files_.remove(prepared_name_.beside);
}

int SegmentWriter::write_manifest(Manifest& manifest) {
  seal_header(manifest);
  int file = -1;
  const int result = make(manifest_name_, &manifest, sizeof manifest, sizeof manifest, file);
  if (file >= 0) files_.close(file);
  return result;
}

int SegmentWriter::begin_with(uint64_t number, const JournalBase& base) {
  Manifest next = manifest_;
  next.first = std::max(number, manifest_.first);
  next.base = base;
  if (const int result = write_manifest(next); result < 0) return result;
  const Manifest before = std::exchange(manifest_, next);
  lsns_.erase(lsns_.begin(), lsns_.begin() + static_cast<ptrdiff_t>(next.first - before.first));
  try {
    if (before.base.number != 0) files_.remove(base_path(base_, before.base.number));
    remove_dropped(before.first, next.first);
  } catch (const std::bad_alloc&) {
    // The next start removes what is left.
  }
  return 0;
}

// One whose segment has gone meanwhile is older than what the journal begins with.
int SegmentWriter::cut_before(uint64_t lsn, const JournalBase& base) {
  if (base.number != 0 && base.number < manifest_.first) return -ESTALE;
  if (lsn < lsns_.front()) return 0;
  size_t gone = 0;
  while (gone + 1 < lsns_.size() && lsns_[gone + 1] <= lsn) ++gone;
  if (gone == 0 && base.is_in_tree() && manifest_.base.number == 0) return 0;  // it has all
  return begin_with(manifest_.first + gone, base);
}

int SegmentWriter::put_base(const std::string& path, uint64_t number, uint64_t bytes) {
  const FileName its(base_path(base_, number));
  const int64_t copied = files_.copy(path, its.beside);
  int result = copied < 0 ? static_cast<int>(copied) : 0;
  if (result == 0 && static_cast<uint64_t>(copied) != bytes) result = -EIO;
  return take_name(its, result);
}

// As far as they are there: a crash leaves some. Somebody may be putting a base to a segment that
// stays.
void SegmentWriter::remove_dropped(uint64_t oldest, uint64_t end) {
  for (uint64_t number = oldest; number < end; ++number) {
    const FileName base(base_path(base_, number));
    if (number != manifest_.base.number) files_.remove(base.path);
    files_.remove(base.beside);
    if (number < manifest_.first) files_.remove(segment_path(base_, number));
  }
}

// `file` stays open, also where this fails later.
int SegmentWriter::make(const FileName& its, const void* header, uint64_t header_bytes,
                        uint64_t bytes, int& file) {
  const int result = make_room(its, bytes, file);
  return result < 0 ? result : name(its, header, header_bytes, file);
}

int SegmentWriter::make_room(const FileName& its, uint64_t bytes, int& file) {
  files_.remove(its.beside);  // of an attempt that failed
  file = files_.open(its.beside);
  if (file < 0) return file;
  const int result = files_.allocate(file, bytes);
  if (result < 0) files_.remove(its.beside);
  return result;
}

int SegmentWriter::name(const FileName& its, const void* header, uint64_t header_bytes, int file) {
  int result = write_at(file, static_cast<const char*>(header), header_bytes, 0);
  if (result >= 0) result = files_.sync(file);
  return take_name(its, result);
}

int SegmentWriter::take_name(const FileName& its, int written) {
  int result = written;
  if (result >= 0) result = files_.rename(its.beside, its.path);
  if (result >= 0) return files_.sync_folder(folder_);
  files_.remove(its.beside);
  return result;
}

int SegmentWriter::write(uint64_t lsn, const char* data, uint64_t bytes) {
  const uint64_t offset = sizeof(SegmentHeader) + (lsn - first_lsn_);
  ++writes_;
  if (mapped_.at == nullptr) return write_at(file_, data, bytes, offset);
  std::memcpy(mapped_.at + offset, data, bytes);
  return 0;
}

int SegmentWriter::sync() {
  if (!begun()) return 0;
  if (const int result = files_.sync(file_); result < 0) return result;
  is_gone_ = !files_.has_name(file_);
  return is_gone() ? -ENOENT : 0;
}

void SegmentWriter::unmap(Mapping& mapping) {
  const Mapping gone = std::exchange(mapping, {});
  if (gone.at != nullptr) files_.unmap(gone.at, gone.bytes);
}

void SegmentWriter::close() {
  unmap(mapped_);
  if (file_ >= 0) files_.close(std::exchange(file_, -1));
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
