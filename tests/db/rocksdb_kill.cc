// A Db as a rocksdb::DB (isotherm/rocksdb.h) whose process is killed in the middle of batches for
// several column families: each is there in all of them as a whole, once, or in none.
//
//   rocksdb-kill [seed [rounds]]
// A batch of a generation puts its number in both families, and merges one more letter into a list
// of the second, which would have too many letters if a batch had come twice. Meanwhile a thread
// compares the families in snapshots.
#include <rocksdb/db.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "db/kill_rounds.h"
#include "isotherm/rocksdb.h"
#include "items/poison.h"

namespace {

using isotherm::Acknowledge;
using isotherm::fail;
using rocksdb::Status;

constexpr uint64_t keys = 8;

class Append final : public rocksdb::AssociativeMergeOperator {
 public:
  bool Merge(const rocksdb::Slice& /*key*/, const rocksdb::Slice* existing,
             const rocksdb::Slice& value, std::string* result,
             rocksdb::Logger* /*log*/) const override {
    *result = existing != nullptr ? existing->ToString() : std::string();
    result->append(value.data(), value.size());
    return true;
  }
  const char* Name() const override { return "append"; }
};

void expect_ok(const Status& status) {
  if (!status.ok()) fail(status.ToString());
}

// Both families of a folder.
struct Families {
  explicit Families(const std::string& folder, uint64_t seed) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    options.merge_operator = std::make_shared<Append>();
    isotherm::DbOptions more;
    more.memory = 8 << 20;
    more.sync = seed % 2 == 0 ? isotherm::DbSync::always : isotherm::DbSync::no;
    rocksdb::DB* opened = nullptr;
    expect_ok(
        isotherm::open_rocksdb(rocksdb::DBOptions(options), folder,
                               {{rocksdb::kDefaultColumnFamilyName, options}, {"other", options}},
                               &handles, &opened, more));
    db.reset(opened);
  }
  ~Families() {
    for (auto* const one : handles) expect_ok(db->DestroyColumnFamilyHandle(one));
  }
  Families(const Families&) = delete;
  Families& operator=(const Families&) = delete;

  std::string get(size_t family, const std::string& key, const rocksdb::ReadOptions& how) {
    std::string value;
    const Status status = db->Get(how, handles[family], key, &value);
    if (!status.ok() && !status.IsNotFound()) fail(status.ToString());
    return value;
  }
  // The generation of all that is there in a snapshot, or now.
  uint64_t check(const rocksdb::ReadOptions& how = {}) {
    const std::string generation = get(0, "0", how);
    for (uint64_t key = 0; key < keys; ++key) {
      for (const size_t family : {0, 1}) {
        const std::string found = get(family, std::to_string(key), how);
        if (found != generation) fail("generation " + found + " beside " + generation);
      }
    }
    const uint64_t number = generation.empty() ? 0 : std::stoull(generation);
    const std::string list = get(1, "list", how);
    if (list.size() != number) fail("merged " + std::to_string(list.size()) + " of " + generation);
    return number;
  }

  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  std::unique_ptr<rocksdb::DB> db;
};

void work(const std::string& folder, uint64_t seed, const Acknowledge& acknowledge) {
  Families families(folder, seed);
  uint64_t generation = families.check();
  std::thread reader([&] {
    for (;;) {
      rocksdb::ReadOptions how;
      how.snapshot = families.db->GetSnapshot();
      if (how.snapshot == nullptr) fail("no snapshot");
      families.check(how);
      families.db->ReleaseSnapshot(how.snapshot);
    }
  });
  for (;;) {
    const std::string number = std::to_string(++generation);
    rocksdb::WriteBatch batch;
    for (uint64_t key = 0; key < keys; ++key) {
      expect_ok(batch.Put(std::to_string(key), number));
      expect_ok(batch.Put(families.handles[1], std::to_string(key), number));
    }
    expect_ok(batch.Merge(families.handles[1], "list", "x"));
    expect_ok(families.db->Write(rocksdb::WriteOptions(), &batch));
    acknowledge(generation);
  }
}

uint64_t look(const std::string& folder, uint64_t seed) {
  Families families(folder, seed);
  return families.check();
}

}  // namespace

int main(int count, char** arguments) {
  return isotherm::kill_rounds(count, arguments, isotherm::poison::sanitized ? 6 : 15, work, look);
}
