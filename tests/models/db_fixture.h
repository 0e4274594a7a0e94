// DbFixture: for tests of a Db (isotherm/db.h) in a folder of its own, on files that may fail.
//
// Threads. The test's.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "db/db_state.h"
#include "isotherm/db_transaction.h"
#include "models/faulty_files.h"

namespace isotherm {

class DbFixture : public ::testing::Test {
 protected:
  using Code = DbStatus::Code;

  DbFixture() {
    std::string path = std::filesystem::temp_directory_path() / "isotherm-db-XXXXXX";
    root_ = ::mkdtemp(path.data());
    folder_ = root_ + "/db";
    options_.memory = 64 << 20;
    options_.sync = DbSync::no;
  }
  ~DbFixture() override { std::filesystem::remove_all(root_); }
  void SetUp() override {
    const DbStatus status = open();
    if (status.text().find("without RocksDB") != std::string::npos) {
      GTEST_SKIP() << "built without RocksDB";
    }
    ASSERT_TRUE(status.ok()) << status.text();
  }
  // Before what a test's fixture adds.
  void TearDown() override { db_.reset(); }
  DbStatus open() {
    db_.reset();
    return open_db(options_, folder_, files_, db_, make_sorted_);
  }
  static Code code(const DbStatus& status) { return status.code(); }
  void put(const std::string& key, const std::string& value) {
    const DbStatus status = db_->put(key, value);
    ASSERT_TRUE(status.ok()) << status.text();
  }
  static std::string get(Db& db, const std::string& key, const DbReadOptions& how = {}) {
    std::string value;
    const DbStatus status = db.get(key, value, how);
    return status.ok() ? value : std::string(to_string(status.code()));
  }
  std::string get(const std::string& key) { return get(*db_, key); }
  std::string all(const DbRange& range = {}) { return all(*db_, range); }
  static std::string all(Db& db, const DbRange& range = {}) {
    std::unique_ptr<DbIterator> at;
    EXPECT_TRUE(db.iterate(range, at).ok());
    std::string text;
    for (at->seek_to_first(); at->valid(); at->next()) {
      text.append(at->key()).append("=").append(at->value()).append(" ");
    }
    EXPECT_TRUE(at->status().ok());
    return text;
  }
  std::unique_ptr<DbTransaction> begin(const DbTransactionOptions& options = {}) {
    std::unique_ptr<DbTransaction> transaction;
    EXPECT_TRUE(db_->begin(options, transaction).ok());
    return transaction;
  }
  // Opens what a machine would find that lost its power now (FaultyFiles::lose_power).
  std::unique_ptr<Db> open_after_power_loss(bool luckless) {
    const std::string left = root_ + "/left" + std::to_string(power_losses_++);
    std::filesystem::create_directories(left);
    files_.lose_power(folder_, left, luckless);
    std::unique_ptr<Db> other;
    const DbStatus status = Db::open(options_, left, other);
    EXPECT_TRUE(status.ok()) << status.text();
    return other;
  }

  std::string root_;
  std::string folder_;
  DbOptions options_;
  SortedTierMaker make_sorted_;  // for options_.gpu_memory; null: a GPU does
  FaultyFiles files_{1};
  int power_losses_ = 0;
  std::string value_;
  std::unique_ptr<Db> db_;
};

}  // namespace isotherm
