// A Db by its face. What it answers is compared with RocksDB in tests/db/db_oracle.cc.
#include "isotherm/db.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "db/db_state.h"
#include "device_checks/test_size.h"
#include "durability/record.h"
#include "isotherm/db_transaction.h"
#include "items/poison.h"
#include "models/db_fixture.h"

namespace isotherm::db_test {
namespace {

class DbTest : public DbFixture {};

TEST_F(DbTest, WhatIsWrittenIsThereAfterAReopen) {
  put("b", "2");
  put("a", "1");
  put("", "no key");
  put("c", "");
  EXPECT_TRUE(db_->erase("b").ok());
  EXPECT_TRUE(db_->erase("never").ok());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(get("a") + get("b") + get("c") + get(""), "1not foundno key");
    EXPECT_EQ(all(), "=no key a=1 c= ");
    ASSERT_TRUE(open().ok());
  }
}

TEST_F(DbTest, AFolderIsOpenOnce) {
  std::unique_ptr<Db> other;
  const DbStatus twice = Db::open(options_, folder_, other);
  EXPECT_EQ(code(twice), Code::failed);
  EXPECT_EQ(twice.text(), "tree: " + folder_ +
                              "/tree is open already, in this program: use what has it open, or "
                              "close that before");
  EXPECT_EQ(other, nullptr);
  // By any of its names, and it goes on as it was.
  std::filesystem::create_directory_symlink(folder_, root_ + "/link");
  for (const std::string& name : {folder_ + "/", root_ + "/./db", root_ + "/link",
                                  std::filesystem::relative(std::string(folder_)).string()}) {
    EXPECT_EQ(Db::open(options_, name, other).text(), twice.text()) << name;
  }
  put("a", "1");
  ASSERT_TRUE(db_->flush().ok());
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(all(), "a=1 ");
  DbOptions wrong;
  wrong.merges[1] = [](auto, auto, auto, auto&) { return true; };
  EXPECT_EQ(code(Db::open(wrong, root_ + "/other", other)), Code::invalid);
  wrong = {};
  wrong.most_calls = 0;
  EXPECT_EQ(code(Db::open(wrong, root_ + "/other", other)), Code::invalid);
  wrong = {};
  wrong.start_threads = 100'000;
  EXPECT_EQ(code(Db::open(wrong, root_ + "/other", other)), Code::invalid);
  wrong = {};
  wrong.sync = static_cast<DbSync>(9);
  EXPECT_EQ(code(Db::open(wrong, root_ + "/other", other)), Code::invalid);
}

TEST_F(DbTest, StaysWhereItIsWhenTheProgramGoesToAnotherFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(root_);
  std::unique_ptr<Db> other;
  ASSERT_TRUE(Db::open(options_, "relative", other).ok());
  std::filesystem::current_path(before);
  EXPECT_EQ(other->put("a", "1").text() + other->sync().text() + other->flush().text(), "");
  EXPECT_EQ(other->checkpoint(root_ + "/copy").text(), "");
  other.reset();
  ASSERT_TRUE(Db::open(options_, root_ + "/relative", other).ok());
  EXPECT_EQ(all(*other), "a=1 ");
}

TEST_F(DbTest, OptionsOfTheTreeThatWouldLoseKeysAreRefused) {
  for (const char* options :
       {"comparator=rocksdb.ReverseBytewiseComparator", "compaction_style=kCompactionStyleFIFO",
        "table_factory=PlainTable"}) {
    DbOptions wrong = options_;
    wrong.tree_options = options;
    std::unique_ptr<Db> other;
    EXPECT_EQ(code(Db::open(wrong, root_ + "/other", other)), Code::failed) << options;
  }
}

TEST_F(DbTest, AMergeThatIsRefusedWritesNothing) {
  put("text", "abc");
  WriteGroup group;
  group.put("other", "1");
  group.merge("sum", merge_by::add_u64, std::string(8, '\1'));
  group.merge("text", merge_by::add_u64, std::string(8, '\1'));
  EXPECT_EQ(code(db_->write(group)), Code::merge_failed);
  EXPECT_EQ(all(), "text=abc ");
  EXPECT_EQ(code(db_->merge("text", 99, "")), Code::invalid);
  ASSERT_TRUE(db_->merge("text", merge_by::append, "d").ok());
  // In the order of the group: what it has put, erased and merged before.
  group.clear();
  group.put("text", "x");
  group.merge("text", merge_by::append, "y");
  group.merge("gone", merge_by::append, "z");
  group.erase("gone");
  group.put("a", "1");
  group.merge("text", merge_by::min, "xx");
  ASSERT_TRUE(db_->write(group).ok());
  EXPECT_EQ(all(), "a=1 text=xx ");
}

TEST_F(DbTest, AFunctionThatThrowsWritesNothing) {
  options_.merges[merge_by::first_own] = [](auto, auto, auto, auto&) -> bool {
    throw std::runtime_error("no");
  };
  options_.merges[merge_by::first_own + 1] = [](auto, auto, auto, auto&) -> bool { throw 1; };
  options_.merges[merge_by::first_own + 2] = [](auto, auto, auto, auto&) -> bool {
    throw std::bad_alloc();
  };
  ASSERT_TRUE(open().ok());
  const Code codes[] = {Code::merge_failed, Code::merge_failed, Code::out_of_memory};
  for (uint32_t i = 0; i < std::size(codes); ++i) {
    const uint32_t function = merge_by::first_own + i;
    EXPECT_EQ(code(db_->merge("a", function, "")), codes[i]) << i;
    EXPECT_EQ(get("a"), "not found");
    // A transaction calls it when it reads, too.
    const auto transaction = begin();
    std::string value;
    EXPECT_TRUE(transaction->merge("a", function, "").ok());
    EXPECT_EQ(code(transaction->get("a", value)), codes[i]) << i;
    EXPECT_EQ(code(transaction->commit()), codes[i]) << i;
  }
}

TEST_F(DbTest, ACheckpointOpensAndIsADbOfItsOwn) {
  put("a", "1");
  const std::string folder = root_ + "/checkpoint";
  ASSERT_TRUE(db_->checkpoint(folder).ok());
  EXPECT_EQ(code(db_->checkpoint(folder)), Code::invalid);
  std::filesystem::create_directory_symlink(root_, root_ + "/link");
  const std::string own = std::filesystem::relative(std::string(folder_), root_).string();
  for (const std::string& inside :
       std::vector<std::string>{folder_ + "/tree/copy", folder_ + "/./tree/../tree/a/copy",
                                root_ + "/link/" + own + "/tree/copy"}) {
    EXPECT_EQ(db_->checkpoint(inside).text(), inside + " is among the files of this Db's own tree");
    EXPECT_FALSE(std::filesystem::exists(inside));
  }
  put("a", "2");
  std::unique_ptr<Db> other;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Db::open(options_, folder, other).ok());
    EXPECT_EQ(get(*other, "a"), i == 0 ? "1" : "3");
    ASSERT_TRUE(other->put("a", "3").ok());
    other.reset();
  }
  EXPECT_EQ(get("a"), "2");
}

// Two keys are always changed together, by groups and by transactions that move between them.
TEST_F(DbTest, NobodySeesHalfOfAGroup) {
  put("x", "50");
  put("y", "50");
  std::atomic<int> running{3};
  std::vector<std::thread> threads;
  for (const bool locks : {true, false}) {
    threads.emplace_back([&, locks] {
      for (int done = 0; done < 60;) {
        std::unique_ptr<DbTransaction> transaction = begin({.locks = locks, .timeout_ms = -1});
        std::string x;
        std::string y;
        ASSERT_TRUE(transaction->get_for_update("x", x).ok());
        ASSERT_TRUE(transaction->get_for_update("y", y).ok());
        const int amount = done % 7 - 3;
        ASSERT_TRUE(transaction->put("x", std::to_string(std::stoi(x) - amount)).ok());
        ASSERT_TRUE(transaction->put("y", std::to_string(std::stoi(y) + amount)).ok());
        const DbStatus status = transaction->commit();
        ASSERT_TRUE(status.ok() || status.is(Code::busy)) << status.text();
        done += status.ok();
      }
      --running;
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(db_->flush().ok());
    --running;
  });
  while (running != 0) {
    std::vector<std::string> values;
    for (const DbStatus& status : db_->multi_get({"x", "y"}, values)) ASSERT_TRUE(status.ok());
    ASSERT_EQ(std::stoi(values[0]) + std::stoi(values[1]), 100);
    Db::Pairs pairs;
    ASSERT_TRUE(db_->range("x", {}, 9, pairs).ok());
    ASSERT_EQ(pairs.size(), 2u);
    ASSERT_EQ(std::stoi(pairs[0].second) + std::stoi(pairs[1].second), 100);
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(DbTest, ThreadsLoseNoMerge) {
  options_.memory = 4 << 20;
  ASSERT_TRUE(open().ok());
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      const std::string one("\1\0\0\0\0\0\0\0", 8);
      for (int round = 0; round < 200; ++round) {
        WriteGroup group;
        group.merge("n1", merge_by::add_u64, one);
        group.merge("n" + std::to_string(round % 3), merge_by::add_u64, one);
        ASSERT_TRUE(db_->write(group).ok());
        if (round % 50 != 0) continue;
        ASSERT_TRUE(db_->flush().ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto number = [&](const char* key) {
    uint64_t its = 0;
    const std::string text = get(key);
    EXPECT_EQ(text.size(), sizeof its);
    std::memcpy(&its, text.data(), sizeof its);
    return its;
  };
  EXPECT_EQ(number("n0") + number("n1") + number("n2"), 1200u);
  EXPECT_EQ(number("n2"), 198u);
}

// ---- Transactions ----

TEST_F(DbTest, ATransactionIsBusyWhereWhatItReadWasChanged) {
  for (const bool locks : {false, true}) {
    put("a", "1");
    auto transaction = begin({.locks = locks});
    EXPECT_TRUE(transaction->get_for_update("a", value_).ok());
    EXPECT_TRUE(transaction->get_for_update("absent", value_).is_not_found());
    EXPECT_TRUE(transaction->put("b", "1").ok());
    put("a", "1");
    EXPECT_EQ(code(transaction->commit()), Code::busy);
    EXPECT_EQ(get("b"), "not found");
    EXPECT_EQ(code(transaction->commit()), Code::invalid);
    EXPECT_EQ(code(transaction->put("b", "1")), Code::invalid);

    transaction = begin({.locks = locks});
    EXPECT_TRUE(transaction->get_for_update("absent", value_).is_not_found());
    EXPECT_TRUE(transaction->put("b", "1").ok());
    put("absent", "1");
    EXPECT_EQ(code(transaction->commit()), Code::busy);
    EXPECT_TRUE(db_->erase("absent").ok());

    // What it has only got conflicts with nobody, and so do keys that it has not read.
    transaction = begin({.locks = locks});
    EXPECT_TRUE(transaction->get("a", value_).ok());
    EXPECT_TRUE(transaction->get_for_update("c", value_).is_not_found());
    EXPECT_TRUE(transaction->put("b", "2").ok());
    put("a", "2");
    put("b", "3");
    EXPECT_TRUE(transaction->commit().ok());
    EXPECT_EQ(get("b"), "2");
    EXPECT_TRUE(db_->erase("b").ok());
  }
}

TEST_F(DbTest, ATransactionSeesItsOwnChangesAndForgetsThemBehindASavepoint) {
  put("a", "1");
  auto transaction = begin();
  EXPECT_TRUE(transaction->merge("a", merge_by::append, "2").ok());
  EXPECT_EQ(code(transaction->merge("a", 99, "2")), Code::invalid);
  EXPECT_TRUE(transaction->get("a", value_).ok());
  EXPECT_EQ(value_, "12");
  EXPECT_TRUE(transaction->set_savepoint().ok());
  EXPECT_TRUE(transaction->erase("a").ok());
  EXPECT_TRUE(transaction->put("b", "1").ok());
  EXPECT_TRUE(transaction->get("a", value_).is_not_found());
  EXPECT_TRUE(transaction->rollback_to_savepoint().ok());
  EXPECT_TRUE(transaction->rollback_to_savepoint().is_not_found());
  EXPECT_TRUE(transaction->get("b", value_).is_not_found());
  EXPECT_EQ(get("a"), "1");
  EXPECT_TRUE(transaction->commit().ok());
  EXPECT_EQ(all(), "a=12 ");
}

TEST_F(DbTest, ASnapshotOfATransactionShowsItsBeginAndSaysWhatIsOlder) {
  put("a", "1");
  for (const bool locks : {false, true}) {
    put("a", "1");
    auto transaction = begin({.locks = locks, .snapshot = true});
    put("a", "2");
    put("new", "1");
    EXPECT_TRUE(transaction->get("a", value_).ok());
    EXPECT_EQ(value_, "1");
    EXPECT_TRUE(transaction->get("new", value_).is_not_found());
    EXPECT_EQ(code(transaction->get_for_update("a", value_)), Code::busy);
    EXPECT_EQ(code(transaction->get_for_update("new", value_)), Code::busy);
    EXPECT_EQ(code(transaction->put("a", "3")), locks ? Code::busy : Code::ok);
    EXPECT_TRUE(transaction->get_for_update("other", value_).is_not_found());
    EXPECT_TRUE(db_->erase("new").ok());
  }
}

TEST_F(DbTest, ALockedKeyIsWaitedFor) {
  auto first = begin({.locks = true});
  auto second = begin({.locks = true, .timeout_ms = 0});
  EXPECT_TRUE(first->put("a", "1").ok());
  EXPECT_EQ(code(second->put("a", "2")), Code::timed_out);
  EXPECT_EQ(code(second->get_for_update("a", value_)), Code::timed_out);
  EXPECT_TRUE(second->get("a", value_).is_not_found());
  EXPECT_TRUE(first->commit().ok());
  EXPECT_TRUE(second->put("a", "2").ok());
  auto third = begin({.locks = true, .timeout_ms = -1});
  EXPECT_TRUE(third->put("b", "1").ok());
  std::thread waits([&] {
    const DbStatus status = third->put("a", "3");
    EXPECT_TRUE(status.ok() || status.is(Code::deadlock));
    third->rollback();
  });
  DbStatus status = second->put("b", "2");
  while (status.is(Code::timed_out)) status = second->put("b", "2");
  second.reset();
  waits.join();
  EXPECT_EQ(get("a"), "1");
}

// ---- Disks ----

// What a machine would find that loses its power, with nothing that was not synced.
TEST_F(DbTest, WhatWasAnsweredIsThereAfterALossOfPower) {
  options_.sync = DbSync::always;
  ASSERT_TRUE(open().ok());
  for (int i = 0; i < 20; ++i) {
    WriteGroup group;
    for (int j = 0; j < 5; ++j) group.put("key" + std::to_string(j), std::to_string(i));
    group.merge("log", merge_by::append, std::to_string(i % 10));
    ASSERT_TRUE(db_->write(group).ok());
  }
  const std::unique_ptr<Db> other = open_after_power_loss(true);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(all(*other), "key0=19 key1=19 key2=19 key3=19 key4=19 log=01234567890123456789 ");
}

TEST_F(DbTest, WhatWasSyncedIsThereAfterALossOfPower) {
  put("synced", "1");
  ASSERT_TRUE(db_->sync().ok());
  const std::unique_ptr<Db> other = open_after_power_loss(true);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(all(*other), "synced=1 ");
  files_.fail_after(0, 1'000'000, EIO);
  EXPECT_EQ(code(db_->sync()), Code::not_saved);
}

TEST_F(DbTest, WhileTheDiskFailsWritesAreNotSavedAndReadsGoOn) {
  options_.sync = DbSync::always;
  ASSERT_TRUE(open().ok());
  put("a", "1");
  files_.fail_after(0, 1'000'000, EIO);
  DbStatus status = db_->put("b", "2");
  EXPECT_EQ(code(status), Code::not_saved) << status.text();
  EXPECT_EQ(get("a"), "1");
  auto transaction = begin();
  EXPECT_TRUE(transaction->put("c", "1").ok());
  EXPECT_EQ(code(transaction->commit()), Code::not_saved);
  transaction.reset();
  files_.heal();
  while (status.is(Code::not_saved)) status = db_->put("b", "3");
  EXPECT_TRUE(status.ok()) << status.text();
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(get("a") + get("b"), "13");
}

TEST_F(DbTest, AJournalThatIsDamagedIsRefusedWithItsName) {
  put("a", "1");
  db_.reset();
  for (const auto& one : std::filesystem::directory_iterator(folder_)) {
    if (one.is_regular_file() && one.path().extension() != ".lock") {
      std::ofstream(one.path(), std::ios::trunc) << "no journal";
    }
  }
  const DbStatus status = open();
  EXPECT_EQ(code(status), Code::failed);
  EXPECT_NE(status.text().find("journal"), std::string::npos) << status.text();
}

TEST_F(DbTest, WhatCannotBeOpenedSaysWhyAndStaysAsItIs) {
  const auto why = [&](const std::string& folder) {
    std::unique_ptr<Db> other;
    const DbStatus status = Db::open(options_, folder, other);
    EXPECT_EQ(other, nullptr);
    return std::string(to_string(status.code())) + ": " + std::string(status.text());
  };
  const std::string file = root_ + "/file";
  std::ofstream(file) << "text";
  EXPECT_EQ(why(file), "failed: cannot make the folder '" + file + "': Not a directory");
  EXPECT_EQ(why(""), "failed: cannot make the folder '': Invalid argument");
  EXPECT_EQ(db_->checkpoint("").text(), "cannot make the folder '': Invalid argument");
  const std::string zero = root_ + std::string("/a\0b", 4);
  EXPECT_EQ(why(zero), "invalid: the name of the folder has a zero byte");
  EXPECT_EQ(code(db_->checkpoint(zero)), Code::invalid);
  EXPECT_EQ(db_->checkpoint(file + "/copy").text(),
            "cannot make the folder '" + file + "/copy': Not a directory");
  EXPECT_EQ(std::filesystem::file_size(file), 4u);
  const std::string foreign = root_ + "/foreign";
  std::filesystem::create_directories(foreign);
  std::ofstream(foreign + "/CURRENT") << "MANIFEST-000001";
  EXPECT_EQ(why(foreign), "invalid: " + foreign +
                              " is a database of RocksDB's own; copy its keys into a Db in another "
                              "folder");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(foreign), {}), 1);
  options_.memory = DbOptions::least_memory - 1;
  EXPECT_EQ(why(root_ + "/new"),
            "invalid: memory must be 0, for no cap, or at least 2097152 bytes");
  EXPECT_FALSE(std::filesystem::exists(root_ + "/new"));
}

// Also than what usual groups may take beyond it.
TEST_F(DbTest, AGroupMayBeLargerThanMemory) {
  options_.memory = DbOptions::least_memory;
  ASSERT_TRUE(open().ok());
  WriteGroup group;
  const std::string value(1 << 20, 'v');
  for (int i = 0; i < 105; ++i) group.put("key" + std::to_string(i), value);
  ASSERT_TRUE(db_->write(group).ok());
  EXPECT_EQ(get("key0").size() + get("key104").size(), 2 * value.size());
  put("small", "1");
  const DbStatus status = open();
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(get("key0").size() + get("key104").size(), 2 * value.size());
  EXPECT_EQ(get("small"), "1");
}

// As many keys as the index has no place for when it begins; five million operations on request. A
// start on its journal alone has all of it, and on a torn one nothing.
TEST_F(DbTest, ATransactionOfVeryManyOperationsIsWholeAfterACrash) {
  const uint64_t changes = test_size(poison::sanitized ? 2'000 : 40'000, 2'500'000);
  const bool in_one_run = changes < 100'000;  // so nothing says yet that it was on disk
  options_.memory = 1 << 30;
  ASSERT_TRUE(open().ok());
  put("key5", "before");
  // The files stay as they are, and so does the journal.
  std::filesystem::remove_all(folder_ + "/tree/incoming");
  const auto key_of = [](uint64_t number) { return "key" + std::to_string(number); };
  auto transaction = begin();
  std::string value;
  for (uint64_t i = 0; i < changes; ++i) {
    const bool there = transaction->get(key_of(i), value).ok();
    ASSERT_EQ(there, i == 5);
    ASSERT_TRUE(transaction->put(key_of(i), std::to_string(i)).ok());
  }
  ASSERT_TRUE(transaction->commit().ok());
  const auto count_in = [&](Db& db) {
    std::unique_ptr<DbIterator> at;
    EXPECT_TRUE(db.iterate({}, at).ok());
    uint64_t found = 0;
    for (at->seek_to_first(); at->valid(); at->next()) {
      found += at->key().substr(3) == at->value() ? 1 : 0;
    }
    return found;
  };
  EXPECT_EQ(count_in(*db_), changes);
  for (const bool torn : {false, true}) {
    if (torn && !in_one_run) continue;
    const std::string left = root_ + (torn ? "/torn" : "/left");
    std::filesystem::create_directories(left);
    std::string last;
    int last_number = 0;
    for (const auto& one : std::filesystem::directory_iterator(folder_)) {
      if (!one.is_regular_file()) continue;
      const std::string copy = left + "/" + one.path().filename().string();
      std::filesystem::copy_file(one.path(), copy);
      const int number = std::atoi(one.path().extension().string().substr(1).c_str());
      if (number <= last_number) continue;
      last_number = number;
      last = copy;
    }
    if (torn) {
      const uint64_t bytes = std::filesystem::file_size(last);
      std::filesystem::resize_file(last, record_bytes(4, 6) * changes / 2);
      std::filesystem::resize_file(last, bytes);
    }
    std::unique_ptr<Db> other;
    const DbStatus status = Db::open(options_, left, other);
    ASSERT_TRUE(status.ok()) << status.text();
    EXPECT_EQ(count_in(*other), torn ? 0 : changes);
    EXPECT_EQ(get(*other, "key5"), torn ? "before" : "5");
  }
}

}  // namespace
}  // namespace isotherm::db_test
