// SegmentWriter: the segment files of a journal, as its writer sees them.
//
// A segment is made beside its name: room for all of it, its header, sync, then the name. Only then
// the manifest names it, likewise, and only then records go into it. So a crash at any moment
// leaves a journal that can be read. Nothing is ever written over: a start begins a new segment, in
// the place of the last one where that has nothing, so that starts that are killed leave one file.
//
// Where segments become full one after the other, the room for the next one is taken while this one
// is being filled (`prepare`): a file beside its name, which a crash leaves and a start makes anew.
// It is made longer for a block that is larger than all of it.
//
// A base comes to its place likewise, and then the manifest names it, together with the segments
// that are left; only then what it does not name any more is removed.
//
// On a disk that is nearly full a segment takes half of what is left, so that writes go on again as
// soon as there is a little room.
//
// The room that a segment did not need is given back when the next one begins, so that many starts
// take little of the disk; one in which nothing was written goes again (`take_back`).
//
// Records are stored to a mapped segment where its file can be mapped (durability/files.h), was not
// made for one large block, and those of the one before were stored few at a time: for long ones a
// call costs less than pages that are cleared, mapped and unmapped. Else they are written. A kill
// in the middle of either leaves a torn tail, which a start finds by its checksum. What takes long
// with mapped segments is done where nobody waits: `prepare` has the system find each page of the
// next, and unmaps the one before.
//
// Errors come back as -errno, and the same call may be made again later; so where std::bad_alloc is
// thrown.
//
// Threads. The writer's only; `prepare` may run beside writes.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "durability/files.h"
#include "durability/record.h"

namespace isotherm {

class SegmentWriter {
 public:
  // The journal `name` in `folder`, with what its manifest says and where its segments begin;
  // `file_bytes` of each file.
  SegmentWriter(Files& files, std::string folder, const std::string& name, const Manifest& manifest,
                std::vector<uint64_t> lsns, uint64_t file_bytes)
      : files_(files),
        folder_(std::move(folder)),
        base_(folder_ + "/" + name),
        manifest_name_(manifest_path(base_)),
        manifest_(manifest),
        lsns_(std::move(lsns)),
        segment_bytes_(file_bytes) {}
  ~SegmentWriter() {
    close();
    unmap(left_);
    drop_prepared();
  }
  SegmentWriter(const SegmentWriter&) = delete;
  SegmentWriter& operator=(const SegmentWriter&) = delete;

  // What the process before wrote into the last segment, and may not have synced, is on disk then;
  // behind `used_bytes` of the file is nothing. Segments from `oldest` on may be there still.
  int sync_last(uint64_t used_bytes, uint64_t oldest);
  // Begins the next segment, with room for `least_bytes` of records; the first time in the place of
  // the last one, if that is empty.
  int begin(uint64_t first_lsn, uint64_t first_version, uint64_t least_bytes);
  // Takes the room for the next one where the last one that ended was full, or had its room taken
  // ahead, or a block of `expected` bytes is to come at `lsn` that fits into none of the usual
  // size. Where that fails, `begin` does it. What is left of the one before goes.
  void prepare(uint64_t lsn = 0, uint64_t expected = 0);
  // Whether records up to `lsn` find room in the segment.
  bool has_room(uint64_t lsn) const {
    return file_ >= 0 && !begins_ && !is_gone() &&
           lsn - first_lsn_ <= capacity_ - sizeof(SegmentHeader);
  }
  // The last segment, if it is not the only one and nothing was written into it before `lsn`, goes
  // again; returns whether it did.
  bool take_back(uint64_t lsn);
  // Whether a segment has begun since the start.
  bool begun() const { return file_ >= 0; }
  int write(uint64_t lsn, const char* data, uint64_t bytes);
  // -ENOENT: somebody has removed the segment, and nothing goes into it any more.
  int sync();
  bool is_gone() const { return is_gone_.load(std::memory_order_relaxed); }
  // Whether as much may be written, and two segments more; true where nobody can tell.
  bool has_disk_for(uint64_t bytes) const;

  // Those before the segment are no part of the journal any more, nor is a base, and go.
  int drop_before(uint64_t number) { return begin_with(number, {}); }
  // Those that end at `lsn` or before go, and `base` is the one from then on.
  int cut_before(uint64_t lsn, const JournalBase& base);
  // Copies a file, of which `bytes` are wanted, to the place of a base. By any thread.
  int put_base(const std::string& path, uint64_t number, uint64_t bytes);

  uint64_t first() const { return manifest_.first; }
  uint64_t last() const { return manifest_.last; }
  uint64_t segments() const { return manifest_.last - manifest_.first + 1; }
  // Where its first segment begins.
  uint64_t begin_lsn() const { return lsns_.front(); }
  const JournalBase& base() const { return manifest_.base; }

 private:
  // Where the disk has no room for more, a segment has so many bytes.
  static constexpr uint64_t least_segment = 1 << 20;
  // So many bytes at a time are written by calls.
  static constexpr uint64_t worth_a_call = 32 << 10;

  // A file's name, and where it is made before it has that.
  struct FileName {
    FileName() = default;
    explicit FileName(const std::string& its) : path(its), beside(its + ".new") {}

    std::string path;
    std::string beside;
  };
  // All of a file as memory, or nothing.
  struct Mapping {
    char* at = nullptr;
    uint64_t bytes = 0;
  };

  uint64_t size_of_next(uint64_t least_bytes) const;
  int make_room(const FileName& its, uint64_t bytes, int& file);
  int make(const FileName& its, const void* header, uint64_t header_bytes, uint64_t bytes,
           int& file);
  int name(const FileName& its, const void* header, uint64_t header_bytes, int file);
  // What is written beside it becomes the file, or goes where that failed.
  int take_name(const FileName& its, int written);
  bool lengthen_prepared(uint64_t bytes);
  void drop_prepared();
  int write_manifest(Manifest& manifest);
  int begin_with(uint64_t number, const JournalBase& base);
  void remove_dropped(uint64_t oldest, uint64_t end);
  int write_at(int file, const char* data, uint64_t bytes, uint64_t offset);
  void unmap(Mapping& mapping);
  void close();

  Files& files_;
  const std::string folder_;
  const std::string base_;
  const FileName manifest_name_;
  Manifest manifest_;
  std::vector<uint64_t> lsns_;  // of its segments, in order
  const uint64_t segment_bytes_;
  int file_ = -1;
  Mapping mapped_;     // of it
  Mapping left_;       // of the one before
  int prepared_ = -1;  // the file of the next, beside its name
  uint64_t prepared_bytes_ = 0;
  Mapping prepared_map_;     // of it, where it has segment_bytes_
  FileName prepared_name_;   // its name
  bool prepares_ = false;    // it is wanted
  bool takes_last_ = false;  // the last one is empty, and of the process before
  bool begins_ = false;  // the manifest may name the next already, so nothing goes into this one
  // The segment, since the last sync, beside which others may write.
  std::atomic<bool> is_gone_{false};
  bool by_calls_ = false;  // as the last segment that ended has it, those behind it
  uint64_t writes_ = 0;    // into this one
  uint64_t capacity_ = 0;  // bytes of the file
  uint64_t first_lsn_ = 0;
};

}  // namespace isotherm
