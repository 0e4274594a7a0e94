// RocksFamilies: the column families that are RocksDB's own, and what each of them may be asked.
//
// RocksDB looks at a batch's changes after it has written them to its log, and what it refuses then
// leaves it failed until it is opened again. Of a batch for a Db as well the Db has its part by
// then, and the rest would be refused at every later try. So these are looked at before.
//
// Threads. One at a time.
#pragma once

#include <rocksdb/comparator.h>
#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <cstdint>
#include <map>
#include <string>

namespace isotherm {

// A handle that has nothing but the number that a batch writes down.
class NumberedFamily final : public rocksdb::ColumnFamilyHandle {
 public:
  explicit NumberedFamily(uint32_t number) : number_(number) {}
  const std::string& GetName() const override { return name_; }
  uint32_t GetID() const override { return number_; }
  rocksdb::Status GetDescriptor(rocksdb::ColumnFamilyDescriptor* /*to*/) override {
    return rocksdb::Status::NotSupported();
  }
  const rocksdb::Comparator* GetComparator() const override {
    return rocksdb::BytewiseComparator();
  }

 private:
  const uint32_t number_;
  const std::string name_;
};

class RocksFamilies {
 public:
  void add(rocksdb::ColumnFamilyHandle& family);
  void drop(const rocksdb::ColumnFamilyHandle& family) { all_.erase(family.GetID()); }
  // Why RocksDB would refuse a change of the batch.
  rocksdb::Status check(const rocksdb::WriteBatch& batch) const;
  // The batch without those that it would refuse.
  rocksdb::WriteBatch fit_part(const rocksdb::WriteBatch& batch) const;

 private:
  struct Family {
    bool merges;
    bool erases_ranges;
    const rocksdb::Comparator* order;
  };
  class Reader;

  std::map<uint32_t, Family> all_;
};

}  // namespace isotherm
