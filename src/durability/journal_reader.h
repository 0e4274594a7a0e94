// JournalReader: a journal as it was left, checked as a whole and then read.
//
// The constructor reads all segments and throws JournalError, whose text says what is wrong with
// which file, where anything but the tail is: a segment that is missing, shorter than it was made
// or of another store, a block that cannot be read before others that were on disk, a manifest that
// is damaged or not there. It writes nothing. What is behind the last block that can be read is the
// torn tail.
//
// Versions decide what an item is, not the order of records: the newest put or erase of the key
// that is newer than the last flush of its database, with the newest expiry behind it. So records
// may be read in any order and twice. Parts of the value that are newer are written over it. Where
// there is a base (durability/record.h), records up to its version are passed over; what it has
// comes first, as far as `keeps` has it.
//
// Threads. The constructor has so many, where there is enough to read. Parts hold disjoint keys,
// and may be read by a thread each; of a long journal there are more parts than threads, so that
// none is late and a part is sorted in a processor's cache. Memory. The files are mapped; beside
// them 16 bytes a record, and up to three times as many while they are sorted.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "durability/journal_file.h"
#include "durability/record.h"
#include "durability/value_parts.h"

namespace isotherm {

class JournalReader {
 public:
  // The journal `name` in `folder`. Where there is none, `found` is false, and the manifest is for
  // a new one.
  JournalReader(const std::string& folder, const std::string& name, uint32_t threads);
  ~JournalReader();
  JournalReader(const JournalReader&) = delete;
  JournalReader& operator=(const JournalReader&) = delete;

  bool found() const { return found_; }
  const Manifest& manifest() const { return manifest_; }
  uint64_t first_lsn() const { return first_lsn_; }
  uint64_t end_lsn() const { return end_lsn_; }
  uint64_t records() const { return records_; }
  uint64_t torn_bytes() const { return torn_bytes_; }
  // Of the last segment's file, its torn tail included; the first number of a segment that is
  // there, be it one that the manifest does not name any more.
  uint64_t used_bytes() const { return used_bytes_; }
  uint64_t oldest() const { return oldest_; }
  // Where each segment begins, and after those a new one; for the one who goes on.
  std::vector<uint64_t> segment_lsns() const;
  // Of the base; empty: there is none.
  std::string path_of_base() const;
  // Whether an item of the base is still what it was, but for its expiry and for `parts`, which are
  // to be written over its value.
  bool keeps(uint32_t database, std::string_view key, int64_t& expiry, ValueParts& parts) const;
  // No version that was given is larger.
  uint64_t last_version() const { return last_version_; }

  // What the store has to have of the part; the expiry may be over. One whose op is `part` has been
  // put together, and goes when `visit` returns.
  using Visit = std::function<void(const RecordHeader& put, int64_t expiry)>;
  void read(uint32_t part, const Visit& visit) const;
  void read(const Visit& visit) const;  // all parts, one behind the other
  // For a store that has more than the records: also what it must not have of the part, and which
  // databases were flushed before.
  using VisitErased = std::function<void(uint32_t database, std::string_view key)>;
  // And values of which the records have parts alone: what these were made of is in the base, or
  // in the files of a tree. Both may lack it if it has expired. Throws JournalError where parts do
  // not fit to each other, or to a value that is there.
  using VisitParts = std::function<void(const ValueParts& parts, int64_t expiry)>;
  void read(uint32_t part, const Visit& visit, const VisitErased& erased,
            const VisitParts& parts) const;
  // Throws JournalError where values that will expire then may not lack what their parts need.
  static void check_may_lack(const ValueParts& parts, int64_t expiry);
  std::vector<uint32_t> flushed() const;
  // Of how many keys a database will have at the least, where that is easily told: of a journal of
  // one database that was not flushed, keys without an expiry that were never erased.
  std::map<uint32_t, uint64_t> keys_at_least() const;
  uint32_t parts() const { return static_cast<uint32_t>(parts_.size()); }
  uint32_t threads() const { return threads_; }

 private:
  struct Entry {
    uint64_t hash;
    const RecordHeader* record;
    bool is_of(uint32_t database, std::string_view key) const {
      return record->database == database && record->key() == key;
    }
  };
  // The newest records of a key.
  struct Newest {
    const RecordHeader* value = nullptr;  // put or erase
    const RecordHeader* expiry = nullptr;
    void note(const RecordHeader& record, ValueParts& parts) {
      if (record.op == RecordOp::part) return parts.add(record);
      const RecordHeader*& its = record.op == RecordOp::expiry ? expiry : value;
      if (its == nullptr || its->version < record.version) its = &record;
    }
    // Which is that of `stored`, or a later one.
    int64_t expiry_behind(const RecordHeader& stored) const {
      const bool later = expiry != nullptr && expiry->version > stored.version;
      return (later ? expiry : &stored)->expiry;
    }
  };

  using Parts = std::vector<std::vector<Entry>>;
  // What one segment has, but for its entries.
  struct Segment {
    std::unique_ptr<JournalFile> file;
    std::map<uint32_t, uint64_t> flushed;
    uint64_t records = 0;
    uint64_t unlike_puts = 0;  // of them: after each of these a key may be gone
    std::set<uint32_t> databases;
    uint64_t last_version = 0;
    uint64_t end_lsn = 0;  // of the last block that can be read
    size_t unread = 0;     // bytes behind that
    // The block behind it has a record of another version of this program.
    bool has_unknown = false;

    const SegmentHeader& header() const;
  };

  std::unique_ptr<JournalFile> map_segment(uint64_t number) const;
  void keep_until(uint64_t next_lsn);
  void check_names(const std::string& folder, const std::string& name);
  void read_segments();
  void read_segment(size_t index, Parts& found);
  bool note_block(std::string_view body, Segment& segment, Parts& found) const;
  void note(const RecordHeader& record, Segment& segment, Parts& found) const;
  static void note_flush(std::map<uint32_t, uint64_t>& flushed, uint32_t database,
                         uint64_t version);
  void take_in(size_t index);
  void end_with(std::string_view rest);
  [[noreturn]] void fail_as_damaged(const std::string& what) const;
  [[noreturn]] void fail_as_damaged(const Segment& segment, size_t at) const;
  static const RecordHeader* put_together(const RecordHeader* put, const ValueParts& parts,
                                          std::string& text);
  void sort_part(uint32_t part, std::vector<Parts>& found);
  bool is_flushed(const RecordHeader& record) const;
  bool is_damage(std::string_view rest, size_t written, uint64_t lsn) const;

  const std::string base_;
  const uint32_t threads_;
  bool found_ = false;
  Manifest manifest_{};
  std::vector<Segment> segments_;
  Parts parts_;                           // sorted by hash
  std::map<uint32_t, uint64_t> flushed_;  // the version of each database's last flush
  uint64_t first_lsn_ = 0;
  uint64_t end_lsn_ = 0;
  uint64_t records_ = 0;
  uint64_t unlike_puts_ = 0;
  std::set<uint32_t> databases_;
  std::atomic<uint64_t> hashes_{0};
  uint64_t torn_bytes_ = 0;
  uint64_t used_bytes_ = 0;
  uint64_t oldest_ = 0;
  uint64_t last_version_ = 0;
};

}  // namespace isotherm
