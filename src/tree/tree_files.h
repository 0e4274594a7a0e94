// TreeFiles: the sorted files of a tree, as RocksDB keeps them: an interface, so that one file only
// (tree/rocksdb_files.cc) is compiled with RocksDB's headers, and a program without RocksDB has
// `open_tree_files` throw.
//
// Keys are those of tree/tree_record.h. A run comes as one call of `ingest`: cut in disjoint
// ranges, a file each, written by several threads, and taken in together or not at all, with the
// meta record that says which part of the journal is no longer needed. Files that were written and
// not taken in lie in a folder of their own and are removed at the next start.
//
// A view is what the files have at one moment, whatever is taken in later; a cursor goes over it,
// or over another sorted source (tree/tree_moment.h), in both directions.
//
// Errors are texts; empty: it worked. After an error the same call may be made again.
//
// The same interface has the memory of a GPU (tree/device_files.h): it does not last, and has no
// order of keys, so views, cursors and checkpoints are not for it. What it has at one moment is
// shown once, by a walk (`walk_moment`).
//
// A GPU may also have a sorted copy of lasting files (tree/sorted_files.h), which answers many gets
// and ranges at once.
//
// Threads. Any; `ingest` and `erase_range` one at a time. A cursor belongs to one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "base/event_log.h"
#include "gpu/items/direct_gets.h"
#include "gpu/sorted/direct_ranges.h"
#include "gpu/store/sorted_tier.h"

namespace isotherm {

class PacketDevice;    // gpu/udp/packet_device.h
struct PacketOptions;  // gpu/udp/packet_slots.h

class TreeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct TreeMeta {
  uint64_t journal = 0;       // whose records are in the tree (Manifest::store); 0: none
  uint64_t lsn = 0;           // records before this are in the tree; all_of_it: all there are
  uint64_t last_version = 0;  // no version in the tree is larger

  static constexpr uint64_t all_of_it = ~uint64_t{0};
};

// Of a run at most, each written by a thread of its own.
inline uint32_t files_per_run() {
  return std::clamp(std::thread::hardware_concurrency() / 2, 4u, 8u);
}

// Of a run, each key once; for files that last in the order of keys.
struct TreeEntry {
  std::string_view key;
  std::string_view value;  // empty: erased
};

struct TreeRead {
  enum class State : uint8_t { absent, found, failed };
  State state = State::absent;
  std::string value;
};

// Of a range of keys. What `key` and `value` show stays until the cursor moves.
class TreeCursor {
 public:
  virtual ~TreeCursor() = default;
  virtual void seek(std::string_view key) = 0;         // the first that is not before
  virtual void seek_before(std::string_view key) = 0;  // the last that is before
  virtual void next() = 0;
  virtual void prev() = 0;
  virtual std::string error() const { return {}; }
  bool valid() const { return valid_; }
  std::string_view key() const { return key_; }
  std::string_view value() const { return value_; }

 protected:
  void show(std::string_view key, std::string_view value) {
    valid_ = true;
    key_ = key;
    value_ = value;
  }
  void show_end() { valid_ = false; }

 private:
  bool valid_ = false;
  std::string_view key_;
  std::string_view value_;
};

class TreeView {
 public:
  virtual ~TreeView() = default;
  virtual void read(std::string_view key, TreeRead& read) = 0;
  // Of the keys in [first, end). `once`: what it reads is not to be kept for others.
  virtual std::unique_ptr<TreeCursor> cursor(std::string_view first, std::string_view end,
                                             bool once) = 0;
  // The same on a device, for ranges that lie in place (TreeFiles::make_ranges); null: it is not.
  virtual const SortedView* sorted() const { return nullptr; }
};

// Over what files have at one moment, each key once, in any order, while others write.
class MomentWalk {
 public:
  virtual ~MomentWalk() = default;
  // Shows some; `value` is a record. Empty: it worked.
  using Show = std::function<void(std::string_view key, std::string_view value)>;
  virtual std::string step(const Show& show) = 0;
  virtual bool ended() const = 0;
};

// The sorted copy on a device, if there is one.
struct SortedCopy {
  bool there = false;
  SortedStats stats;
  uint64_t reads = 0;   // keys that memory missed, and that were read there
  std::string problem;  // why it is not used any more; empty: it is
};

class TreeFiles {
 public:
  virtual ~TreeFiles() = default;

  // Without reading from disk: filters of all keys are in memory, and of some the values. `value`
  // is set where it is there.
  enum class Glance : uint8_t { absent, maybe, found };
  virtual Glance glance(std::string_view key, std::string& value) = 0;
  virtual void read(std::span<const std::string_view> keys, TreeRead* reads) = 0;
  virtual std::string ingest(std::span<const TreeEntry> entries, const TreeMeta& meta,
                             uint32_t threads) = 0;
  // What lies in [first, end).
  virtual std::string erase_range(std::string_view first, std::string_view end) = 0;
  // In order from `from` on, while it is before `end`, until `visit` says false.
  using Visit = std::function<bool(std::string_view key, std::string_view value)>;
  virtual std::string walk(std::string_view from, std::string_view end, const Visit& visit) = 0;
  // As they are now; it must not outlive them. `sorted`: with what a copy on a device has, for
  // ranges; as long as somebody holds that, its memory is not used again.
  virtual std::unique_ptr<TreeView> view(bool sorted = false) = 0;
  // Copies of the files, as they are now, in `folder`, which is not there yet.
  virtual std::string checkpoint(const std::string& folder) = 0;
  // Whether there was one.
  virtual bool load(TreeMeta& meta) = 0;

  // Whether all this is there at the next start. If not, a journal, where there is one, keeps all
  // changes, and walks are in order of hash:
  virtual bool lasts() const { return true; }
  // Shows at least `count` keys, of all databases, from the cursor on and sets that to where to go
  // on, 0 at the end. What is there all the time is shown at least once.
  using ShowKey = std::function<void(std::string_view key, uint64_t value_bytes, int64_t expiry)>;
  virtual std::string walk_by_hash(uint64_t& /*cursor*/, uint64_t /*count*/,
                                   const ShowKey& /*show*/) {
    return "tree: its files are walked in order of their keys";
  }
  // How many keys of a database have not expired, where that takes no walk.
  virtual std::optional<uint64_t> count(uint32_t /*database*/, int64_t /*now_ms*/) {
    return std::nullopt;
  }
  // From now on; one at a time. What is written waits for the walk where much of it replaces what
  // the walk has not come to.
  virtual std::unique_ptr<MomentWalk> walk_moment() {
    throw TreeError("tree: its files have views");
  }
  // Gets by one thread whose replies are read in place, of keys and values as DeviceFiles has them;
  // null: there are none. Throws std::bad_alloc, DeviceError.
  virtual std::unique_ptr<DirectGets> make_direct(const DirectShape& /*shape*/) { return nullptr; }
  // Gets in frames, of the same; null: none. Throws std::bad_alloc, DeviceError.
  virtual std::unique_ptr<PacketDevice> make_packets(const PacketOptions& options);
  // Whether what direct gets have shown counts; else they may lack what was taken in a while ago.
  virtual bool direct_counts() const { return true; }
  // Whether there may be keys that they do not show.
  virtual bool has_rest() const { return false; }
  // Ranges by one thread, of views, whose pairs are read in place; null: there are none. Throws
  // std::bad_alloc, DeviceError.
  virtual std::unique_ptr<DirectRanges> make_ranges(const RangeShape& /*shape*/) { return nullptr; }
  // The device has failed one of them, or of the ranges: why.
  virtual void lose(const std::string& /*why*/) {}
  // Whether what was here is gone, and how many keys of it are in no other place.
  virtual bool is_lost() const { return false; }
  virtual uint64_t lost_keys() const { return 0; }
  // Whether there is a place for the key and a value of so many bytes, as far as it knows of runs
  // by now.
  virtual bool takes(std::string_view /*key*/, uint64_t /*value_bytes*/) { return true; }
  // Of what has taken in more than there is room for: why, until there is room again, for which
  // `tend` looks. Empty: it has not.
  virtual std::string crowding() { return {}; }
  virtual void tend() {}

  virtual SortedCopy sorted_copy() { return {}; }

  // Who is told of what fails, and of what works again.
  EventLog& events() { return events_; }

  virtual uint64_t memory() = 0;  // of filters and caches
  virtual uint64_t disk_bytes() = 0;
  // Beside these, and not in memory(): of items in host memory that a device reads.
  virtual uint64_t host_bytes() { return 0; }
  virtual uint64_t keys() = 0;  // about

 private:
  EventLog events_;
};

// `options` as RocksDB's own text: "name=value;name=value". Blocks of files take `cache_bytes` at
// most, and leaves (tree/leaf_cache.h) twice as many. What has expired by `now_ms` may go when
// files are compacted. Throws TreeError.
std::unique_ptr<TreeFiles> open_tree_files(const std::string& folder, const std::string& options,
                                           uint64_t cache_bytes, std::function<int64_t()> now_ms);

}  // namespace isotherm
