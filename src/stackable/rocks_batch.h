// RocksBatch: a WriteBatch of RocksDB as a group of a Db, and what it has of other column families.
//
// A range that is deleted becomes a deletion of each key that the Db has in it then, and of those
// that the batch has put there before; what others put there meanwhile may stay.
//
// Threads. Belongs to one at a time.
#pragma once

#include <rocksdb/write_batch.h>

#include <cstdint>
#include <memory>
#include <string>

#include "isotherm/db.h"
#include "stackable/rocks_families.h"
#include "stackable/rocks_words.h"

namespace isotherm {

class RocksBatch final : public rocksdb::WriteBatch::Handler {
 public:
  using Status = rocksdb::Status;
  using Slice = rocksdb::Slice;
  static constexpr uint32_t merge = merge_by::first_own;

  RocksBatch(Db& db, bool merges) : db_(db), merges_(merges) {}

  const WriteGroup& group() const { return group_; }
  rocksdb::WriteBatch& others() { return others_; }
  // Whether the batch has wide columns of others, which `others` lacks.
  bool has_entities() const { return has_entities_; }

  Status PutCF(uint32_t family, const Slice& key, const Slice& value) override {
    if (family != 0) return other(family, [&](auto* its) { return others_.Put(its, key, value); });
    group_.put(view_of(key), view_of(value));
    return Status::OK();
  }
  Status DeleteCF(uint32_t family, const Slice& key) override {
    if (family != 0) return other(family, [&](auto* its) { return others_.Delete(its, key); });
    group_.erase(view_of(key));
    return Status::OK();
  }
  Status SingleDeleteCF(uint32_t family, const Slice& key) override {
    if (family != 0) {
      return other(family, [&](auto* its) { return others_.SingleDelete(its, key); });
    }
    group_.erase(view_of(key));
    return Status::OK();
  }
  Status MergeCF(uint32_t family, const Slice& key, const Slice& value) override {
    if (family != 0) {
      return other(family, [&](auto* its) { return others_.Merge(its, key, value); });
    }
    if (!merges_) return Status::NotSupported("Provide a merge_operator when opening DB");
    group_.merge(view_of(key), merge, view_of(value));
    return Status::OK();
  }
  Status DeleteRangeCF(uint32_t family, const Slice& first, const Slice& end) override {
    if (family != 0) {
      return other(family, [&](auto* its) { return others_.DeleteRange(its, first, end); });
    }
    const int order = first.compare(end);
    if (order > 0) return Status::InvalidArgument("end key comes before start key");
    return order == 0 ? Status::OK() : erase(view_of(first), view_of(end));
  }
  Status PutEntityCF(uint32_t family, const Slice& /*key*/, const Slice& /*entity*/) override {
    if (family == 0) return Status::NotSupported("wide columns of the default column family");
    has_entities_ = true;
    return Status::OK();
  }
  void LogData(const Slice& blob) override { others_.PutLogData(blob); }

 private:
  template <class Add>
  static Status other(uint32_t family, Add&& add) {
    NumberedFamily its(family);
    return add(&its);
  }

  Status erase(std::string_view first, std::string_view end) {
    const size_t before = group_.size();
    for (size_t i = 0; i < before; ++i) {
      const std::string key(group_.row(i).key);
      if (first <= key && key < end) group_.erase(key);
    }
    DbRange range;
    range.lower = first;
    range.upper = end;
    std::unique_ptr<DbIterator> at;
    if (DbStatus made = db_.iterate(range, at); !made.ok()) return rocks_status(made);
    for (at->seek_to_first(); at->valid(); at->next()) group_.erase(at->key());
    return rocks_status(at->status());
  }

  Db& db_;
  const bool merges_;
  WriteGroup group_;
  rocksdb::WriteBatch others_;
  bool has_entities_ = false;
};

}  // namespace isotherm
