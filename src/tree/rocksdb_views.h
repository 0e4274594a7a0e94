// RocksdbViews: views of RocksDB's files and cursors over them, for who reads few keys at a time.
// Compiled with RocksDB's headers, into tree/rocksdb_files.cc alone.
//
// A snapshot and an iterator of RocksDB take its lock, and an iterator has one of each file. So all
// views between two changes of what the files have share one snapshot, and a cursor that ends
// leaves its iterator to the next one over the same snapshot, with other bounds: RocksDB reads
// these anew at each seek.
//
// Files that were merged stay as long as an iterator is over them. So when some were, or when
// something was taken in, iterators that nobody uses go, and those in use do not come back.
//
// Threads. Any; a cursor: one at a time. Views and cursors do not outlive this; it ends before the
// database is closed.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tree/tree_files.h"

namespace isotherm {

inline rocksdb::Slice slice(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view text_in(const rocksdb::Slice& text) { return {text.data(), text.size()}; }
inline std::string text_of(const rocksdb::Status& status) {
  return status.ok() ? std::string() : "tree: " + status.ToString();
}

class RocksdbViews {
 public:
  explicit RocksdbViews(rocksdb::DB& db) : db_(db) {}
  std::unique_ptr<TreeView> view();
  // The files have changed. `taken_in`: in what they have.
  void note_change(bool taken_in);

 private:
  class Snapshot {
   public:
    explicit Snapshot(rocksdb::DB& db) : db_(db), its_(db.GetSnapshot()) {}
    ~Snapshot() { db_.ReleaseSnapshot(its_); }
    Snapshot(const Snapshot&) = delete;
    Snapshot& operator=(const Snapshot&) = delete;
    const rocksdb::Snapshot* its() const { return its_; }

   private:
    rocksdb::DB& db_;
    const rocksdb::Snapshot* const its_;
  };
  // With the bounds that it looks at.
  struct Reader {
    void set(std::string_view its_first, std::string_view its_end) {
      first = its_first;
      end = its_end;
      first_slice = first;
      end_slice = end;
    }
    std::shared_ptr<const Snapshot> snapshot;
    uint64_t changes = 0;  // when it was made
    std::string first;
    std::string end;
    rocksdb::Slice first_slice;
    rocksdb::Slice end_slice;
    std::unique_ptr<rocksdb::Iterator> at;
  };
  class Cursor;
  class View;
  using Readers = std::vector<std::unique_ptr<Reader>>;

  static constexpr size_t most_free = 64;

  std::unique_ptr<Reader> lend(const std::shared_ptr<const Snapshot>& snapshot,
                               std::string_view first, std::string_view end);
  void give_back(std::unique_ptr<Reader> reader);

  rocksdb::DB& db_;
  std::mutex mutex_;  // of what follows
  uint64_t changes_ = 0;
  std::shared_ptr<const Snapshot> newest_;  // null: not since the last change
  Readers free_;                            // over the newest
};

class RocksdbViews::Cursor final : public TreeCursor {
 public:
  Cursor(RocksdbViews& views, const std::shared_ptr<const Snapshot>& snapshot,
         std::string_view first, std::string_view end)
      : views_(views), reader_(views.lend(snapshot, first, end)), at_(*reader_->at) {}
  ~Cursor() override { views_.give_back(std::move(reader_)); }
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;

  void seek(std::string_view key) override {
    at_.Seek(slice(key));
    look();
  }
  // Most often the key is not there, and it has found what is before.
  void seek_before(std::string_view key) override {
    at_.SeekForPrev(slice(key));
    if (at_.Valid() && text_in(at_.key()) == key) at_.Prev();
    look();
  }
  void next() override {
    at_.Next();
    look();
  }
  void prev() override {
    at_.Prev();
    look();
  }
  std::string error() const override { return text_of(at_.status()); }

 private:
  // Each question goes through several calls there, and is asked here again and again.
  void look() { at_.Valid() ? show(text_in(at_.key()), text_in(at_.value())) : show_end(); }

  RocksdbViews& views_;
  std::unique_ptr<Reader> reader_;
  rocksdb::Iterator& at_;
};

class RocksdbViews::View final : public TreeView {
 public:
  View(RocksdbViews& views, std::shared_ptr<const Snapshot> snapshot)
      : views_(views), snapshot_(std::move(snapshot)) {}

  void read(std::string_view key, TreeRead& read) override {
    using enum TreeRead::State;
    rocksdb::ReadOptions how;
    how.snapshot = snapshot_->its();
    const rocksdb::Status status = views_.db_.Get(how, slice(key), &read.value);
    read.state = status.ok() ? found : status.IsNotFound() ? absent : failed;
  }
  std::unique_ptr<TreeCursor> cursor(std::string_view first, std::string_view end,
                                     bool /*once*/) override {
    return std::make_unique<Cursor>(views_, snapshot_, first, end);
  }

 private:
  RocksdbViews& views_;
  const std::shared_ptr<const Snapshot> snapshot_;
};

inline std::unique_ptr<TreeView> RocksdbViews::view() {
  const std::lock_guard guard(mutex_);
  if (newest_ == nullptr) newest_ = std::make_shared<const Snapshot>(db_);
  return std::make_unique<View>(*this, newest_);
}

inline void RocksdbViews::note_change(bool taken_in) {
  Readers gone;
  std::shared_ptr<const Snapshot> old;
  const std::lock_guard guard(mutex_);
  ++changes_;
  gone.swap(free_);
  if (taken_in) old.swap(newest_);
}

inline std::unique_ptr<RocksdbViews::Reader> RocksdbViews::lend(
    const std::shared_ptr<const Snapshot>& snapshot, std::string_view first, std::string_view end) {
  std::unique_ptr<Reader> reader;
  uint64_t changes = 0;
  {
    const std::lock_guard guard(mutex_);
    changes = changes_;
    if (snapshot == newest_ && !free_.empty()) {
      reader = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (reader != nullptr) {
    reader->set(first, end);
    return reader;
  }
  reader = std::make_unique<Reader>();
  reader->set(first, end);
  reader->snapshot = snapshot;
  reader->changes = changes;
  rocksdb::ReadOptions how;
  how.snapshot = snapshot->its();
  how.total_order_seek = true;
  how.iterate_lower_bound = &reader->first_slice;
  how.iterate_upper_bound = &reader->end_slice;
  reader->at.reset(db_.NewIterator(how));
  return reader;
}

inline void RocksdbViews::give_back(std::unique_ptr<Reader> reader) {
  const std::lock_guard guard(mutex_);
  const bool is_new = reader->changes == changes_ && reader->snapshot == newest_;
  if (!is_new || free_.size() == most_free) return;
  try {
    free_.push_back(std::move(reader));
  } catch (const std::bad_alloc&) {  // it goes, as any that nobody needs
  }
}

}  // namespace isotherm
