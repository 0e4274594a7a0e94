// How RocksDB says what a Db (isotherm/db.h) says: texts and statuses.
//
// Threads. Functions of their arguments.
#pragma once

#include <rocksdb/slice.h>
#include <rocksdb/status.h>

#include <string_view>

#include "isotherm/db_status.h"

namespace isotherm {

inline std::string_view view_of(const rocksdb::Slice& text) { return {text.data(), text.size()}; }
inline rocksdb::Slice slice_of(std::string_view text) { return {text.data(), text.size()}; }

inline rocksdb::Status rocks_status(const DbStatus& status) {
  using enum DbStatus::Code;
  switch (status.code()) {
    case ok:
      return rocksdb::Status::OK();
    case not_found:
      return rocksdb::Status::NotFound();
    case busy:
      return rocksdb::Status::Busy(status.text());
    case timed_out:
      return rocksdb::Status::TimedOut(rocksdb::Status::SubCode::kLockTimeout);
    case deadlock:
      return rocksdb::Status::Busy(rocksdb::Status::SubCode::kDeadlock);
    case invalid:
      return rocksdb::Status::InvalidArgument(status.text());
    case out_of_memory:
      return rocksdb::Status::MemoryLimit(status.text());
    case merge_failed:
    case corrupt:
      return rocksdb::Status::Corruption(status.text());
    case not_saved:
    case failed:
      break;
  }
  return rocksdb::Status::IOError(status.text());
}

}  // namespace isotherm
