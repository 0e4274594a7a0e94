// TreeFiles: the sorted files of a tree, as RocksDB keeps them: an interface, so that one file only
// (tree/rocksdb_files.cc) is compiled with RocksDB's headers, and a program without RocksDB has
// `open_tree_files` throw.
//
// Keys are those of tree/tree_record.h. A run comes as one call of `ingest`: cut in disjoint
// ranges, a file each, written by several threads, and taken in together or not at all, with the
// meta record that says which part of the journal is no longer needed. Files that were written and
// not taken in lie in a folder of their own and are removed at the next start.
//
// Errors are texts; empty: it worked. After an error the same call may be made again.
//
// Threads. Any; `ingest` and `erase_database` one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace isotherm {

class TreeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct TreeMeta {
  uint64_t journal = 0;       // whose records are in the tree (Manifest::store); 0: none
  uint64_t lsn = 0;           // records before this are in the tree
  uint64_t last_version = 0;  // no version in the tree is larger
};

// Of a run, in the order of keys, each key once.
struct TreeEntry {
  std::string_view key;
  std::string_view value;  // empty: erased
};

struct TreeRead {
  enum class State : uint8_t { absent, found, failed };
  State state = State::absent;
  std::string value;
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
  // Whether there was one.
  virtual bool load(TreeMeta& meta) = 0;

  virtual uint64_t memory() = 0;  // of filters and caches
  virtual uint64_t disk_bytes() = 0;
  virtual uint64_t keys() = 0;  // about
};

// `options` as RocksDB's own text: "name=value;name=value". What has expired by `now_ms` may go
// when files are compacted. Throws TreeError.
std::unique_ptr<TreeFiles> open_tree_files(const std::string& folder, const std::string& options,
                                           uint64_t cache_bytes, std::function<int64_t()> now_ms);

}  // namespace isotherm
