// RocksIterator: an iterator of a Db as RocksDB has them, with bounds, a prefix, and a snapshot.
//
// As RocksDB's, it shows what there was when it was made, or refreshed. With prefix_same_as_start
// it ends behind the keys whose prefix is that of what was sought: by SeekToFirst and SeekToLast
// the bound on that side, or the key that is found where there is none.
//
// Threads. Belongs to one at a time.
#pragma once

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/slice_transform.h>

#include <memory>
#include <optional>
#include <string>

#include "isotherm/db.h"
#include "stackable/rocks_words.h"

namespace isotherm {

class RocksIterator final : public rocksdb::Iterator {
 public:
  // `prefixes`: null, or what cuts them.
  RocksIterator(Db& db, const rocksdb::ReadOptions& how, const DbSnapshot* snapshot,
                std::shared_ptr<const rocksdb::SliceTransform> prefixes)
      : db_(db), prefixes_(how.prefix_same_as_start ? std::move(prefixes) : nullptr) {
    if (how.iterate_lower_bound != nullptr) range_.lower = how.iterate_lower_bound->ToString();
    if (how.iterate_upper_bound != nullptr) range_.upper = how.iterate_upper_bound->ToString();
    range_.snapshot = snapshot;
    made_ = make();
  }

  bool Valid() const override {
    if (at_ == nullptr || !at_->valid()) return false;
    return !prefix_ || (prefixes_->InDomain(key()) && prefixes_->Transform(key()) == *prefix_);
  }
  void SeekToFirst() override {
    move([&] { at_->seek_to_first(); });
    stay_within(range_.lower);
  }
  void SeekToLast() override {
    move([&] { at_->seek_to_last(); });
    stay_within(range_.upper);
  }
  void Seek(const rocksdb::Slice& target) override {
    move([&] { at_->seek(view_of(target)); });
    stay_within(target);
  }
  void SeekForPrev(const rocksdb::Slice& target) override {
    move([&] { at_->seek_for_prev(view_of(target)); });
    stay_within(target);
  }
  void Next() override { at_->next(); }
  void Prev() override { at_->prev(); }
  rocksdb::Slice key() const override { return slice_of(at_->key()); }
  rocksdb::Slice value() const override { return slice_of(at_->value()); }
  rocksdb::Status status() const override {
    return made_.ok() ? rocks_status(at_->status()) : made_;
  }
  rocksdb::Status Refresh() override {
    if (range_.snapshot != nullptr) {
      return rocksdb::Status::NotSupported("Refresh() of an iterator over a snapshot");
    }
    made_ = make();
    return made_;
  }

 private:
  rocksdb::Status make() {
    prefix_.reset();
    return rocks_status(db_.iterate(range_, at_));
  }
  template <class How>
  void move(How&& how) {
    prefix_.reset();
    if (made_.ok()) how();
  }
  void stay_within(const rocksdb::Slice& target) {
    if (prefixes_ != nullptr && prefixes_->InDomain(target)) {
      prefix_ = prefixes_->Transform(target).ToString();
    }
  }

  // What has no bound on its side is sought by the key that it finds.
  void stay_within(const std::optional<std::string>& bound) {
    if (bound) {
      stay_within(rocksdb::Slice(*bound));
    } else if (Valid()) {
      stay_within(key());
    }
  }

  Db& db_;
  const std::shared_ptr<const rocksdb::SliceTransform> prefixes_;
  DbRange range_;
  std::unique_ptr<DbIterator> at_;
  rocksdb::Status made_;
  std::optional<std::string> prefix_;
};

}  // namespace isotherm
