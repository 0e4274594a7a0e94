// Db: an embedded, durable, ordered store: byte-string keys and values in a folder, more of them
// than memory holds.
//
//   std::unique_ptr<isotherm::Db> db;
//   isotherm::DbStatus status = isotherm::Db::open({.memory = 1 << 30}, "/data/db", db);
//   if (!status.ok()) … status.text()
//   status = db->put("user:1", "Ada");
//   std::string value;
//   if (db->get("user:1", value).is_not_found()) …
//
// What it is. Memory is a cache of a tree of sorted files (RocksDB's), and a journal has what is
// not in the files yet, as with the server's --tree and --appendonly. Keys are in the order of
// their bytes. In the folder are `tree`, `journal.*`, and nothing that is to be touched.
//
// Writes. A call returns when its change is as safe as DbOptions::sync says. A WriteGroup takes
// effect as a whole, and so does a transaction (isotherm/db_transaction.h): in memory for others,
// and on disk across a crash. A merge reads the value, has a function make a new one of it, and
// writes that, with nobody in between; in a group it sees what the group did before.
//
// Reads. `get` and `multi_get` show what was last written; the keys of one `multi_get` are of one
// moment. A snapshot is the store at one moment, for any number of reads. An iterator is over a
// snapshot, its own if it was given none; so it never shows what is changed behind it.
//
// Threads. Any number may call a Db at once; a call borrows one of `most_calls` workers, and waits
// where all are out. A snapshot may be used by several threads, an iterator and a transaction by
// one at a time. All of these are destroyed before the Db, and the Db before `main` returns: what
// RocksDB keeps for all its databases is gone by the time that statics go. Not for use in a child
// of fork, which lacks the Db's threads.
//
// Errors. A Db throws nothing; a DbStatus has a code and a text. (What makes containers throws
// std::bad_alloc without memory, as they do: a WriteGroup, `multi_get`, `statistics`.) While the
// disk fails, writes are `not_saved`, reads go on, and it heals by itself. Where the system has no
// memory (RLIMIT_AS) for a thread of RocksDB's own, which merges files, the program ends.
//
// Limits. A key and a value have at most 512 MiB each, a group 2^30 changes. While one is written
// it takes some hundred bytes a change and five times its own beside `memory`. Keys should be
// short: of each file RocksDB keeps some in memory, so one of very many MiB leaves none of `memory`
// for the rest, and each write then waits until it was taken into the files. Needs RocksDB at build
// time: without it `open` says so. What iterators show counts against `memory`: one keeps up to
// seven runs (each a twentieth of `memory`, or one change that is longer), and the blocks of files
// on which it stands, a block being as long as its longest value. Held snapshots keep about four
// runs together, and besides each run at whose time more than 16 were taken that are still held.
// Where runs that they alone keep are more than `memory`, a write waits a tenth of a second for
// some to be destroyed, and ends as `out_of_memory`, with nothing written; reads go on.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isotherm/db_status.h"
#include "isotherm/options.h"
#include "isotherm/write_group.h"

namespace isotherm {

class DbBatch;
class DbIterator;
class DbSnapshot;
class DbState;
class DbTransaction;
struct DbTransactionOptions;

// Makes the new value of the operand and the one that is there, if any; false: it refuses, and
// nothing is written. It is called while the key is held: it must not call the Db, nor throw.
using MergeFunction =
    std::function<bool(std::string_view key, std::optional<std::string_view> existing,
                       std::string_view operand, std::string& result)>;

// The numbers of those that are built in; absent is 0, or empty, or less and more than anything.
namespace merge_by {
inline constexpr uint32_t add_u64 = 1;  // both have 8 bytes, the lowest first; the sum wraps
inline constexpr uint32_t append = 2;
inline constexpr uint32_t min = 3;  // by the order of bytes
inline constexpr uint32_t max = 4;
inline constexpr uint32_t first_own = 16;  // numbers below are not for others
}  // namespace merge_by

// When a write is on disk, and no crash of the machine takes it back. It outlives the end of the
// process in any case.
enum class DbSync : uint8_t {
  always,    // before the call returns
  everysec,  // about a second later
  no,        // when the system likes
};

struct DbOptions {
  // Bytes that everything together may take, at least least_memory; 0: no cap.
  uint64_t memory = 256 << 20;
  static constexpr uint64_t least_memory = Options::least_with_tree;
  // Bytes of a GPU's memory, at least 16 MiB, for a sorted copy of what is in the files: it answers
  // gets and ranges of a DbBatch (isotherm/db_batch.h), which are many. `open` fills it, and fails
  // where there is no GPU; where it has no room for all keys, or the GPU fails later, the files
  // answer alone, and DbStatistics::gpu_problem says so. Runs are merged there, which takes room,
  // so two fifths of it hold keys and values. Beside `memory` it takes 8 MiB, and 16 while it is
  // filled. 0: none.
  uint64_t gpu_memory = 0;
  uint32_t gpu = 0;  // which, as CUDA counts them
  DbSync sync = DbSync::everysec;
  // RocksDB's options for the files, as its own text: "name=value;name=value". By which keys would
  // be lost (FIFO compaction, another comparator or table factory), `open` refuses.
  std::string tree_options = {};
  std::map<uint32_t, MergeFunction> merges = {};  // by numbers from merge_by::first_own on
  uint32_t most_calls = 64;                       // at once, 1 to 250
  uint32_t start_threads = 2;                     // that read the journal at the start; 1 to 256
  std::function<void(bool warns, const std::string& line)> log = {};
};

struct DbReadOptions {
  const DbSnapshot* snapshot = nullptr;  // of this Db, else `invalid`; null: now
};

struct DbRange {
  std::optional<std::string> lower = {};  // keys before it are not shown
  std::optional<std::string> upper = {};  // nor this one, and those behind it
  std::string prefix = {};                // all have it
  const DbSnapshot* snapshot = nullptr;
};

struct DbStatistics {
  uint64_t memory = 0;          // of what DbOptions::memory limits
  uint64_t keys_in_memory = 0;  // of items that need no file
  uint64_t hits = 0;            // of reads
  uint64_t misses = 0;
  uint64_t evicted = 0;
  uint64_t file_reads = 0;     // keys that were asked of the files, since memory had them not
  uint64_t runs = 0;           // that wait to be taken in
  uint64_t runs_taken_in = 0;  // since the start
  uint64_t file_bytes = 0;
  uint64_t file_keys = 0;  // about
  uint64_t journal_bytes = 0;
  uint64_t journal_syncs = 0;
  uint64_t waits_for_memory = 0;  // of writes, until runs were taken in or snapshots destroyed
  uint64_t gpu_entries = 0;       // of the sorted copy on a GPU: keys, some of them twice
  uint64_t gpu_bytes = 0;
  std::string gpu_problem = {};  // why it is not used any more; empty: it is, or there is none
};

class Db {
 public:
  // Makes the folder where there is none, and reads the journal. Once at a time, by whatever name.
  static DbStatus open(const DbOptions& options, const std::string& folder,
                       std::unique_ptr<Db>& db);
  // Everything is in the files then, unless the disk fails.
  ~Db();
  Db(const Db&) = delete;
  Db& operator=(const Db&) = delete;

  DbStatus get(std::string_view key, std::string& value, const DbReadOptions& options = {});
  // A status and a value for each key.
  std::vector<DbStatus> multi_get(const std::vector<std::string_view>& keys,
                                  std::vector<std::string>& values,
                                  const DbReadOptions& options = {});
  DbStatus put(std::string_view key, std::string_view value);
  DbStatus erase(std::string_view key);  // ok also where it was absent
  DbStatus merge(std::string_view key, uint32_t function, std::string_view operand);
  DbStatus write(const WriteGroup& group);

  // At most `limit` pairs from `first` to before `end`; an empty `end`: to the last.
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  DbStatus range(std::string_view first, std::string_view end, size_t limit, Pairs& pairs,
                 const DbReadOptions& options = {});
  DbStatus iterate(const DbRange& range, std::unique_ptr<DbIterator>& iterator);
  DbStatus snapshot(std::unique_ptr<const DbSnapshot>& snapshot);
  DbStatus begin(const DbTransactionOptions& options, std::unique_ptr<DbTransaction>& transaction);

  // What was written before is on disk when it returns, whatever DbOptions::sync says.
  DbStatus sync();
  // Takes all that was written before into the files.
  DbStatus flush();
  // Makes a folder, which must not be there, that opens as a Db with what this one has at one
  // moment. Files are shared where both lie in one file system.
  DbStatus checkpoint(const std::string& folder);
  DbStatistics statistics();

 private:
  friend class DbBatch;
  friend class DbIntents;  // db/db_intents.h
  friend class DbState;
  explicit Db(std::unique_ptr<DbState> state);
  std::unique_ptr<DbState> state_;
};

class DbSnapshot {
 public:
  ~DbSnapshot();
  DbSnapshot(const DbSnapshot&) = delete;
  DbSnapshot& operator=(const DbSnapshot&) = delete;

 private:
  friend class Db;
  friend class DbState;
  friend class DbTransaction;
  struct Moment;
  explicit DbSnapshot(std::unique_ptr<Moment> moment);
  std::unique_ptr<Moment> moment_;
};

// Stands nowhere at first. What `key` and `value` show stays until it moves.
class DbIterator {
 public:
  ~DbIterator();
  DbIterator(const DbIterator&) = delete;
  DbIterator& operator=(const DbIterator&) = delete;

  void seek_to_first();
  void seek_to_last();
  void seek(std::string_view key);           // the first that is not before the key
  void seek_for_prev(std::string_view key);  // the last that is not behind it
  void next();                               // these do nothing where it is not valid
  void prev();
  bool valid() const;
  std::string_view key() const;
  std::string_view value() const;
  // Not ok: files cannot be read, and so it is not valid.
  DbStatus status() const;

 private:
  friend class Db;
  struct State;
  explicit DbIterator(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace isotherm
