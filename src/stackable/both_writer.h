// BothWriter: writes of a RocksDb (stackable/rocks_db.h) that change the default column family,
// which is a Db, and others, which are RocksDB's own: whole, or not at all, also across a crash.
//
//   group and intent ─▶ Db ─▶ synced ─▶ the others' changes and the number ─▶ RocksDB
// The intent is the others' changes with a number that grows with each such write; RocksDB has the
// number of the last that it took in, in the default column family of its own, which nothing else
// uses. What has a higher number at the next open was cut off in between, and is finished then;
// since RocksDB takes changes and number at once, that happens once, merges too.
//
// Intents stay until there are many, or much of them, and are erased when RocksDB has synced its
// log; so no power loss takes from it what they would give back.
//
// A write that failed behind the Db's part is tried again before the next one, and at the
// next open. Until then reads show the default column family's part alone. What RocksDB would
// refuse at every try is refused before anything is written; of a write that was cut off, changes
// of a column family that was dropped since are left out.
//
// Threads. Any; such writes take turns. Whoever holds `turn` sees all or nothing of each.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "db/db_intents.h"
#include "isotherm/db.h"
#include "stackable/rocks_families.h"

namespace isotherm {

class BothWriter {
 public:
  using Status = rocksdb::Status;

  // Both outlive it. `syncs`: the Db syncs all that it writes.
  BothWriter(Db& db, rocksdb::DB& others, bool syncs)
      : db_(db), intents_(db), others_(others), syncs_(syncs) {}

  // What was cut off. Once, before all else.
  Status finish();
  Status write(const rocksdb::WriteOptions& how, const WriteGroup& group,
               rocksdb::WriteBatch& others);
  [[nodiscard]] std::unique_lock<std::mutex> turn() { return std::unique_lock(turn_); }
  // That RocksDB has.
  void note_families(const std::vector<rocksdb::ColumnFamilyHandle*>& families) {
    const auto turn = this->turn();
    for (rocksdb::ColumnFamilyHandle* const one : families) families_.add(*one);
  }
  // By `drop`, with no write under way.
  template <class Drop>
  Status drop(const std::vector<rocksdb::ColumnFamilyHandle*>& families, Drop&& drop) {
    const auto turn = this->turn();
    Status status = drop();
    for (const rocksdb::ColumnFamilyHandle* const one : families) {
      if (status.ok()) families_.drop(*one);
    }
    return status;
  }

 private:
  static constexpr uint32_t slots = 64;
  static constexpr uint64_t most_bytes = 4 << 20;

  Status write_others(const rocksdb::WriteOptions& how, uint64_t number,
                      rocksdb::WriteBatch& others);
  Status finish_last();
  Status erase_intents();

  Db& db_;
  DbIntents intents_;
  RocksFamilies families_;
  rocksdb::DB& others_;
  const bool syncs_;
  std::mutex turn_;
  uint64_t last_number_ = 0;
  uint32_t used_ = 0;  // slots
  uint64_t bytes_ = 0;
  std::string unfinished_;  // the intent that RocksDB has not taken in; empty: none
};

}  // namespace isotherm
