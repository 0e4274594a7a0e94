// ExpiryFilter: what has expired goes for good when RocksDB merges files.
//
// Threads. Those of RocksDB, several at a time.
#pragma once

#include <rocksdb/compaction_filter.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "tree/rocksdb_views.h"
#include "tree/tree_record.h"

namespace isotherm {

class ExpiryFilter final : public rocksdb::CompactionFilter {
 public:
  explicit ExpiryFilter(std::function<int64_t()> now_ms) : now_ms_(std::move(now_ms)) {}
  const char* Name() const override { return "isotherm.expiry"; }
  // Most records never expire, so that they are not asked for the time, which takes longer.
  bool Filter(int /*level*/, const rocksdb::Slice& /*key*/, const rocksdb::Slice& value,
              std::string* /*new_value*/, bool* /*value_changed*/) const override {
    TreeRecord record;
    return record.read(text_in(value)) && record.expiry != no_expiry && record.expired(now_ms_());
  }

 private:
  const std::function<int64_t()> now_ms_;
};

}  // namespace isotherm
